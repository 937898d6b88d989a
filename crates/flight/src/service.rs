//! The calls of Flight SQL.

use crate::caller::Caller;
use crate::ingest::{self, Piece, Target};
use crate::metadata::Question;
use crate::prepared::ROWS_MAX;
use crate::received::Received;
use crate::rows::{Messages, begin, schema_bytes};
use crate::shared::{Shared, SharedState};
use crate::status::{internal, of_query, shutting_down, status, unsupported};
use crate::ticket::{Bad, Purpose};
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command,
    CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult,
    ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, Result as ActionResult,
    Ticket,
};
use futures::StreamExt;
use futures::stream::{BoxStream, iter};
use prost::Message;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use tapedb_query::Description;
use tapedb_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::channel;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status, Streaming};

/// The action that cancels what a ticket began.
const CANCEL: &str = "CancelFlightInfo";
/// The action that ends the token of a handshake.
const CLOSE_SESSION: &str = "CloseSession";
/// A client that sends nothing of its upload for so long is given up.
const UPLOAD_TIME: Duration = Duration::from_secs(30);
/// How often it is looked whether the server stops, while something is waited for.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Messages of an upload that wait to be stored.
const UPLOAD_WAITING: usize = 1;

/// The calls of Flight SQL, over what all calls share.
#[derive(Clone)]
pub(crate) struct Service(pub Shared);

type GetStream = <Service as FlightService>::DoGetStream;
type InfoResult = Result<Response<FlightInfo>, Status>;
type GetResult = Result<Response<GetStream>, Status>;

impl Service {
    /// The columns and parameters of a query.
    async fn describe(&self, caller: &Caller, text: String) -> Result<Description, Status> {
        let (user, _) = caller.query_user(&self.0)?;
        let queries = self.0.options.queries.clone();
        let described =
            spawn_blocking(move || queries.describe(&text, true, &user)).await.map_err(internal)?;
        described.map_err(|error| of_query(&error))
    }

    /// What tells a client how to get rows.
    fn info(
        &self,
        caller: &Caller,
        purpose: &Purpose,
        schema: Option<&SchemaRef>,
        descriptor: FlightDescriptor,
    ) -> InfoResult {
        let (handle, ends) =
            self.0.tickets.seal(&caller.name, purpose, SystemTime::now()).map_err(internal)?;
        let ticket = TicketStatementQuery { statement_handle: handle.into() };
        let ticket = Ticket::new(ticket.as_any().encode_to_vec());
        let mut endpoint = FlightEndpoint::new().with_ticket(ticket);
        endpoint.expiration_time = Some(prost_time(ends));
        let mut info = FlightInfo::new().with_descriptor(descriptor).with_endpoint(endpoint);
        if let Some(schema) = schema {
            let IpcMessage(bytes) = schema_bytes(schema)?;
            info.schema = bytes;
        }
        Ok(Response::new(info))
    }

