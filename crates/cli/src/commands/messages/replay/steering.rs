//! Commands of `tapedb replay --control`: lines of standard input.

use super::WAIT;
use crate::input::{Arrived, Lines, Piece, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_replay::{Command, Control};
use tapedb_terminal::{Ui, quantity};

/// Time between two attempts to send a command while as many wait as may wait.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// Sends the commands that arrive, until the input ends, the replay is over, or a signal arrives. What is no command is reported. After the
/// end of the input a replay that is paused ends.
pub fn steer(mut source: Source, control: &Control, is_over: &AtomicBool, ui: &Ui) {
    let mut lines = Lines::default();
    let ends = || is_over.load(Ordering::Acquire) || ui.is_interrupted();
    let send = |piece: Piece<'_>| match of_piece(piece) {
        Ok(Some(command)) => {
            while !control.ask(command) && !ends() {
                thread::sleep(FULL_WAIT);
            }
        }
        Ok(None) => {}
        Err(what) => ui.warn(&what),
    };
    while !ends() {
        match source.read(lines.spare(), Some(Instant::now() + WAIT), ui.signals()) {
            Ok(Arrived::Bytes(count)) => lines.filled(count),
            Ok(Arrived::Nothing | Arrived::Signal) => continue,
            Ok(Arrived::End) => {
                lines.last().into_iter().for_each(send);
                return control.close();
            }
            Err(error) => {
                ui.warn(&format!("cannot read commands: {error}; the replay goes on without them"));
                return control.close();
            }
        }
        while let Some(piece) = lines.next() {
            send(piece);
        }
    }
}

fn of_piece(piece: Piece<'_>) -> Result<Option<Command>, String> {
    match piece {
        Piece::Line(line) => command(String::from_utf8_lossy(line).trim()),
        Piece::Beginning(_) => Err("a line is too long for a command; it is ignored".into()),
        Piece::More(_) | Piece::Rest(_) => Ok(None),
    }
}

/// The command of a line; `None` for an empty one.
fn command(line: &str) -> Result<Option<Command>, String> {
    const FORMS: &str = "write pause, resume, step N, speed 10x, seek TIME, or stop";
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim()));
    Ok(Some(match (word, rest) {
        ("", _) => return Ok(None),
        ("pause", "") => Command::Pause,
        ("resume", "") => Command::Resume,
        ("stop", "") => Command::Stop,
        ("step", "") => Command::Step(1),
        ("step", count) => Command::Step(quantity::count(count)?),
        ("speed", speed) => Command::Speed(speed.parse().map_err(|error| format!("{error}"))?),
        ("seek", time) => Command::Seek(quantity::time(time)?),
        _ => {
            let shown: String = line.chars().take(40).collect();
            return Err(format!("{shown:?} is no command of a replay; {FORMS}"));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_replay::Speed;
    use tapedb_schema::Timestamp;

    #[test]
    fn commands_are_read() {
        for (line, expected) in [
            ("pause", Command::Pause),
            ("resume", Command::Resume),
            ("stop", Command::Stop),
            ("step", Command::Step(1)),
            ("step  2k", Command::Step(2000)),
            ("speed 0.5x", Command::Speed(Speed::Times(0.5))),
            ("speed max", Command::Speed(Speed::Max)),
            ("seek 1970-01-01T00:00:01", Command::Seek(Timestamp(1_000_000_000))),
        ] {
            assert_eq!(command(line), Ok(Some(expected)), "{line}");
        }
        assert_eq!(command(""), Ok(None));
        for line in ["pause now", "step x", "speed", "speed 0", "seek", "seek yesterday", "quit", "seek 5"] {
            assert!(command(line).is_err(), "{line}");
        }
    }
}
