//! Rows that are uploaded.

use crate::fixture::{Client, START, Served, until};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, ProstMessageExt, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::sync::Arc;
use tapedb_query::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use tonic::transport::Channel;

fn batch(first: i64, rows: i64) -> RecordBatch {
    let times: Vec<i64> = (first..first + rows).map(|row| START + row * 1_000_000_000).collect();
    let symbols: Vec<&str> = (first..first + rows).map(|row| ["A", "B"][row as usize % 2]).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))),
        ("symbol", Arc::new(StringArray::from(symbols))),
        (
            "close",
            Arc::new(Float64Array::from_iter_values((first..first + rows).map(|row| row as f64 / 4.0))),
        ),
        ("volume", Arc::new(Int64Array::from_iter_values(first..first + rows))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn options(missing: TableNotExistOption, exists: TableExistsOption) -> Option<TableDefinitionOptions> {
    Some(TableDefinitionOptions { if_not_exist: missing as i32, if_exists: exists as i32 })
}

fn command(table: &str, schema: Option<&str>) -> CommandStatementIngest {
    CommandStatementIngest {
        table_definition_options: options(TableNotExistOption::Create, TableExistsOption::Append),
        table: table.into(),
        schema: schema.map(Into::into),
        ..CommandStatementIngest::default()
    }
}

/// Uploads batches; the rows that are stored.
fn put(
    served: &Served,
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, String> {
    let batches = stream::iter(batches.into_iter().map(Ok::<_, FlightError>));
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let messages = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor)).build(batches);
    served
        .runtime
        .block_on(put_messages(client, messages.map(Result::unwrap)))
        .map_err(|status| status.message().into())
}

/// Uploads messages.
async fn put_messages(
    client: &mut FlightSqlServiceClient<Channel>,
    messages: impl futures::Stream<Item = FlightData> + Send + 'static,
) -> Result<i64, tonic::Status> {
    let mut request = tonic::Request::new(messages);
    if let Some(token) = client.token() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let results: Vec<_> = client.inner_mut().do_put(request).await?.into_inner().try_collect().await?;
    let result = arrow_flight::sql::DoPutUpdateResult::decode(&*results[0].app_metadata).unwrap();
    Ok(result.record_count)
}

#[test]
fn rows_become_messages_of_a_new_stream_or_an_old_one() {
    let served = Served::with_users();
    let mut ann = served.login("ann", "secret");
    assert_eq!(put(&served, &mut ann, command("mine", None), vec![batch(0, 10), batch(10, 5)]), Ok(15));
    assert_eq!(put(&served, &mut ann, command("mine", None), vec![batch(15, 5)]), Ok(5));
    assert_eq!(put(&served, &mut ann, command("mine", Some("mine")), vec![batch(20, 1)]), Ok(1));
    let text = "SELECT * FROM mine.mine WHERE close = volume / 4.0 AND symbol = 'A'";
    assert_eq!(served.count(&mut ann, text), Ok(11));
    assert!(served.audit().contains("\"event\":\"create\""));
    assert_eq!(put(&served, &mut ann, command("Bar", Some("mine/2")), vec![batch(0, 3)]), Ok(3));
    assert_eq!(served.count(&mut ann, "SELECT * FROM \"mine/2\".Bar"), Ok(3));
    assert_eq!(served.flight().rows_stored(), 24);
}

#[test]
fn what_may_not_be_is_refused_by_name() {
    let served = Served::with_users();
    let (mut ann, mut bob) = (served.login("ann", "secret"), served.login("bob", "other"));
    let refused =
        |client: &mut Client, command| put(&served, client, command, vec![batch(0, 3)]).unwrap_err();
    for (user, stream) in [("ann", "other"), ("ann", "hidden"), ("bob", "ticks"), ("bob", "mine")] {
        let client = if user == "ann" { &mut ann } else { &mut bob };
        let error = refused(client, command(stream, None));
        let expected =
            format!("user {user:?} may not write stream {stream:?}, or there is none; no row was stored");
        assert_eq!(error, expected);
    }
    let fail = command("mine", None);
    let fail = CommandStatementIngest {
        table_definition_options: options(TableNotExistOption::Fail, TableExistsOption::Append),
        ..fail
    };
    assert!(refused(&mut ann, fail.clone()).contains("there is no stream \"mine\""));
    put(&served, &mut ann, command("mine", None), vec![batch(0, 3)]).unwrap();
    assert!(put(&served, &mut ann, fail, vec![batch(3, 3)]).is_ok());
    for (change, part) in [
        (
            CommandStatementIngest {
                table_definition_options: options(TableNotExistOption::Create, TableExistsOption::Fail),
                ..command("mine", None)
            },
            "there is a stream \"mine\" already",
        ),
        (
            CommandStatementIngest {
                table_definition_options: options(TableNotExistOption::Create, TableExistsOption::Replace),
                ..command("mine", None)
            },
            "not replaced",
        ),
        (CommandStatementIngest { temporary: true, ..command("mine", None) }, "temporary"),
        (
            CommandStatementIngest { transaction_id: Some(vec![1].into()), ..command("mine", None) },
            "transactions",
        ),
        (CommandStatementIngest { catalog: Some("x".into()), ..command("mine", None) }, "catalogue"),
        (command("mine", Some("ticks")), "mine"),
        (command("a b", Some("mine3")), "rename"),
        (command("", None), ""),
    ] {
        let error = refused(&mut ann, change.clone());
        assert!(error.contains(part), "{change:?}: {error}");
    }
    let updated = served.runtime.block_on(ann.execute_update("DELETE FROM ticks".into(), None)).unwrap_err();
    assert!(updated.to_string().contains("adbc_ingest"), "{updated}");
    assert_eq!(served.count(&mut ann, "SELECT * FROM mine"), Ok(6));
}

#[test]
fn an_upload_is_whole_or_not_at_all() {
    let served = Served::with_users();
    let mut ann = served.login("ann", "secret");
    put(&served, &mut ann, command("mine", None), vec![batch(0, 3)]).unwrap();
    let mut columns = batch(3, 2).columns().to_vec();
    columns[1] = Arc::new(StringArray::from(vec!["A".to_string(), "x".repeat(300)]));
    let wrong = RecordBatch::try_new(batch(3, 2).schema(), columns);
    let error = put(&served, &mut ann, command("mine", None), vec![batch(3, 2), wrong.unwrap()]);
    assert!(error.clone().is_err_and(|error| error.contains("no row was stored")), "{error:?}");
    // A client that leaves in the middle.
    let descriptor = FlightDescriptor::new_cmd(command("mine", None).as_any().encode_to_vec());
    let rows = stream::iter([Ok::<_, FlightError>(batch(3, 5))]);
    let messages = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor)).build(rows);
    served.runtime.block_on(async {
        let messages: Vec<FlightData> = messages.map(Result::unwrap).collect().await;
        let never = stream::iter(messages).chain(stream::pending());
        let putting = put_messages(&mut ann, never);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(300), putting).await.is_err());
    });
    let mut ann = served.login("ann", "secret");
    assert_eq!(served.count(&mut ann, "SELECT * FROM mine"), Ok(3));
    until("the upload ends", || put(&served, &mut ann, command("mine", None), vec![batch(9, 1)]).is_ok());
    assert_eq!(served.count(&mut ann, "SELECT * FROM mine"), Ok(4));
}