    /// The same for a question about the server, whose ticket is the question.
    fn asked_info(&self, question: Question, request: Request<FlightDescriptor>) -> InfoResult {
        Caller::of(&request)?.present()?;
        let descriptor = request.into_inner();
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(descriptor.cmd.clone()));
        let info = FlightInfo::new()
            .try_with_schema(&question.schema(&self.0))
            .map_err(internal)?
            .with_descriptor(descriptor)
            .with_endpoint(endpoint);
        Ok(Response::new(info))
    }

    async fn answer(&self, question: Question, request: Request<Ticket>) -> GetResult {
        let caller = Caller::of(&request)?;
        Ok(Response::new(question.answer(&self.0, &caller).await?))
    }

    async fn rows(&self, handle: &[u8], request: Request<Ticket>) -> Result<Messages, Status> {
        let caller = Caller::of(&request)?;
        let opened = self.0.tickets.open(&caller.name, handle, SystemTime::now());
        let (id, purpose) = opened.map_err(|bad| match bad {
            Bad::Forged => status(
                Code::PermissionDenied,
                "the ticket is none of this server for this user; ask for another",
            ),
            Bad::Ended => {
                status(Code::DeadlineExceeded, "the time of the ticket has passed; ask for another")
            }
            Bad::Cancelled => status(Code::Cancelled, "the query was cancelled"),
        })?;
        let (text, values) = match purpose {
            Purpose::Query(text) => (text, vec![crate::prepared::Values::default()]),
            Purpose::Prepared(statement) => self.0.statements.run(&caller.name, &statement)?,
        };
        begin(&self.0, caller, id, text, values).await
    }

    /// Cancels what the tickets of an answer began, or will begin.
    fn cancel(&self, caller: &Caller, info: &FlightInfo) -> CancelStatus {
        let mut is_cancelled = false;
        for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
            let command = Any::decode(&*ticket.ticket).ok().and_then(|any| Command::try_from(any).ok());
            let Some(Command::TicketStatementQuery(ticket)) = command else { continue };
            let cancelled = self.0.tickets.cancel(&caller.name, &ticket.statement_handle, SystemTime::now());
            if let Some(id) = cancelled {
                self.0.running.cancel(&id);
                is_cancelled = true;
            }
        }
        if is_cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable }
    }
}

fn prost_time(seconds: u64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: seconds as i64, nanos: 0 }
}

/// The parameters of a query as columns; those whose type is not known have Arrow's type of nulls.
fn parameter_schema(description: &Description) -> Schema {
    let mut names: Vec<&String> = description.parameters.keys().collect();
    names.sort_by_key(|name| (name.parse::<usize>().unwrap_or(usize::MAX), *name));
    let field = |name: &&String| {
        let ty = description.parameters.get(*name).cloned().flatten().unwrap_or(DataType::Null);
        Field::new(name.as_str(), ty, true)
    };
    Schema::new(names.iter().map(field).collect::<Vec<_>>())
}

fn one(result: ActionResult) -> Response<BoxStream<'static, Result<ActionResult, Status>>> {
    Response::new(iter([Ok(result)]).boxed())
}

