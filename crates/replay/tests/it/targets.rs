//! The same messages in the same order at every speed and into every target.

use crate::place::{MESSAGES, MILLI, Nowhere, Numbers, Other, Ping, Place, Tick, schema};
use tapedb_codec::SchemaBuilder;
use tapedb_codec::batch::BatchBuilder;
use tapedb_engine::{Database, Message, Stream, StreamOptions};
use tapedb_replay::{Command, Control, Delivery, Player, ReplayError, Sink, Speed, StreamSink, TopicSink};
use tapedb_schema::Timestamp;
use tapedb_topic::{Folder, Topic, TopicOptions};

#[test]
fn every_speed_and_target_has_the_same_messages_and_the_same_hash() {
    let place = Place::new();
    let (mut numbers, received) = Numbers::new(None);
    let first = place.play(Speed::Max, &mut numbers);
    assert_eq!((first.messages, first.last), (MESSAGES as u64, Some(Timestamp((MESSAGES - 1) * MILLI))));
    assert_eq!(received.try_iter().collect::<Vec<_>>(), (0..MESSAGES).collect::<Vec<_>>());
    assert!(first.late.is_empty() && !first.is_stopped);

    let target = place.db.create_stream("again", schema(), StreamOptions::default()).unwrap();
    let mut sink = StreamSink::new(&target, &place.streams).unwrap();
    let paced = place.play(Speed::Times(10.0), &mut sink);
    drop(sink);
    // It took no less than it had to.
    assert!(paced.seconds >= (MESSAGES - 1) as f64 / 10_000.0);
    assert_eq!((paced.hash, paced.late.len()), (first.hash, MESSAGES as u64));
    let mut cursor = target.cursor().open().unwrap();
    for number in 0..MESSAGES {
        let message = cursor.next().unwrap().unwrap();
        assert_eq!(
            (message.time(), message.decode::<Tick>().unwrap().number),
            (Timestamp(number * MILLI), number)
        );
    }

    let folder = Folder::at(place.folder.path().join("topics"));
    let topic = Topic::create(&folder, "ticks", &schema(), &TopicOptions::default()).unwrap();
    let mut subscriber = topic.subscriber().from_oldest().open().unwrap();
    let mut sink = TopicSink::new(&topic, &place.streams).unwrap();
    assert_eq!(place.play(Speed::Times(100.0), &mut sink).hash, first.hash);
    for number in 0..MESSAGES {
        let message = subscriber.next().unwrap().unwrap();
        assert_eq!(
            (message.time(), message.decode::<Tick>().unwrap().number),
            (Timestamp(number * MILLI), number)
        );
    }

    // Sealed, merged with nothing, and into streams of the same names.
    for stream in &place.streams {
        stream.seal().unwrap();
    }
    let other = Database::open(place.folder.path().join("other")).unwrap();
    let create =
        |stream: &Stream| other.create_stream(stream.name(), schema(), StreamOptions::default()).unwrap();
    let pairs: Vec<_> = place.streams.iter().map(|stream| (stream.clone(), create(stream))).collect();
    assert_eq!(place.play(Speed::Max, &mut StreamSink::each(&pairs).unwrap()).hash, first.hash);
    let (mut numbers, _received) = Numbers::new(None);
    let copies = other.cursor(["a", "b"]).unwrap().open().unwrap();
    let report = Player::new(copies, Speed::Max, Control::default()).run(&mut numbers).unwrap();
    assert_eq!(report.hash, first.hash);
}

#[test]
fn equal_times_late_messages_and_empty_bodies_have_one_order() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let schema = SchemaBuilder::new().with::<Ping>().with::<Tick>().finish();
    let streams: Vec<Stream> = ["b", "a"]
        .map(|name| db.create_stream(name, schema.clone(), StreamOptions::default()).unwrap())
        .into();
    let mut messages = 0;
    for (at, stream) in streams.iter().enumerate() {
        let mut loader = stream.loader().unwrap();
        // Each time three times, in the order in which the streams get them from late to early.
        for time in (0..50).rev().flat_map(|time| [time; 3]) {
            if (time + at as i64) % 2 == 0 {
                loader.append("P", Timestamp(time), &Ping {}).unwrap();
            } else {
                loader.append("T", Timestamp(time), &Tick { number: messages, note: String::new() }).unwrap();
            }
            messages += 1;
        }
        loader.close().unwrap();
    }
    let hash = |speed: Speed, sink: &mut dyn Sink| {
        let cursor = db.cursor(["b", "a"]).unwrap().open().unwrap();
        let report = Player::new(cursor, speed, Control::default()).run(sink).unwrap();
        assert_eq!(report.messages, messages as u64);
        report.hash
    };
    let first = hash(Speed::Max, &mut Nowhere);
    let topics = Folder::at(folder.path().join("topics"));
    let topic = Topic::create(&topics, "all", &schema, &TopicOptions::default()).unwrap();
    let mut subscriber = topic.subscriber().from_oldest().open().unwrap();
    assert_eq!(hash(Speed::Times(1.0), &mut TopicSink::new(&topic, &streams).unwrap()), first);
    let mut empty = 0;
    while let Some(message) = subscriber.next().unwrap() {
        empty += usize::from(message.decode::<Ping>().is_ok());
    }
    assert_eq!(empty as i64, messages / 2);
    let both = db.create_stream("both", schema, StreamOptions::default()).unwrap();
    assert_eq!(hash(Speed::Times(1.0), &mut StreamSink::new(&both, &streams).unwrap()), first);
    for stream in &streams {
        stream.seal().unwrap();
    }
    assert_eq!(hash(Speed::Max, &mut Nowhere), first);
}

