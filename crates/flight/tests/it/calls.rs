//! Calls of a client, and who may make them.

use crate::fixture::{Client, ROWS, START, Served, fetch, ticket};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, SqlInfo};
use arrow_flight::{FlightDescriptor, Ticket};
use std::sync::Arc;
use tapedb_query::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use tapedb_query::arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type, UInt64Type};

fn first<T: AsRef<[RecordBatch]>>(batches: T) -> RecordBatch {
    batches.as_ref()[0].clone()
}

/// The text of a row of a dictionary.
fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    let dictionary = column.as_dictionary::<Int32Type>();
    let values = dictionary.values().as_string::<i32>();
    dictionary.key(row).map(|key| values.value(key))
}

#[test]
fn symbols_and_enums_are_dictionaries_whatever_is_done_with_their_rows() {
    let served = Served::start();
    let mut client = served.client();
    let is_dictionary = |ty: &DataType| matches!(ty, DataType::Dictionary(..));
    for (text_of_query, dictionaries) in [
        ("SELECT * FROM ticks", &["symbol", "side"][..]),
        ("SELECT symbol AS s, side FROM ticks WHERE size > 3", &["s", "side"]),
        ("SELECT symbol, side FROM ticks WHERE side = 'Buy' AND symbol LIKE 'A%'", &["symbol", "side"]),
        ("SELECT side, symbol FROM ticks ORDER BY price, sequence LIMIT 10", &["side", "symbol"]),
        ("SELECT symbol, symbol || '!' AS loud, side FROM ticks LIMIT 10", &["symbol", "side"]),
        ("SELECT s.symbol FROM (SELECT symbol, side FROM ticks) s WHERE s.side IS NULL", &["symbol"]),
        ("WITH a AS (SELECT symbol x, price FROM ticks) SELECT x FROM a WHERE price > 100.5 LIMIT 5", &["x"]),
        ("SELECT symbol FROM ticks WHERE false", &["symbol"]),
        ("SELECT symbol, side FROM latest('ticks.Trade')", &["symbol", "side"]),
        ("SELECT symbol, count(*) FROM ticks GROUP BY symbol", &[]),
        ("SELECT upper(symbol) AS symbol FROM ticks LIMIT 1", &[]),
        ("SELECT a.symbol FROM ticks a JOIN ticks b ON a.sequence = b.sequence AND a.symbol = b.symbol", &[]),
        ("SELECT DISTINCT side FROM ticks", &[]),
    ] {
        let (info, batches) = served.runtime.block_on(async {
            let info = client.execute(text_of_query.into(), None).await.unwrap();
            let batches = fetch(&mut client, &info).await.unwrap();
            (info, batches)
        });
        let stated = info.try_decode_schema().unwrap();
        let found: Vec<&str> = stated
            .fields()
            .iter()
            .filter(|field| is_dictionary(field.data_type()))
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(found, dictionaries, "{text_of_query}");
        for batch in &batches {
            assert_eq!(batch.schema().fields(), stated.fields(), "{text_of_query}");
        }
    }
    let batches = served.query(&mut client, "SELECT sequence, symbol, side FROM ticks").unwrap();
    let mut rows = 0;
    for batch in &batches {
        for at in 0..batch.num_rows() {
            let row = batch.column(0).as_primitive::<UInt64Type>().value(at) as usize;
            assert_eq!(text(batch.column(1), at), Some(["AAPL", "MSFT"][row % 2]));
            assert_eq!(text(batch.column(2), at), [Some("Buy"), Some("Sell"), None][row % 3]);
            rows += 1;
        }
    }
    assert_eq!(rows, ROWS);
}

