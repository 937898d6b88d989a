//! Commands to replays while they run.

use crate::place::{MESSAGES, MILLI, Numbers, Place};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_replay::{Command, Control, Player, Speed};
use tapedb_schema::Timestamp;

#[test]
fn a_sink_that_is_busy_loses_nothing() {
    let place = Place::new();
    let (mut numbers, received) = Numbers::new(None);
    numbers.busy = Some(3);
    place.play(Speed::Max, &mut numbers);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), (0..MESSAGES).collect::<Vec<_>>());
    assert!(numbers.offers > MESSAGES as u64);
}

#[test]
fn it_pauses_steps_seeks_changes_its_speed_and_stops() {
    let place = Place::new();
    let control = Control::default();
    control.ask(Command::Pause);
    // Slower than the test: whatever is delivered is delivered because it was asked for.
    let player = Player::new(place.cursor(), Speed::Times(1e-6), control.clone());
    let (mut numbers, received) = Numbers::new(None);
    let next = || received.recv_timeout(Duration::from_secs(60)).expect("a message");
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        control.ask(Command::Step(2));
        assert_eq!((next(), next()), (0, 1));
        control.ask(Command::Step(1));
        assert_eq!(next(), 2);
        control.ask(Command::Seek(Timestamp(100 * MILLI)));
        control.ask(Command::Step(1));
        assert_eq!(next(), 100);
        assert!(received.try_recv().is_err());
        // Behind the end no step is left, and it waits for a seek.
        control.ask(Command::Seek(Timestamp(i64::MAX)));
        control.ask(Command::Step(5));
        control.ask(Command::Seek(Timestamp((MESSAGES - 3) * MILLI)));
        control.ask(Command::Resume);
        // The first message after a seek is due at once, the next one in a quarter of an hour, unless the speed changes.
        assert_eq!(next(), MESSAGES - 3);
        control.ask(Command::Seek(Timestamp(7 * MILLI)));
        assert_eq!(next(), 7);
        // In a second.
        control.ask(Command::Speed(Speed::Times(0.001)));
        assert_eq!(next(), 8);
        control.ask(Command::Stop);
        let report = running.join().unwrap();
        assert!(report.is_stopped && report.messages == 7, "{report:?}");
    });
}

#[test]
fn delays_are_measured_from_when_messages_are_due() {
    let place = Place::new();
    let (leave, left) = channel();
    let (mut numbers, received) = Numbers::new(Some(left));
    let player = Player::new(place.cursor(), Speed::Times(1.0), Control::default());
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        // The clock begins with the first one. All are due 600 ms later; none is taken before.
        leave.send(()).unwrap();
        assert_eq!(received.recv().unwrap(), 0);
        thread::sleep(Duration::from_millis(800));
        (1..MESSAGES).for_each(|_| leave.send(()).unwrap());
        (1..MESSAGES).for_each(|number| assert_eq!(received.recv().unwrap(), number));
        let late = running.join().unwrap().late;
        // From 800 ms for the second one down to 200 for the last, and more on a busy machine.
        assert_eq!(late.len(), MESSAGES as u64);
        let quantiles = [0.01, 0.5, 1.0].map(|quantile| late.value_at_quantile(quantile) / 1_000_000);
        assert!(quantiles[0] >= 195 && quantiles[1] >= 490 && quantiles[2] >= 790, "{quantiles:?} ms");
    });
}

#[test]
fn commands_that_wait_are_obeyed_one_after_another() {
    let place = Place::new();
    let control = Control::default();
    for command in [
        Command::Step(2),
        Command::Seek(Timestamp(50 * MILLI)),
        Command::Step(3),
        Command::Seek(Timestamp(i64::MIN)),
        Command::Step(1),
    ] {
        assert!(control.ask(command));
    }
    // Nothing would let it go on: it ends.
    control.close();
    let (mut numbers, received) = Numbers::new(None);
    let report = Player::new(place.cursor(), Speed::Max, control).run(&mut numbers).unwrap();
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [0, 1, 50, 51, 52, 0]);
    assert!(report.is_stopped && report.messages == 6 && report.last == Some(Timestamp(0)), "{report:?}");

    // At the end of history it ends, and is not stopped before.
    let control = Control::default();
    assert!(control.ask(Command::Step(u64::MAX)));
    control.close();
    let (mut numbers, _received) = Numbers::new(None);
    let report = Player::new(place.cursor(), Speed::Times(1.0), control).run(&mut numbers).unwrap();
    assert!(!report.is_stopped && report.messages == MESSAGES as u64, "{report:?}");
}

#[test]
fn a_sink_that_takes_nothing_does_not_keep_it_from_ending() {
    let place = Place::new();
    let control = Control::default();
    let (mut numbers, received) = Numbers::new(None);
    numbers.busy = Some(1);
    assert!(control.ask(Command::Step(10)));
    let player = Player::new(place.cursor(), Speed::Max, control.clone());
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        thread::sleep(Duration::from_millis(20));
        control.stop_now();
        let report = running.join().unwrap();
        assert!(report.is_stopped && report.messages == 0, "{report:?}");
    });
    assert!(received.try_recv().is_err());
}

#[test]
fn a_seek_at_full_speed_and_then_a_speed_go_on_from_the_seek() {
    let place = Place::new();
    let control = Control::default();
    let (leave, left) = channel();
    let (mut numbers, received) = Numbers::new(Some(left));
    let player = Player::new(place.cursor(), Speed::Max, control.clone());
    let next = || {
        leave.send(()).unwrap();
        received.recv_timeout(Duration::from_secs(60)).expect("a message")
    };
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        (0..300).for_each(|number| assert_eq!(next(), number));
        control.ask(Command::Seek(Timestamp(10 * MILLI)));
        control.ask(Command::Speed(Speed::Times(1.0)));
        // One message may have been on its way before the seek.
        let first = next();
        let from = if first == 300 { 10 } else { first + 1 };
        assert!([10, 11].contains(&from), "{first}");
        // From 10 to 210 it takes its 200 ms, of which some may be over: the clock did not go on from 300.
        let began = Instant::now();
        (from..=210).for_each(|number| assert_eq!(next(), number));
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
        control.stop_now();
        let _ = leave.send(());
        running.join().unwrap();
    });
}

#[test]
fn a_speed_after_full_speed_goes_on_from_there() {
    let place = Place::new();
    let control = Control::default();
    let (leave, left) = channel();
    let (mut numbers, received) = Numbers::new(Some(left));
    let player = Player::new(place.cursor(), Speed::Max, control.clone());
    thread::scope(|scope| {
        let running = scope.spawn(move || player.run(&mut numbers).unwrap());
        let next = || {
            leave.send(()).unwrap();
            received.recv_timeout(Duration::from_secs(60)).expect("a message")
        };
        (0..300).for_each(|number| assert_eq!(next(), number));
        control.ask(Command::Speed(Speed::Times(10.0)));
        (300..MESSAGES).for_each(|number| assert_eq!(next(), number));
        let report = running.join().unwrap();
        // All but the one that was under way when it was asked were due at an instant.
        assert!((MESSAGES as u64 - 302..=MESSAGES as u64 - 300).contains(&report.late.len()), "{report:?}");
    });
}
