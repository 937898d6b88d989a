//! `tapedb replay` while it runs: commands, signals, live readers, a tick plant.

use crate::kdb_client::{KdbClient, sizes_of, trades};
use crate::replaying::filled;
use crate::support::{Place, Run, end, signal};
use crate::ticking::{Role, TABLES, text};
use crate::ticking_kdb::{ANY, plant_line};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A replay with its commands in a pipe and its lines in another.
struct Controlled {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Controlled {
    fn start(place: &Place, line: &str) -> Self {
        let mut command = place.command(&format!("replay {line} --control --output json"));
        let mut child = place.start(command.stdin(Stdio::piped()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, command: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{command}").and_then(|()| input.flush()).expect("it reads");
    }

    fn next(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// Lines that are left, exit code and standard error.
    fn end(mut self) -> (Vec<String>, i32, String) {
        let rest = self.lines.by_ref().map(Result::unwrap).collect();
        let run = end(self.child);
        (rest, run.code, run.err)
    }
}

#[test]
fn commands_pause_step_seek_change_the_speed_and_stop() {
    let place = filled();
    let all: Vec<String> = place.run("read a --output json").good().lines().map(str::to_string).collect();
    let at = |line: &str| {
        serde_json::from_str::<Value>(line).expect(line)["timestamp"].as_str().unwrap().to_string()
    };
    let mut replay = Controlled::start(&place, "a --speed pause");
    replay.send("step 2");
    assert_eq!([replay.next(), replay.next()], [all[0].clone(), all[1].clone()]);
    replay.send("jump\n\nstep");
    assert_eq!(replay.next(), all[2]);
    // The first message at that time may be one before.
    let wanted = at(&all[1_000]);
    let first = all.iter().position(|line| at(line) == wanted).unwrap();
    replay.send(&format!("seek {wanted}\nstep 1"));
    assert_eq!(replay.next(), all[first]);
    // Backwards, and then on to the end at another speed.
    replay.send("seek 2024-01-01\nspeed 1000x\nresume");
    all.iter().for_each(|line| assert_eq!(replay.next(), *line));
    let (rest, code, err) = replay.end();
    assert_eq!((rest.len(), code), (0, 0), "{err}");
    assert!(err.contains("\"jump\" is no command") && err.contains("replayed 2,004 messages"), "{err}");

    let mut replay = Controlled::start(&place, "a --speed 0.001x");
    assert_eq!(replay.next(), all[0]);
    replay.send("pause\nstep 3\nstop");
    let (rest, code, err) = replay.end();
    // What was due before the pause came too.
    assert!(code == 0 && rest.len() >= 3 && rest.len() < 1_000, "{} {err}", rest.len());
    assert_eq!(rest, all[1..=rest.len()]);

    // When there is no one left to let it go on, a paused replay ends; one that plays plays on.
    let mut replay = Controlled::start(&place, "a --speed pause");
    replay.send("step 5");
    drop(replay.child.stdin.take());
    assert_eq!(replay.end().0, all[..5]);
    let mut replay = Controlled::start(&place, "a --speed 100x");
    drop(replay.child.stdin.take());
    assert_eq!(replay.end().0, all);
}

#[test]
fn a_signal_ends_a_replay_wherever_it_waits() {
    let place = filled();
    for line in ["--speed 0.000001x", "--speed pause --control", "--speed 0.000001x --into copy --control"] {
        let mut command = place.command(&format!("replay a {line} --json"));
        let mut child = place.start(command.stdin(Stdio::piped()));
        // Also on a busy machine it has begun after that.
        sleep(Duration::from_secs(2));
        assert!(child.try_wait().unwrap().is_none(), "{line}: it has ended by itself");
        signal(&child, "INT");
        // Its input stays open.
        let _input = child.stdin.take();
        let run = end(child);
        assert_eq!(run.code, 130, "{line}: {} {}", run.out, run.err);
        let summary = if line.contains("--into") { &run.out } else { &run.err };
        let summary: Value = serde_json::from_str(summary).unwrap_or_else(|_| panic!("{line}: {summary}"));
        assert_eq!(summary["stopped"], true, "{line}");
    }
    // What was delivered is stored.
    assert!((1..10).contains(&place.messages("copy")));
}

#[test]
fn a_live_reader_sees_a_replay_message_by_message_and_late_ones_after_a_seek() {
    let place = Place::new();
    place.run("generate --stream a --messages 30 --rate 5").good();
    // The stream has to be there for its reader.
    place.run("replay a --to 2024-01-01 --into live --speed max").good();
    let mut reader = place.start(&mut place.command("tail live --last 30 --output json"));
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines().map(Result::unwrap);
    sleep(Duration::from_secs(1));
    let mut command = place.command("replay a --into live --speed 1x --control --json");
    let mut replay = place.start(command.stdin(Stdio::piped()));
    let began = Instant::now();
    let first = lines.next().unwrap();
    let fifth = lines.by_ref().nth(3).unwrap();
    // They arrive as they are due, not at the end.
    assert!(replay.try_wait().unwrap().is_none(), "{first} {fifth} {:?}", began.elapsed());
    let input = replay.stdin.as_mut().unwrap();
    writeln!(input, "pause\nseek 2024-01-01\nspeed max\nresume").unwrap();
    let run = end(replay);
    let summary: Value = serde_json::from_str(&run.out).expect(&run.err);
    let messages = summary["messages"].as_u64().unwrap();
    assert!((35..60).contains(&messages), "{summary}");
    let rest: Vec<String> = lines.by_ref().take(messages as usize - 5).collect();
    // In order of arrival: the beginning once more, and then all to the end.
    let all: Vec<String> = place.run("read a --output json").good().lines().map(str::to_string).collect();
    assert_eq!(rest[rest.len() - 30..], all);
    signal(&reader, "INT");
    assert_eq!(end(reader).code, 130);
    assert_eq!(place.messages("live"), messages);

    // A stream that refuses late messages ends the replay with an error.
    place.run("replay a --to 2024-01-01 --into strict --speed max").good();
    place.run("alter strict --late refuse").good();
    let mut command = place.command("replay a --into strict --speed pause --control");
    let mut child = place.start(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(b"step 20\nseek 2024-01-01\nstep 20\n").unwrap();
    let refused = end(child).bad(1);
    assert!(refused.contains("strict"), "{refused}");
    assert_eq!(place.messages("strict"), 20);
}

#[test]
fn clients_of_kdb_see_a_replay_into_a_plant_as_live() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    for folder in [&old, &new] {
        std::fs::create_dir(folder).unwrap();
    }
    let options = format!("--listen {ANY} --ask off --kdb {ANY}");
    {
        let (_plant, addresses) = Role::start(&plant_line(&old, TABLES, &options), 3);
        let mut feed = KdbClient::connect(&text(&addresses, "kdb"));
        feed.send(&trades(0, 60)).unwrap();
        assert_eq!(feed.long("count trade").unwrap(), 60);
    }
    let (_plant, addresses) = Role::start(&plant_line(&new, TABLES, &options), 3);
    let mut subscriber = KdbClient::connect(&text(&addresses, "kdb"));
    subscriber.ask(".u.sub[`trade;`]").unwrap();
    let line = format!(
        "replay tp/trade --speed 100x --json --db {} --into-db tape://{}",
        old.join("db").display(),
        text(&addresses, "tcp")
    );
    let summary = Run::plain(&line).json().remove(0);
    assert_eq!(summary["messages"], 60, "{summary}");
    let mut sizes = Vec::new();
    while sizes.len() < 60 {
        sizes.extend(sizes_of(&subscriber.update().expect("an update")));
    }
    assert!(sizes.into_iter().eq(0..60));
    assert_eq!(subscriber.long("count trade").unwrap(), 60);
}
