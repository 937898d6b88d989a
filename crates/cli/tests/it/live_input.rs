//! `load`, `topic publish` and other commands at the end of a pipe: input is stored as it arrives, and signals end them.

use crate::support::{Place, Run, end, signal};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

const SCHEMA: &str = "message Tick { price: decimal64, size: u32?, at: timestamp? }";

fn line(size: usize) -> String {
    format!(
        "{{\"symbol\": \"A\", \"timestamp\": \"2026-01-05T14:30:00Z\", \"price\": \"1.5\", \"size\": {size}}}\n"
    )
}

fn lines(sizes: std::ops::Range<usize>) -> String {
    sizes.map(line).collect()
}

/// A place with an empty stream `ticks`.
fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("ticks.schema"), SCHEMA).unwrap();
    place.run(&format!("create ticks --schema {}", place.path("ticks.schema").display())).good();
    place
}

/// Starts a command with a pipe as its input.
fn piped(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

fn send(child: &mut Child, bytes: impl AsRef<[u8]>) {
    let pipe = child.stdin.as_mut().expect("piped");
    pipe.write_all(bytes.as_ref()).and_then(|()| pipe.flush()).expect("it reads");
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// Waits for the child to end by itself.
#[track_caller]
fn ended(mut child: Child) -> Run {
    wait_until("it ends", || child.try_wait().expect("it can be looked at").is_some());
    end(child)
}

fn sizes(place: &Place) -> Vec<u64> {
    place.run("read ticks --json").json().iter().map(|tick| tick["size"].as_u64().unwrap()).collect()
}

#[test]
fn messages_before_a_pause_are_visible_and_survive_a_kill() {
    let place = place();
    let mut child = piped(&mut place.command("load ticks"));
    for count in 1..=3 {
        send(&mut child, line(count));
        wait_until("a pause shows what came", || place.messages("ticks") == count as u64);
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, -1);
    assert_eq!(sizes(&place), [1, 2, 3]);
}

#[test]
fn input_without_pauses_is_visible_after_the_interval() {
    let place = place();
    let mut child = piped(&mut place.command("load ticks --flush-interval 50ms"));
    let mut sent = 0;
    wait_until("it is seen", || {
        // More often than the shortest pause.
        for _ in 0..20 {
            send(&mut child, line(sent));
            sent += 1;
            sleep(Duration::from_micros(500));
        }
        place.messages("ticks") > 0
    });
    drop(child.stdin.take());
    assert!(ended(child).good().starts_with("loaded "));
    assert_eq!(place.messages("ticks"), sent as u64);
}

#[test]
fn signals_end_it_after_all_input_is_stored() {
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let place = place();
        let mut child = piped(&mut place.command("load ticks"));
        send(&mut child, line(0));
        wait_until("it reads", || place.messages("ticks") == 1);
        // Less than a pipe holds, so all of it is sent before the signal; the last line is incomplete.
        send(&mut child, lines(1..600) + "{\"symbol\"");
        signal(&child, name);
        // A second signal, as from a terminal and a supervisor, loses no input.
        signal(&child, name);
        let run = ended(child);
        assert_eq!((run.code, run.out.as_str()), (code, "loaded 600 messages into stream \"ticks\"\n"));
        assert!(run.err.contains("its first 9 bytes are not stored"), "{}", run.err);
        assert_eq!(sizes(&place), (0..600).collect::<Vec<u64>>());
    }
}

#[test]
fn bad_lines_do_not_end_a_recorder_that_skips_them() {
    let place = place();
    let bad: [&[u8]; 8] = [
        b"{\"symbol\": \"A\"}",
        b"\xff\xfe\x00",
        b"null",
        &[b'['; 100_000],
        b"{\"symbol\": \"\", \"timestamp\": \"2026-01-05\", \"price\": \"1\"}",
        b"{\"symbol\": \"A\", \"timestamp\": \"2026-01-05\", \"price\": \"1\", \"size\": -1}",
        b"{\"symbol\": \"A\", \"timestamp\": 1381156202, \"price\": \"1\"}",
        b"{\"symbol\": \"A\", \"timestamp\": \"2026-01-05\", \"price\": \"1\", \"sise\": 1}",
    ];
    let kept = place.path("bad.jsonl");
    let command = format!("load ticks --on-bad-line {} --json", kept.display());
    let mut child = piped(&mut place.command(&command));
    for (number, bytes) in bad.iter().enumerate() {
        send(&mut child, [bytes, b"\n".as_slice(), line(number).as_bytes()].concat());
        wait_until("it goes on", || place.messages("ticks") == number as u64 + 1);
    }
    drop(child.stdin.take());
    let run = ended(child);
    assert_eq!((run.code, run.out.as_str()), (0, "{\"stream\":\"ticks\",\"messages\":8,\"bad_lines\":8}\n"));
    assert_eq!(run.err.lines().filter(|line| line.starts_with("{\"warning\":\"skipped line ")).count(), 8);
    let all: Vec<u8> = bad.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect();
    assert!(std::fs::read(&kept).unwrap() == all, "each as it came");

    // Reading the file while appending to it would never end.
    let again = format!("load ticks {0} --on-bad-line {0}", kept.display());
    assert!(place.run(&again).bad(2).contains("name another file"));
    let run = place.run(&format!("load ticks {} --on-bad-line skip", kept.display()));
    assert!(run.out.ends_with("; 8 bad lines were skipped\n"), "{}", run.out);
    let error = place.run(&format!("load ticks {}", kept.display())).bad(1);
    assert!(error.contains("line 1 of") && error.contains("the 0 messages before it"), "{error}");
}

#[test]
fn a_line_over_the_limit_is_skipped_in_bounded_memory() {
    let place = place();
    let kept = place.path("bad.jsonl");
    let mut child = piped(&mut place.command(&format!("load ticks --on-bad-line {}", kept.display())));
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..130 {
        send(&mut child, &chunk);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    send(&mut child, "\n".to_string() + &line(7));
    wait_until("it goes on", || place.messages("ticks") == 1);
    drop(child.stdin.take());
    let run = ended(child);
    assert!(run.code == 0 && run.err.contains("longer than 64 MiB"), "{}", run.err);
    assert_eq!(std::fs::metadata(&kept).unwrap().len(), (130 << 20) + 1);
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    assert!(peak.is_none_or(|peak: u64| peak < 400 << 10), "{status}");
}

#[test]
fn signals_end_the_wait_for_a_named_pipe() {
    let place = place();
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let load = || piped(&mut place.command(&format!("load ticks {}", pipe.display())));
    let child = load();
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(line(1).as_bytes()).unwrap();
    wait_until("it reads", || place.messages("ticks") == 1);
    drop(writer);
    assert_eq!(ended(child).good(), "loaded 1 messages into stream \"ticks\"\n");
    // There never was a writer.
    let child = load();
    wait_until("it listens", || listens(&child));
    signal(&child, "INT");
    assert_eq!(ended(child).code, 130);
}

/// Whether it waits for input and signals: then it has the thread for signals.
fn listens(child: &Child) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", child.id())) else { return false };
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().any(|task| name(task).starts_with("tape-signals"))
}

#[test]
fn signals_end_the_wait_for_a_schema_or_a_script() {
    let place = place();
    for (line, beginning) in [("create ticks --schema -", "message"), ("shell", "# a comment\n")] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = place.command(line);
        let child = place.start(command.stdin(reader.try_clone().unwrap()));
        writer.write_all(beginning.as_bytes()).unwrap();
        wait_until("it reads", || rustix::io::ioctl_fionread(&reader) == Ok(0));
        signal(&child, "INT");
        let run = ended(child);
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (130, "", ""), "{line}");
    }
}