#[test]
fn rows_are_those_that_are_stored() {
    let served = Served::start();
    let mut client = served.client();
    let batches =
        served.query(&mut client, "SELECT time_ns, symbol, size, id FROM ticks ORDER BY sequence").unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS as usize);
    let mut row = 0;
    for batch in &batches {
        for at in 0..batch.num_rows() {
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(at), START + row * 1_000_000);
            assert_eq!(text(batch.column(1), at), Some(["AAPL", "MSFT"][row as usize % 2]));
            assert_eq!(batch.column(2).as_primitive::<UInt32Type>().value(at), row as u32 % 7);
            assert_eq!(batch.column(3).as_primitive::<UInt64Type>().value(at), u64::MAX - row as u64);
            row += 1;
        }
    }
    assert_eq!(served.count(&mut client, "SELECT * FROM ticks WHERE size = 100"), Ok(0));
    for (text, part) in [
        ("SELECT nothing FROM ticks", "nothing"),
        ("SELECT * FROM no_stream", "no_stream"),
        ("DELETE FROM ticks", "change nothing"),
        ("SELECT 1; SELECT 2", "one"),
        ("SELEC", "SQL"),
        ("SELECT * FROM '/etc/passwd'", ""),
    ] {
        let error = served.query(&mut client, text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(served.flight().running(), 0);
}

#[test]
fn prepared_statements_have_values() {
    let served = Served::start();
    let mut client = served.client();
    let run = |client: &mut Client, text: &str, names: &[&str], values: Vec<ArrayRef>| {
        served.runtime.block_on(async {
            let mut prepared = client.prepare(text.into(), None).await.map_err(|error| error.to_string())?;
            let columns = names.iter().map(|name| (*name).to_string()).zip(values);
            prepared
                .set_parameters(RecordBatch::try_from_iter(columns).unwrap())
                .map_err(|error| error.to_string())?;
            let info = prepared.execute().await.map_err(|error| error.to_string())?;
            let rows = fetch(client, &info).await;
            prepared.close().await.map_err(|error| error.to_string())?;
            rows.map(|batches| batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        })
    };
    let number = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
    let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let numbered = "SELECT * FROM ticks WHERE size = $1 AND symbol = $2 LIMIT 100";
    assert_eq!(run(&mut client, numbered, &["any", "name"], vec![number(3), text("AAPL")]), Ok(100));
    let named = "SELECT * FROM ticks WHERE size = $size AND symbol = $symbol LIMIT 100";
    assert_eq!(run(&mut client, named, &["symbol", "size"], vec![text("MSFT"), number(3)]), Ok(100));
    assert_eq!(run(&mut client, "SELECT * FROM ticks LIMIT $1", &["n"], vec![number(7)]), Ok(7));
    let several: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    assert_eq!(
        run(&mut client, "SELECT $1 + 1 FROM ticks LIMIT 2", &["n"], vec![several]),
        Ok(6),
        "once for each"
    );
    assert!(run(&mut client, numbered, &["one"], vec![number(3)]).unwrap_err().contains("1 values"));
    let unbound = served.runtime.block_on(async {
        let mut prepared = client.prepare(numbered.into(), None).await.unwrap();
        let info = prepared.execute().await.unwrap();
        fetch(&mut client, &info).await
    });
    assert!(unbound.unwrap_err().contains("have no values"));
}

#[test]
fn the_catalogue_is_that_of_the_user() {
    let served = Served::with_users();
    let mut client = served.login("ann", "secret");
    let rows = |client: &mut Client, info: Result<arrow_flight::FlightInfo, FlightError>| {
        let info = info.unwrap();
        served.runtime.block_on(fetch(client, &info)).unwrap()
    };
    let asked = served.runtime.block_on(client.get_catalogs());
    assert_eq!(first(rows(&mut client, asked)).column(0).as_string::<i32>().value(0), "tapedb");
    let asked = served.runtime.block_on(client.get_db_schemas(CommandGetDbSchemas::default()));
    let schemas = first(rows(&mut client, asked));
    assert_eq!(schemas.num_rows(), 1, "hidden is hidden");
    assert_eq!(schemas.column(1).as_string::<i32>().value(0), "ticks");
    let tables = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let asked = served.runtime.block_on(client.get_tables(tables));
    let tables = first(rows(&mut client, asked));
    assert_eq!(tables.num_rows(), 1);
    assert_eq!(tables.column(2).as_string::<i32>().value(0), "Trade");
    assert!(!tables.column(4).as_binary::<i32>().value(0).is_empty());
    let keys = CommandGetPrimaryKeys { catalog: None, db_schema: None, table: "Trade".into() };
    let asked = served.runtime.block_on(client.get_primary_keys(keys));
    assert_eq!(rows(&mut client, asked).iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    let asked = served
        .runtime
        .block_on(client.get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerReadOnly]));
    assert_eq!(first(rows(&mut client, asked)).num_rows(), 2);
    let asked = served.runtime.block_on(client.get_table_types());
    assert_eq!(first(rows(&mut client, asked)).column(0).as_string::<i32>().value(0), "TABLE");
    let asked = served
        .runtime
        .block_on(client.get_xdbc_type_info(arrow_flight::sql::CommandGetXdbcTypeInfo { data_type: None }));
    assert!(first(rows(&mut client, asked)).num_rows() > 10);
    let error = served.query(&mut client, "SELECT * FROM hidden").unwrap_err();
    let none = served.query(&mut client, "SELECT * FROM hiddem").unwrap_err();
    assert_eq!(error.replace("hidden", "hiddem"), none, "a hidden stream is as one that does not exist");
}

#[test]
fn wrong_credentials_get_nothing() {
    let served = Served::with_users();
    let login = |user: &str, password: &str| {
        let mut client = served.client();
        let done = served.runtime.block_on(client.handshake(user, password));
        done.map(|_| client).map_err(|error| error.to_string())
    };
    for (user, password) in [("ann", "wrong"), ("ann", ""), ("nobody", "secret"), ("bob", "tape_1"), ("", "")]
    {
        let Err(error) = login(user, password) else { panic!("{user} {password}") };
        assert!(error.contains("Unauthenticated") || error.contains("wrong"), "{user}: {error}");
    }
    assert!(login("ann", "secret").is_ok() && login("ann", "tape_1").is_ok());
    let mut client = served.client();
    assert!(served.query(&mut client, "SELECT 1").unwrap_err().contains("no anonymous user"));
    for token in ["", "flight_", "flight_0000", "tape_2", "tape_", "x"] {
        client.set_token(token.into());
        assert!(served.query(&mut client, "SELECT 1").is_err(), "{token}");
    }
    client.set_token("tape_1".into());
    assert_eq!(served.count(&mut client, "SELECT 1"), Ok(1), "a token of the user file needs no handshake");
    let audit = served.audit();
    assert!(
        audit.contains("\"event\":\"login\",\"user\":\"ann\"") && audit.contains("\"event\":\"refused\""),
        "{audit}"
    );
    assert!(!audit.contains("secret") && !audit.contains("tape_"), "{audit}");
}

#[test]
fn a_token_ends_with_its_user() {
    let served = Served::with_users();
    let (mut ann, mut twin) = (served.login("ann", "secret"), served.login("ann", "secret"));
    assert_eq!(served.count(&mut ann, "SELECT 1"), Ok(1));
    let closed = served.runtime.block_on(async {
        let token = ann.token().unwrap().clone();
        let mut request = tonic::Request::new(arrow_flight::Action::new("CloseSession", Vec::new()));
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        ann.inner_mut().do_action(request).await
    });
    assert!(closed.is_ok());
    assert!(served.query(&mut ann, "SELECT 1").unwrap_err().contains("handshake has ended"));
    assert_eq!(served.count(&mut twin, "SELECT 1"), Ok(1), "another session goes on");
}

#[test]
fn tickets_are_their_users_own() {
    let served = Served::with_users();
    let (mut ann, mut bob) = (served.login("ann", "secret"), served.login("bob", "other"));
    let info = served.runtime.block_on(ann.execute("SELECT * FROM ticks LIMIT 5".into(), None)).unwrap();
    let count = |client: &mut Client, ticket: Ticket| {
        served.runtime.block_on(async {
            use futures::TryStreamExt;
            let stream = client.do_get(ticket).await.map_err(|error| error.to_string())?;
            let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        })
    };
    let good = ticket(&info);
    assert_eq!(count(&mut ann, good.clone()), Ok(5));
    assert_eq!(count(&mut ann, good.clone()), Ok(5), "again, as of its own moment");
    assert!(count(&mut bob, good.clone()).unwrap_err().contains("none of this server for this user"));
    for at in 0..good.ticket.len() {
        let mut bytes = good.ticket.to_vec();
        bytes[at] ^= 1;
        assert!(count(&mut ann, Ticket::new(bytes)).is_err(), "byte {at}");
    }
    for bytes in [&b""[..], b"x", &good.ticket[..20], &[0xff; 100]] {
        assert!(count(&mut ann, Ticket::new(bytes.to_vec())).is_err(), "{bytes:?}");
    }
    let prepared = served.runtime.block_on(ann.prepare("SELECT * FROM ticks LIMIT 5".into(), None)).unwrap();
    drop(prepared);
    assert!(
        served.runtime.block_on(bob.get_flight_info(FlightDescriptor::new_cmd(good.ticket.clone()))).is_err()
    );
}

trait Info {
    async fn get_flight_info(
        &mut self,
        descriptor: FlightDescriptor,
    ) -> Result<arrow_flight::FlightInfo, tonic::Status>;
}

impl Info for Client {
    async fn get_flight_info(
        &mut self,
        descriptor: FlightDescriptor,
    ) -> Result<arrow_flight::FlightInfo, tonic::Status> {
        let mut request = tonic::Request::new(descriptor);
        let token = self.token().cloned().unwrap_or_default();
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        self.inner_mut().get_flight_info(request).await.map(tonic::Response::into_inner)
    }
}
