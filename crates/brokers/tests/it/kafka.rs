//! librdkafka's mock cluster: positions, transactions, partitions. What only a real broker has (aborted records, exporters that fence each
//! other, retention, topics that are created again) is in `testing/brokers`.

use crate::support::*;
use rdkafka::config::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_brokers::kafka::{
    ExportOptions, ImportOptions, Settings, export, export_status, import, import_status,
};
use tapedb_brokers::{BadRecords, Encoding, Error, IntakeOptions, Unwatched};

type Mock = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> (Mock, Settings) {
    let mock = MockCluster::new(1).expect("a cluster");
    let settings = Settings { brokers: mock.bootstrap_servers(), properties: Vec::new() };
    (mock, settings)
}

fn outgoing(topic: &str) -> ExportOptions {
    ExportOptions { topic: topic.into(), ..ExportOptions::default() }
}

fn incoming(topic: &str) -> ImportOptions {
    ImportOptions { topic: topic.into(), refresh: Duration::from_millis(200), ..ImportOptions::default() }
}

/// Sends records to a partition, as any producer does.
fn produce(settings: &Settings, topic: &str, partition: i32, records: &[(&str, &str)]) {
    let producer: ThreadedProducer<DefaultProducerContext> =
        ClientConfig::new().set("bootstrap.servers", &settings.brokers).create().expect("a producer");
    for (key, value) in records {
        let record =
            BaseRecord::to(topic).partition(partition).key(*key).payload(*value).timestamp(1_700_000_000_123);
        producer.send(record).map_err(|(error, _)| error).expect("sent");
    }
    producer.flush(Duration::from_secs(30)).expect("acknowledged");
}

#[test]
fn a_round_trip_over_partitions_in_both_encodings_continues_where_it_ended() {
    let (mock, settings) = cluster();
    for (encoding, topic) in [(Encoding::Json, "json"), (Encoding::Row, "rows")] {
        mock.create_topic(topic, 3, 1).expect("a topic");
        let (from, to) = (Place::new(), Place::new());
        let options = ExportOptions { encoding, ..outgoing(topic) };
        for round in 0..3i64 {
            let stream = from.fill("ticks", round * 2_000..(round + 1) * 2_000);
            let sent = export(&settings, &stream, &options, &mut Unwatched).expect("exported");
            assert_eq!(sent.messages, 2_000);
            let mut intake = to.intake("copy", IntakeOptions::default());
            let taken = import(&settings, &incoming(topic), &mut intake, &mut Unwatched).expect("imported");
            assert_eq!((taken.messages, taken.bad, taken.lost), (2_000, 0, 0));
            drop(intake);
            assert_same(&to.messages("copy"), &from.messages("ticks"));
        }
        let stream = from.stream("ticks");
        assert_eq!(export(&settings, &stream, &options, &mut Unwatched).expect("exported").messages, 0);
        let status = export_status(&settings, &stream, &options).expect("a status");
        assert_eq!((status.next, status.waiting()), (Some(6_000), 0));
        let status =
            import_status(&settings, &incoming(topic), &mut to.intake("copy", IntakeOptions::default()));
        let next: u64 = status.expect("a status").iter().filter_map(|lane| lane.next).sum();
        assert_eq!(next, 6_000);
    }
}

#[test]
fn interrupted_imports_and_a_broker_that_is_away_leave_each_record_once() {
    let (mock, settings) = cluster();
    mock.create_topic("t", 2, 1).expect("a topic");
    let (from, to) = (Place::new(), Place::new());
    let stream = from.fill("ticks", 0..20_000);
    export(&settings, &stream, &outgoing("t"), &mut Unwatched).expect("exported");
    let follow = ImportOptions { follow: true, ..incoming("t") };
    for most in [1_000, 7_000] {
        let mut intake = to.intake("copy", IntakeOptions::default());
        let ended = import(&settings, &follow, &mut intake, &mut Watch::until(most));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    }
    let watch = Watch::default();
    thread::scope(|scope| {
        let importing = scope.spawn(|| {
            import(&settings, &follow, &mut to.intake("copy", IntakeOptions::default()), &mut watch.clone())
        });
        mock.broker_down(1).expect("down");
        let until = Instant::now() + Duration::from_secs(60);
        thread::sleep(Duration::from_millis(500));
        mock.broker_up(1).expect("up");
        while to.stream("copy").stats().expect("stats").messages < 20_000 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        watch.end();
        drop(importing.join().expect("no panic"));
    });
    assert_same(&to.messages("copy"), &from.messages("ticks"));
}

#[test]
fn keys_times_and_bad_records() {
    let (mock, settings) = cluster();
    mock.create_topic("t", 1, 1).expect("a topic");
    let good = "{\"n\":1,\"note\":\"\"}";
    produce(&settings, "t", 0, &[("AIG", good), ("AIG", "{"), ("BAC", good), ("", good), ("AIG", "")]);
    let place = Place::new();
    let mut intake = place.intake("ticks", IntakeOptions::default());
    let stopped = refused(import(&settings, &incoming("t"), &mut intake, &mut Unwatched));
    assert!(stopped.contains("offset 1 of t/0"), "{stopped}");
    drop(intake);
    let bad = BadRecords::Keep("bad".into());
    let mut intake = place.intake("ticks", IntakeOptions { bad, ..IntakeOptions::default() });
    let taken = import(&settings, &incoming("t"), &mut intake, &mut Unwatched).expect("imported");
    assert_eq!((taken.messages, taken.bad), (1, 3));
    drop(intake);
    let found: Vec<(String, i64)> =
        place.messages("ticks").into_iter().map(|(symbol, time, _)| (symbol, time)).collect();
    let time = 1_700_000_000_123_000_000;
    assert_eq!(found, [("AIG".to_string(), time), ("BAC".to_string(), time)]);
    assert_eq!(place.db.stream("bad").expect("a stream").stats().expect("stats").messages, 3);
}

#[test]
fn what_is_not_there_is_an_error_that_states_what_to_do() {
    let (_mock, settings) = cluster();
    let place = Place::new();
    let stream = place.fill("ticks", 0..10);
    let away = Settings {
        brokers: "127.0.0.1:1".into(),
        properties: vec![("socket.timeout.ms".into(), "2000".into())],
    };
    let refusal = refused(import(
        &away,
        &incoming("t"),
        &mut place.intake("copy", IntakeOptions::default()),
        &mut Unwatched,
    ));
    assert!(refusal.contains("check the address"), "{refusal}");
    let refusal = refused(export(&away, &stream, &outgoing("t"), &mut Unwatched));
    assert!(refusal.contains("check the address"), "{refusal}");
    let wrong = ExportOptions { space: 7, ..outgoing("t") };
    assert!(refused(export(&settings, &stream, &wrong, &mut Unwatched)).contains("no space 7"));
}