#[test]
fn what_is_written_during_a_replay_comes_only_after_a_seek() {
    let place = Place::new();
    let (cursor, control) = (place.cursor(), Control::default());
    let mut loader = place.streams[0].loader().unwrap();
    for number in MESSAGES..MESSAGES + 10 {
        loader.append("S", Timestamp(number * MILLI), &Tick { number, note: String::new() }).unwrap();
    }
    loader.close().unwrap();
    let report = Player::new(cursor, Speed::Max, control).run(&mut Nowhere).unwrap();
    assert_eq!(report.messages, MESSAGES as u64);

    let (cursor, control) = (place.db.cursor(["a", "b"]).unwrap().open().unwrap(), Control::default());
    let mut loader = place.streams[1].loader().unwrap();
    let number = MESSAGES + 10;
    loader.append("S", Timestamp(number * MILLI), &Tick { number, note: String::new() }).unwrap();
    loader.close().unwrap();
    assert!(control.ask(Command::Seek(Timestamp((MESSAGES - 1) * MILLI))));
    let (mut numbers, received) = Numbers::new(None);
    Player::new(cursor, Speed::Max, control).run(&mut numbers).unwrap();
    assert!(received.try_iter().eq(MESSAGES - 1..=number));
}

#[test]
fn bodies_that_are_not_valid_are_damage_for_every_sink() {
    let place = Place::new();
    let stream = place.db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let target = place.db.create_stream("again", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let mut builder = BatchBuilder::new();
    for number in 0..3 {
        let tick = Tick { number, note: "abc".into() };
        loader.append("S", Timestamp(number), &tick).unwrap();
        let mut body = Vec::new();
        tapedb_codec::encode(&tick, &mut body);
        if number == 1 {
            // The text is where no text is.
            body[8..12].fill(0xff);
        }
        builder.push_bytes(number, 0, 0, &body).unwrap();
    }
    loader.close().unwrap();
    let log = place.folder.path().join("db/streams/s/0/00000000000000000000.log");
    let mut batch = Vec::new();
    builder.finish(1, &mut batch);
    let mut bytes = std::fs::read(&log).unwrap();
    // The same batch, with checksums that are right.
    bytes[64..64 + batch.len()].copy_from_slice(&batch);
    std::fs::write(&log, bytes).unwrap();

    /// Notes damage.
    struct Noting<S>(S, Vec<String>);
    impl<S: Sink> Sink for Noting<S> {
        fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
            self.0.deliver(message)
        }
        fn flush(&mut self) -> Result<(), ReplayError> {
            self.0.flush()
        }
        fn unreadable(&mut self, error: tapedb_engine::Error) -> Result<(), ReplayError> {
            self.1.push(error.to_string());
            Ok(())
        }
    }
    let play = |sink: &mut dyn Sink| {
        Player::new(stream.cursor().open().unwrap(), Speed::Max, Control::default()).run(sink)
    };
    let mut noting = Noting(StreamSink::new(&target, std::slice::from_ref(&stream)).unwrap(), Vec::new());
    let report = play(&mut noting).unwrap();
    assert_eq!((report.messages, noting.1.len()), (2, 1), "{:?}", noting.1);
    assert!(noting.1[0].contains("\"s\"") && noting.1[0].contains('1'), "{:?}", noting.1);
    let topics = Folder::at(place.folder.path().join("topics"));
    let topic = Topic::create(&topics, "s", &schema(), &TopicOptions::default()).unwrap();
    let mut noting = Noting(TopicSink::new(&topic, std::slice::from_ref(&stream)).unwrap(), Vec::new());
    assert_eq!((play(&mut noting).unwrap().hash, noting.1.len()), (report.hash, 1));
    // Without a decision it ends the replay.
    let error = play(&mut TopicSink::new(&topic, std::slice::from_ref(&stream)).unwrap()).unwrap_err();
    assert!(matches!(error, ReplayError::Stream(_)), "{error}");
}

#[test]
fn targets_of_other_types_and_the_source_itself_are_refused() {
    let place = Place::new();
    let others = SchemaBuilder::new().with::<Other>().finish();
    let other = place.db.create_stream("other", others.clone(), StreamOptions::default()).unwrap();
    let error = StreamSink::new(&place.streams[1], &place.streams).unwrap_err().to_string();
    assert!(error.contains("\"b\" cannot be replayed into itself"), "{error}");
    let error = StreamSink::new(&other, &place.streams).unwrap_err().to_string();
    assert!(error.contains("\"other\" has other record types than stream \"a\""), "{error}");
    let folder = Folder::at(place.folder.path().join("topics"));
    let topic = Topic::create(&folder, "other", &others, &TopicOptions::default()).unwrap();
    assert!(TopicSink::new(&topic, &place.streams).is_err());
    let copy = place.db.create_stream("copy", schema(), StreamOptions::default()).unwrap();
    let mut one = StreamSink::new(&copy, &place.streams[..1]).unwrap();
    let error = Player::new(place.cursor(), Speed::Max, Control::default()).run(&mut one).unwrap_err();
    assert!(error.to_string().contains("no target is known for stream \"b\""), "{error}");
}