#[test]
fn a_pipe_into_a_server_is_visible_as_it_arrives() {
    let place = place();
    let mut server = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    server.args(["--json", "server", "--listen", "127.0.0.1:0", "--http", "off", "--log", "error", "--db"]);
    let mut server = piped(server.arg(place.db()));
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().unwrap()), &mut ready)
        .unwrap();
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    let url = format!("tape://{}", ready["tcp"].as_str().unwrap());
    let mut load = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    let mut child = piped(load.args(["load", "ticks", "--db", &url]));
    for count in 1..=2 {
        send(&mut child, line(count));
        wait_until("a pause shows what came", || place.messages("ticks") == count as u64);
    }
    send(&mut child, lines(3..300));
    signal(&child, "TERM");
    let run = ended(child);
    assert_eq!(
        (run.code, run.out.as_str()),
        (143, "loaded 299 messages into stream \"ticks\"\n"),
        "{}",
        run.err
    );
    signal(&server, "TERM");
    assert_eq!(ended(server).code, 0);
    assert_eq!(sizes(&place), (1..300).collect::<Vec<u64>>());
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_into_a_topic_is_published_as_it_arrives() {
    use tapedb_topic::{Folder, Topic};
    let place = place();
    let (folder, schema) = (place.path("topics"), place.path("ticks.schema"));
    let topic = |what: &str| format!("topic {what} ticks --folder {}", folder.display());
    Run::plain(&format!("{} --schema {}", topic("create"), schema.display())).good();
    let opened = Topic::open(&Folder::at(&folder), "ticks").unwrap();
    let mut publish = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    let line_of = topic("publish");
    publish.args(line_of.split_whitespace()).args(["--on-bad-line", "skip"]);
    let mut child = piped(&mut publish);
    send(&mut child, line(0) + "null\n");
    wait_until("it is published", || opened.stats().next_sequence == 1);
    send(&mut child, lines(1..500));
    signal(&child, "TERM");
    signal(&child, "TERM");
    let run = ended(child);
    assert_eq!(run.code, 143, "{}", run.err);
    assert_eq!(run.out, "published 500 messages to topic \"ticks\"; 1 bad lines were skipped\n");
    assert_eq!(opened.stats().next_sequence, 500);
    let file = place.path("seconds.jsonl");
    std::fs::write(&file, r#"{"symbol": "A", "timestamp": 1381156202, "price": 1}"#).unwrap();
    let publish = format!("{} {}", topic("publish"), file.display());
    assert!(Run::plain(&publish).bad(1).contains("--time-unit"));
    Run::plain(&format!("{publish} --time-unit s")).good();
    let last = Run::plain(&(topic("tail") + " --oldest --limit 501 --json")).json().remove(500);
    assert_eq!(last["timestamp"], "2013-10-07T14:30:02Z");
}

#[test]
fn times_are_not_guessed() {
    let place = place();
    let file = place.path("ticks.jsonl");
    let load = |time: &str, options: &str| {
        let text =
            format!("{{\"symbol\": \"A\", \"timestamp\": {time}, \"price\": \"1\", \"at\": {time}}}\n");
        std::fs::write(&file, text).unwrap();
        place.run(&format!("load ticks {} {options}", file.display()))
    };
    for (number, unit, name) in [
        ("1381156202", "s", "seconds"),
        ("1381156202000", "ms", "milliseconds"),
        ("1381156202000000", "us", "microseconds"),
    ] {
        let error = load(number, "").bad(1);
        assert!(error.contains(&format!("in {name} 2013-10-07T14:30:02Z")), "{error}");
        assert!(error.contains("--time-unit"), "{error}");
        load(number, &format!("--time-unit {unit}")).good();
    }
    load("1381156202000000000", "").good();
    assert_eq!(load("1381156202", "--time-unit h").code, 2);
    let read = place.run("read ticks --json").json();
    assert_eq!(read.len(), 4);
    assert!(read.iter().all(|tick| {
        [&tick["timestamp"], &tick["at"]].iter().all(|time| **time == "2013-10-07T14:30:02Z")
    }));

    assert_eq!(place.run("read ticks --from 1381156202s --to 1381156203000ms --json").json().len(), 4);
    let error = place.run("read ticks --from 1381156202");
    assert!(error.code == 2 && error.err.contains("1381156202s"), "{}", error.err);

    std::fs::write(&file, r#"{"symbol": "A", "timestamp": 1381156202500, "price": "2"}"#).unwrap();
    let rewrite = format!("rewrite ticks {} --from 1381156202s --to 1381156203s --yes", file.display());
    assert!(place.run(&rewrite).bad(1).contains("nothing was changed"));
    place.run(&format!("{rewrite} --time-unit ms")).good();
    assert_eq!(place.run("read ticks --json").json()[0]["timestamp"], "2013-10-07T14:30:02.500Z");
}

#[test]
fn a_rewrite_asks_and_refuses_empty_input() {
    let place = place();
    let file = place.path("ticks.jsonl");
    std::fs::write(&file, lines(0..3)).unwrap();
    place.run(&format!("load ticks {}", file.display())).good();
    let before = place.totals("ticks");
    let rewrite = |file: &Path, more: &str| {
        place.run(&format!("rewrite ticks {} --from 2026-01-05 --to 2026-01-06 {more}", file.display()))
    };
    assert!(rewrite(&file, "").bad(1).contains("--yes"), "standard input is not a terminal");
    let empty = place.path("empty.jsonl");
    std::fs::write(&empty, "\n").unwrap();
    for more in ["", "--yes"] {
        assert!(rewrite(&empty, more).bad(1).contains("--empty"));
    }
    assert!(rewrite(&empty, "--empty").bad(1).contains("--yes"));
    // Empty standard input, as after a failed writer.
    let bare = "rewrite ticks --from 2026-01-05 --to 2026-01-06 --yes";
    assert!(place.run(bare).bad(1).contains("--empty"));
    assert_eq!(place.totals("ticks"), before);
    rewrite(&empty, "--empty --yes").good();
    assert_eq!(place.messages("ticks"), 0);
}