const READ_ONLY: &str = "SQL reads and changes nothing here; upload rows with an ingest (adbc_ingest), or write with TapeDB's clients";

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<
        Response<Pin<Box<dyn futures::Stream<Item = Result<HandshakeResponse, Status>> + Send>>>,
        Status,
    > {
        let caller = Caller::of(&request)?;
        let token = self.0.bearers.add(caller.user.clone(), &caller.name, Instant::now());
        let token = token
            .ok_or_else(|| status(Code::ResourceExhausted, "there are too many sessions; try again later"))?;
        caller.audit(&self.0, "login", "");
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into_bytes().into() };
        let stream: Pin<Box<dyn futures::Stream<Item = _> + Send>> = Box::pin(iter([Ok(answer)]));
        let mut response = Response::new(stream);
        let header = format!("Bearer {token}").parse().map_err(internal)?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        let caller = Caller::of(&request)?;
        let Description { columns, .. } = self.describe(&caller, query.query.clone()).await?;
        self.info(&caller, &Purpose::Query(query.query), Some(&columns), request.into_inner())
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        let caller = Caller::of(&request)?;
        let handle = &query.prepared_statement_handle;
        let (text, has_parameters) = self.0.statements.text(&caller.name, handle)?;
        // The types of columns may depend on those of values.
        let schema = match has_parameters {
            true => None,
            false => Some(self.describe(&caller, text).await?.columns),
        };
        let id = handle[..]
            .try_into()
            .map_err(|_| status(Code::NotFound, "there is no such prepared statement"))?;
        self.info(&caller, &Purpose::Prepared(id), schema.as_ref(), request.into_inner())
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, request: Request<Ticket>) -> GetResult {
        Ok(Response::new(self.rows(&ticket.statement_handle, request).await?))
    }

    async fn get_flight_info_catalogs(
        &self,
        asked: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::Catalogs(asked), request)
    }

    async fn get_flight_info_schemas(
        &self,
        asked: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::Schemas(asked), request)
    }

    async fn get_flight_info_tables(
        &self,
        asked: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::Tables(asked), request)
    }

    async fn get_flight_info_table_types(
        &self,
        asked: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::TableTypes(asked), request)
    }

    async fn get_flight_info_sql_info(
        &self,
        asked: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::Info(asked), request)
    }

    async fn get_flight_info_primary_keys(
        &self,
        _: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::PrimaryKeys, request)
    }

    async fn get_flight_info_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::ForeignKeys, request)
    }

    async fn get_flight_info_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::ForeignKeys, request)
    }

    async fn get_flight_info_cross_reference(
        &self,
        _: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::ForeignKeys, request)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        asked: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> InfoResult {
        self.asked_info(Question::Types(asked), request)
    }

    async fn do_get_catalogs(&self, asked: CommandGetCatalogs, request: Request<Ticket>) -> GetResult {
        self.answer(Question::Catalogs(asked), request).await
    }

    async fn do_get_schemas(&self, asked: CommandGetDbSchemas, request: Request<Ticket>) -> GetResult {
        self.answer(Question::Schemas(asked), request).await
    }

    async fn do_get_tables(&self, asked: CommandGetTables, request: Request<Ticket>) -> GetResult {
        self.answer(Question::Tables(asked), request).await
    }

    async fn do_get_table_types(&self, asked: CommandGetTableTypes, request: Request<Ticket>) -> GetResult {
        self.answer(Question::TableTypes(asked), request).await
    }

    async fn do_get_sql_info(&self, asked: CommandGetSqlInfo, request: Request<Ticket>) -> GetResult {
        self.answer(Question::Info(asked), request).await
    }

    async fn do_get_primary_keys(&self, _: CommandGetPrimaryKeys, request: Request<Ticket>) -> GetResult {
        self.answer(Question::PrimaryKeys, request).await
    }

    async fn do_get_exported_keys(&self, _: CommandGetExportedKeys, request: Request<Ticket>) -> GetResult {
        self.answer(Question::ForeignKeys, request).await
    }

    async fn do_get_imported_keys(&self, _: CommandGetImportedKeys, request: Request<Ticket>) -> GetResult {
        self.answer(Question::ForeignKeys, request).await
    }

    async fn do_get_cross_reference(
        &self,
        _: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> GetResult {
        self.answer(Question::ForeignKeys, request).await
    }

    async fn do_get_xdbc_type_info(
        &self,
        asked: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> GetResult {
        self.answer(Question::Types(asked), request).await
    }

    async fn do_put_error_callback(
        &self,
        _: Request<PeekableFlightDataStream>,
        error: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(status(Code::InvalidArgument, format!("the upload does not state what it is: {error}")))
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(unsupported(READ_ONLY))
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(unsupported(READ_ONLY))
    }

    async fn do_put_statement_ingest(
        &self,
        asked: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let caller = Caller::of(&request)?;
        let target = Target::of(&asked)?;
        let permit = request.extensions().get::<Arc<OwnedSemaphorePermit>>().cloned();
        let mut arriving = request.into_inner();
        // When this call ends early, the sender is dropped, and the thread takes it for a client that has left.
        let (sender, mut receiver) = channel(UPLOAD_WAITING);
        let shared = self.0.clone();
        let storing = spawn_blocking(move || {
            let _permit = permit;
            ingest::store(&shared, &caller, target, || receiver.blocking_recv())
        });
        loop {
            let piece = match arrives(&self.0, arriving.next()).await {
                Ok(Some(Ok(message))) => Piece::Message(message),
                Ok(Some(Err(failure))) | Err(failure) => Piece::Failed(failure),
                Ok(None) => {
                    // A call that the client has cancelled looks as if it had ended. What polls this looks for a cancel whenever this
                    // waits, and drops it then.
                    yield_now().await;
                    Piece::End
                }
            };
            let is_end = !matches!(piece, Piece::Message(_));
            // It fails when the thread has ended with an error.
            if sender.send(piece).await.is_err() || is_end {
                break;
            }
        }
        drop(sender);
        storing.await.map_err(internal)?
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let caller = Caller::of(&request)?;
        let handle = query.prepared_statement_handle;
        self.0.statements.text(&caller.name, &handle)?;
        let mut arriving = request.into_inner();
        let (mut received, mut batches, mut rows) = (Received::new(ROWS_MAX), Vec::new(), 0);
        loop {
            let Some(message) = arrives(&self.0, arriving.next()).await? else { break };
            if let Some(batch) = received.rows(&message?)? {
                rows += batch.num_rows();
                batches.push(batch);
            }
            if rows > ROWS_MAX || batches.len() > ROWS_MAX {
                break;
            }
        }
        self.0.statements.bind(&caller.name, &handle, &batches)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn do_action_create_prepared_statement(
        &self,
        asked: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let caller = Caller::of(&request)?;
        let description = self.describe(&caller, asked.query.clone()).await?;
        let parameters = parameter_schema(&description);
        let names = parameters.fields().iter().map(|field| field.name().clone()).collect();
        let id = self.0.statements.add(&caller.name, asked.query, names)?;
        let IpcMessage(dataset_schema) = schema_bytes(&description.columns)?;
        let IpcMessage(parameter_schema) = schema_bytes(&Arc::new(parameters))?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: id.to_vec().into(),
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        asked: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let caller = Caller::of(&request)?;
        self.0.statements.close(&caller.name, &asked.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_cancel_query(
        &self,
        asked: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let caller = Caller::of(&request)?;
        let info = FlightInfo::decode(asked.info).map_err(|error| {
            status(Code::InvalidArgument, format!("there is no FlightInfo to cancel: {error}"))
        })?;
        // The older action has the same numbers.
        Ok(ActionCancelQueryResult { result: self.cancel(&caller, &info) as i32 })
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let action = |name: &str, description: &str| {
            Ok(ActionType { r#type: name.into(), description: description.into() })
        };
        Some(vec![
            action(
                CANCEL,
                "Cancels what the tickets of a FlightInfo began. Request: CancelFlightInfoRequest; response: CancelFlightInfoResult",
            ),
            action(CLOSE_SESSION, "Ends the token of a handshake."),
        ])
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let caller = Caller::of(&request)?;
        match request.get_ref().r#type.as_str() {
            CANCEL => {
                let asked = CancelFlightInfoRequest::decode(request.get_ref().body.clone());
                let asked = asked.map_err(|error| status(Code::InvalidArgument, error.to_string()))?;
                let info = asked.info.unwrap_or_default();
                let result = CancelFlightInfoResult::new(self.cancel(&caller, &info));
                Ok(one(ActionResult::new(result.encode_to_vec())))
            }
            CLOSE_SESSION => {
                let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
                if let Some(token) =
                    header.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim())
                {
                    self.0.bearers.remove(token);
                }
                // CloseSessionResult: status 1, closed.
                Ok(one(ActionResult::new(vec![0x08, 0x01])))
            }
            other => {
                let text = format!(
                    "there is no action {other:?} here; transactions and Substrait are not supported"
                );
                Err(unsupported(text))
            }
        }
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

/// What the client sends next. When it sends nothing, that is the end of the call; much earlier when the server stops.
async fn arrives<T>(shared: &SharedState, next: impl Future<Output = T>) -> Result<T, Status> {
    let (mut next, until) = (pin!(next), Instant::now() + UPLOAD_TIME);
    loop {
        if let Ok(arrived) = timeout(STOP_CHECK_INTERVAL, next.as_mut()).await {
            return Ok(arrived);
        }
        if shared.is_stopping.load(Ordering::Acquire) {
            return Err(shutting_down());
        }
        if Instant::now() >= until {
            return Err(status(Code::DeadlineExceeded, "the client sends nothing; the upload was given up"));
        }
    }
}
