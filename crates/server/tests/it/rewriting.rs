//! Rewrites and renamed symbols: rights, ownership and audit entries.

use crate::support::{Client, Served, batch, serve_with, user};
use std::net::TcpStream;
use tapedb_access::May;
use tapedb_engine::{Command, Outcome, Replacement, StreamOptions, Target};
use tapedb_wire::{Login, Rest, ToClient, ToServer};

const ALL: [May; 4] = [May::Read, May::Write, May::Create, May::Admin];

/// A stream with five messages, at times 0 to 4.
fn stream() -> (Served, Client<TcpStream>, Target) {
    let users = [user("ann", "*", &ALL), user("bob", "*", &[May::Read, May::Write]), user("eve", "*", &ALL)];
    let served = serve_with(&users, |_| {});
    let mut ann = served.client_as(Login::Token("tape_ann"));
    let stream_id = ann.create("s", StreamOptions::default()).unwrap();
    ann.add_symbols(stream_id, &["A"]).unwrap();
    let stream = served.server().database().stream("s").unwrap();
    let mut loader = stream.batches(0).unwrap();
    let mut five = batch(0, 5);
    let pending = loader.write(&mut five).unwrap();
    loader.commit(pending, &five).unwrap();
    (served, ann, Target { stream_id, name: "s".into() })
}

fn begin(stream: &Target) -> Command {
    let (stream, symbols) = (stream.clone(), Some(vec!["A".to_string()]));
    Command::BeginRewrite(Replacement { stream, rewrite: 7, space: 0, from: 1, last: 3, symbols })
}

fn commit(stream: &Target, last_number: u64) -> Command {
    Command::CommitRewrite { stream: stream.clone(), rewrite: 7, last_number }
}

impl Client<TcpStream> {
    fn stage(&mut self, number: u64, times: (i64, usize)) -> Result<u64, String> {
        let batch = batch(times.0, times.1);
        let staged = ToServer::Stage { rewrite: 7, number, batch: Rest(&batch) };
        self.answer(&staged, |answer| match answer {
            ToClient::Done { outcome } => Ok(outcome.numbers[0] as u64),
            ToClient::Failed { failure } => Err(format!("{}: {}", failure.code, failure.texts.join(": "))),
            other => panic!("{other:?}"),
        })
    }
}

fn messages(served: &Served) -> u64 {
    let mut cursor = served.server().database().stream("s").unwrap().cursor().open().unwrap();
    std::iter::from_fn(|| cursor.next().unwrap().map(drop)).count() as u64
}

#[test]
fn messages_are_replaced_with_the_right_and_audited() {
    let (served, mut ann, stream) = stream();
    let mut bob = served.client_as(Login::Token("tape_bob"));
    assert!(bob.command(&begin(&stream)).unwrap_err().contains("no right to admin"));
    ann.command(&begin(&stream)).unwrap();
    assert_eq!((ann.stage(1, (2, 2)), ann.stage(1, (2, 2)), messages(&served)), (Ok(1), Ok(1), 5));
    // Another connection of the same user continues.
    drop(ann);
    let mut ann = served.client_as(Login::Token("tape_ann"));
    assert_eq!(ann.command(&begin(&stream)).unwrap().numbers, [1]);
    let replaced = ann.command(&commit(&stream, 1)).unwrap();
    assert_eq!(replaced.code, tapedb_codes::outcome::to_coded(&Outcome::Sequences(5..7)).code);
    assert_eq!((replaced.numbers, messages(&served)), (vec![5, 7], 4));
    assert_eq!(ann.command(&commit(&stream, 1)).unwrap().numbers, [5, 7], "executed once, answered again");
    let audit = served.audit();
    for part in [
        r#""event":"forbidden","user":"bob""#,
        r#""event":"begin-rewrite","user":"ann""#,
        "times 1 to 3, 1 symbols",
        "by messages 5 to before 7",
    ] {
        assert!(audit.contains(part), "{audit} lacks {part}");
    }
}

#[test]
fn a_rewrite_belongs_to_its_user() {
    let (served, mut ann, stream) = stream();
    ann.command(&begin(&stream)).unwrap();
    let mut eve = served.client_as(Login::Token("tape_eve"));
    assert!(eve.stage(1, (2, 2)).unwrap_err().starts_with("30: "));
    assert!(eve.command(&commit(&stream, 0)).is_err());
    eve.command(&Command::DropRewrite { stream: stream.clone(), rewrite: 7 }).unwrap();
    assert_eq!(ann.stage(1, (1, 3)), Ok(1));
    // A message that is not to be replaced, and a batch that is not valid.
    assert!(ann.stage(2, (3, 3)).unwrap_err().contains("none of those"));
    assert!(ann.command(&commit(&stream, 1)).unwrap_err().contains("none of those"));
    assert_eq!(messages(&served), 5);
}

#[test]
fn renaming_a_symbol_requires_the_right() {
    let (served, mut ann, stream) = stream();
    let rename = Command::RenameSymbol { stream, id: 0, old: "A".into(), new: "B".into() };
    let mut bob = served.client_as(Login::Token("tape_bob"));
    assert!(bob.command(&rename).unwrap_err().contains("no right to admin"));
    ann.command(&rename).unwrap();
    ann.command(&rename).unwrap();
    assert_eq!(served.server().database().stream("s").unwrap().symbols(), ["B"]);
    assert!(served.audit().contains("A to B"));
}
