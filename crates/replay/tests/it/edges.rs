//! Seeks at edges, times at the limits of the type, and history that is purged, deleted or sealed while it is played.

use crate::place::{MESSAGES, MILLI, Nowhere, Numbers, Place, Tick, schema};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use tapedb_engine::StreamOptions;
use tapedb_replay::{Command, Control, Player, Speed};
use tapedb_schema::Timestamp;

#[test]
fn a_seek_finds_the_first_message_at_or_after_its_time() {
    let place = Place::new();
    let control = Control::default();
    control.ask(Command::Pause);
    let player = Player::new(place.cursor(), Speed::Max, control.clone());
    let (mut numbers, received) = Numbers::new(None);
    let next = || received.recv_timeout(Duration::from_secs(60)).expect("a message");
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        for (time, expected) in [
            (i64::MIN, 0),
            (-1, 0),
            (0, 0),
            (1, 1),
            (7 * MILLI - 1, 7),
            (7 * MILLI, 7),
            (7 * MILLI + 1, 8),
            ((MESSAGES - 1) * MILLI, MESSAGES - 1),
            (i64::MIN, 0),
        ] {
            control.ask(Command::Seek(Timestamp(time)));
            control.ask(Command::Step(1));
            assert_eq!(next(), expected, "{time}");
        }
        for time in [(MESSAGES - 1) * MILLI + 1, i64::MAX] {
            control.ask(Command::Seek(Timestamp(time)));
            control.ask(Command::Step(1));
        }
        control.close();
        assert_eq!(running.join().unwrap().messages, 9);
    });
    assert!(received.try_recv().is_err(), "nothing is behind the last message");
}

#[test]
fn times_at_the_limits_of_the_type_are_played_at_every_speed_that_reaches_them() {
    let place = Place::new();
    let stream = place.db.create_stream("limits", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let times = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1];
    for (number, time) in times.into_iter().enumerate() {
        let tick = Tick { number: number as i64, note: String::new() };
        loader.append("S", Timestamp(time), &tick).unwrap();
    }
    loader.close().unwrap();
    let play = |speed: Speed| {
        let cursor = place.db.cursor(["limits"]).unwrap().open().unwrap();
        Player::new(cursor, speed, Control::default()).run(&mut Nowhere).unwrap()
    };
    let first = play(Speed::Max);
    // Six centuries in 18 ms.
    let second = play(Speed::Times(1e12));
    assert_eq!((first.messages, first.hash), (5, second.hash));
}

#[test]
fn history_that_goes_while_it_is_played_is_no_error_and_nothing_comes_twice() {
    for is_sealed in [false, true] {
        let place = Place::new();
        if is_sealed {
            for stream in &place.streams {
                stream.seal().unwrap();
            }
        }
        let (leave, left) = channel();
        let (mut numbers, received) = Numbers::new(Some(left));
        let control = Control::default();
        let player = Player::new(place.cursor(), Speed::Max, control.clone());
        let next = || received.recv_timeout(Duration::from_secs(60)).expect("a message");
        thread::scope(|scope| {
            let running = scope.spawn(move || player.run(&mut numbers).unwrap());
            (0..10).for_each(|_| leave.send(()).unwrap());
            (0..10).for_each(|number| assert_eq!(next(), number));
            for stream in &place.streams {
                stream.purge(Timestamp(300 * MILLI)).unwrap();
                stream.delete(Timestamp(400 * MILLI)..Timestamp(500 * MILLI), None::<[&str; 0]>).unwrap();
                stream.seal().unwrap();
            }
            // Again from the begin of what is left.
            (0..MESSAGES).for_each(|_| leave.send(()).unwrap());
            let rest: Vec<i64> =
                std::iter::from_fn(|| received.recv_timeout(Duration::from_secs(60)).ok()).collect();
            assert!(rest.is_sorted_by(|a, b| a < b), "{rest:?}");
            assert_eq!((rest.last(), running.join().unwrap().is_stopped), (Some(&(MESSAGES - 1)), false));
        });
        let (mut numbers, received) = Numbers::new(None);
        place.play(Speed::Max, &mut numbers);
        let expected = (300..400).chain(500..MESSAGES);
        assert!(received.try_iter().eq(expected), "sealed before: {is_sealed}");
    }
}
