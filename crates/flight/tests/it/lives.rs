//! Queries that end before their rows do: cancelled, left, too many, shut down.

use crate::fixture::{Client, ROWS, Served, ticket, until};
use arrow_flight::sql::{CommandStatementIngest, ProstMessageExt, TableDefinitionOptions};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightDescriptor,
    FlightInfo,
};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use tapedb_query::arrow::array::RecordBatch;

/// A query that never ends, and has rows from the start.
const ENDLESS: &str = "SELECT a.price, b.size FROM ticks a CROSS JOIN ticks b CROSS JOIN ticks c";
/// A query that never ends, and has no rows until then.
const SILENT: &str =
    "SELECT count(*) FROM ticks a CROSS JOIN ticks b CROSS JOIN ticks c WHERE a.size + b.size + c.size < 0";

async fn cancel(client: &mut Client, info: FlightInfo) -> CancelStatus {
    let body = CancelFlightInfoRequest::new(info).encode_to_vec();
    let mut request = tonic::Request::new(Action::new("CancelFlightInfo", body));
    if let Some(token) = client.token() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let mut results = client.inner_mut().do_action(request).await.unwrap().into_inner();
    let result = results.next().await.unwrap().unwrap();
    CancelFlightInfoResult::decode(result.body).unwrap().status()
}

#[test]
fn a_cancelled_query_stops() {
    let served = Served::with_users();
    let (mut client, mut other) = (served.login("ann", "secret"), served.login("ann", "secret"));
    let mut bob = served.login("bob", "other");
    for text in [ENDLESS, SILENT] {
        served.runtime.block_on(async {
            let info = client.execute(text.into(), None).await.unwrap();
            let mut rows = client.do_get(ticket(&info)).await.unwrap();
            if text == ENDLESS {
                assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
            }
            assert_eq!(cancel(&mut bob, info.clone()).await, CancelStatus::NotCancellable, "another user's");
            assert_eq!(cancel(&mut other, info.clone()).await, CancelStatus::Cancelled);
            let error = rows.try_collect::<Vec<RecordBatch>>().await.unwrap_err();
            assert!(error.to_string().contains("cancelled"), "{error}");
            let Err(error) = client.do_get(ticket(&info)).await else { panic!("the ticket is void") };
            assert!(error.to_string().contains("cancelled"), "{error}");
        });
        until("it stops", || served.flight().running() == 0);
    }
}

#[test]
fn a_client_that_leaves_ends_its_query() {
    let served = Served::start();
    for text in [ENDLESS, SILENT] {
        let mut client = served.client();
        let info = served.runtime.block_on(client.execute(text.into(), None)).unwrap();
        let rows = served.runtime.block_on(client.do_get(ticket(&info))).unwrap();
        assert_eq!(served.flight().running(), 1);
        served.runtime.block_on(async { drop(rows) });
        until("it stops", || served.flight().running() == 0);
        // And where the connection ends.
        let mut client = served.client();
        let rows = served.runtime.block_on(client.do_get(ticket(&info))).unwrap();
        served.runtime.block_on(async { drop((client, rows)) });
        until("it stops", || served.flight().running() == 0);
    }
}

#[test]
fn queries_and_connections_are_limited() {
    let served = Served::with_users();
    let mut client = served.login("ann", "secret");
    let info = served.runtime.block_on(client.execute(ENDLESS.into(), None)).unwrap();
    let mut rows = Vec::new();
    for _ in 0..2 {
        rows.push(served.runtime.block_on(client.do_get(ticket(&info))).unwrap());
    }
    let Err(error) = served.runtime.block_on(client.do_get(ticket(&info))) else {
        panic!("a third query runs")
    };
    assert!(error.to_string().contains("too many queries"), "{error}");
    served.runtime.block_on(async { drop(rows) });
    until("they stop", || served.flight().running() == 0);
    assert_eq!(served.count(&mut client, "SELECT * FROM ticks"), Ok(ROWS as usize));
}

#[test]
fn a_server_that_stops_states_it() {
    let mut served = Served::start();
    let mut client = served.client();
    let info = served.runtime.block_on(client.execute(ENDLESS.into(), None)).unwrap();
    let rows = served.runtime.block_on(client.do_get(ticket(&info))).unwrap();
    let reading = served.runtime.spawn(rows.try_collect::<Vec<RecordBatch>>());
    assert_eq!(served.flight.take().unwrap().shutdown(Duration::from_secs(20)), 0);
    let error = served.runtime.block_on(reading).unwrap().unwrap_err();
    assert!(error.to_string().contains("shutting down"), "{error}");
    assert!(served.query(&mut client, "SELECT 1").is_err());
}

#[test]
fn a_server_that_stops_does_not_wait_for_silent_clients() {
    let mut served = Served::with_users();
    let _silent = TcpStream::connect(served.address).unwrap();
    let mut half = TcpStream::connect(served.address).unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let client = served.login("ann", "secret");
    // An upload that breaks off without an end.
    let mut sending = served.login("ann", "secret");
    let uploading = served.runtime.spawn(async move {
        let command = CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions::default()),
            table: "ticks".into(),
            ..CommandStatementIngest::default()
        };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let first = FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() };
        let mut request =
            tonic::Request::new(futures::stream::iter([first]).chain(futures::stream::pending()));
        let token = format!("Bearer {}", sending.token().unwrap());
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        let answer = sending.inner_mut().do_put(request).await;
        match answer {
            Ok(answer) => answer.into_inner().try_collect::<Vec<_>>().await.err(),
            Err(refused) => Some(refused),
        }
    });
    until("all are there", || served.flight().connections() == 4);
    // A client that is waited for would be waited for so long.
    assert_eq!(served.flight.take().unwrap().shutdown(Duration::from_secs(3600)), 0);
    assert!(served.runtime.block_on(uploading).unwrap().is_some(), "the upload has failed");
    drop((client, half));
}
