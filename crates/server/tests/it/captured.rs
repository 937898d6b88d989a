//! A short session as bytes on the wire: `testing/vectors/wire-session.txt`, which `docs/format/wire.md` explains byte
//! by byte (`crates/wire/src/session_page.rs`). Random ids and times are replaced by fixed values; all other bytes must
//! be those of the current client and server.

use crate::support::{batch, serve_with, socket, user};
use crc_fast::{CrcAlgorithm, checksum};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};
use tapedb_access::May;
use tapedb_codec::batch::assign_producer;
use tapedb_engine::{Database, Error, Query, QueryEngine, QueryRows, QueryStep, QueryUser};
use tapedb_server::Config;
use tapedb_wire::{ClientSession, Decoder, Description, Login, PREFACE, Rest, ToClient, ToServer};

const EPOCH: u64 = 0x5eed_0000_0000_0001;
const RUN: u64 = 0x5eed_0000_0000_0002;
const STREAM_ID: u64 = 0x4c1d_9505_2de1_a1f5;
const CREATED: &str = "2026-03-01T08:00:00Z";
const TIME: i64 = 1_772_352_000_000_000_000;
const HEAD: &str = "\
# A session over the wire, a frame a line in hexadecimal: `> ` from the client, `< ` from the server. Ids are fixed.
# Written by `WRITE_VECTORS=1 cargo test -p tapedb-server --test it captured`.
";

#[test]
fn a_session_has_the_recorded_bytes() {
    // The server derives the producer's id from it.
    let keep_secret = |config: &mut Config| {
        Database::open(&config.database).unwrap().secret([7; 32]).unwrap();
    };
    let served = serve_with(&[user("ann", "*", &[May::Read, May::Write])], keep_secret);
    let stream_id = create(served.server().database());
    served.server().serve_queries(Arc::new(OneAnswer));
    let mut recorder = Recorder::new(socket(served.address()), stream_id);
    recorder.hello(Login::Password { user: "ann", password: "secret-ann" });
    recorder.ask(|_| ToServer::Describe { name: "ticks", known: None });
    recorder.receive(1);
    recorder.ask(|stream_id| ToServer::AddSymbols { stream_id, names: vec!["AIG"] });
    recorder.receive(1);
    let watch =
        recorder.ask(|stream_id| ToServer::Watch { stream_id, credit: 1 << 20, lag_max: 0, from: vec![0] });
    recorder.receive(1);
    let load = recorder.ask(|stream_id| ToServer::Load { stream_id, space: 0, producer: 7 });
    recorder.receive(1);
    let mut batch = batch(TIME, 2);
    assign_producer(&mut batch, 7, 1).unwrap();
    recorder.send(load, ToServer::Append { number: 1, batch: Rest(&batch) });
    recorder.send(load, ToServer::Flush {});
    // The symbol, the batch, and the answer.
    recorder.receive(3);
    recorder.send(watch, ToServer::Credit { bytes: batch.len() as u64 });
    recorder.ask(|_| ToServer::ReadFile { file: 9, offset: 0, len: 100 });
    recorder.receive(1);
    recorder.send(0, ToServer::Ping { number: 1 });
    recorder.receive(1);
    recorder.ask(|_| ToServer::Query {
        credit: 1 << 20,
        ms_max: 0,
        rows_max: 0,
        decimals: "float",
        text: "SELECT 1",
        parameters: Rest(b""),
    });
    // Bytes of rows, and their end.
    recorder.receive(2);
    recorder.send(load, ToServer::Close {});
    recorder.receive(1);
    recorder.send(watch, ToServer::Close {});
    recorder.receive(1);
    recorder.send(0, ToServer::Goodbye { reason: "the client is done" });
    compare(&recorder.end());
}

fn create(db: &Database) -> u64 {
    db.create_stream("ticks", crate::support::SCHEMA.parse().unwrap(), Default::default()).unwrap().id()
}

fn compare(captured: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/wire-session.txt");
    if env::var_os("WRITE_VECTORS").is_some() {
        fs::write(&path, captured).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap();
    assert!(known == captured, "another session than in {}; it is now:\n{captured}", path.display());
}

/// Answers every query with the same bytes.
#[derive(Debug)]
struct OneAnswer;

#[derive(Debug)]
struct AnswerBytes(Option<&'static [u8]>);

impl QueryEngine for OneAnswer {
    fn begin(&self, _: &Query, _: &QueryUser) -> Result<Box<dyn QueryRows>, Error> {
        Ok(Box::new(AnswerBytes(Some(b"an Arrow IPC stream"))))
    }
}

impl QueryRows for AnswerBytes {
    fn next(&mut self, _: Duration, out: &mut Vec<u8>) -> Result<QueryStep, Error> {
        let Some(bytes) = self.0.take() else { return Ok(QueryStep::End) };
        out.clear();
        out.extend_from_slice(bytes);
        Ok(QueryStep::Bytes)
    }
}

/// A client that records all frames.
struct Recorder {
    socket: TcpStream,
    session: ClientSession,
    decoder: Decoder,
    stream_id: u64,
    text: String,
}

impl Recorder {
    fn new(socket: TcpStream, stream_id: u64) -> Self {
        Self { socket, session: ClientSession::new(), decoder: Decoder::new(), stream_id, text: HEAD.into() }
    }

    fn hello(&mut self, login: Login<'_>) {
        let mut hello = Vec::new();
        ClientSession::hello("example 1.0", login, &mut hello);
        self.socket.write_all(&hello).unwrap();
        self.note("> ", &hello[..PREFACE.len()]);
        self.note("> ", &hello[PREFACE.len()..]);
        self.receive(1);
    }

    /// Sends a request about the stream; returns the channel.
    fn ask(&mut self, message: impl Fn(u64) -> ToServer<'static>) -> u32 {
        let (mut sent, mut noted) = (Vec::new(), Vec::new());
        let channel = self.session.ask(&message(self.stream_id), &mut sent);
        self.socket.write_all(&sent).unwrap();
        message(STREAM_ID).encode(channel, &mut noted);
        self.note("> ", &noted);
        channel
    }

    fn send(&mut self, channel: u32, message: ToServer<'_>) {
        let mut sent = Vec::new();
        message.encode(channel, &mut sent);
        self.socket.write_all(&sent).unwrap();
        self.note("> ", &sent);
    }

    /// Receives this many frames.
    fn receive(&mut self, frames: usize) {
        for _ in 0..frames {
            while !self.take_frame() {
                let mut buffer = [0; 4096];
                let count = self.socket.read(&mut buffer).unwrap();
                assert!(count > 0, "the server has closed the connection");
                self.decoder.push(&buffer[..count]);
            }
        }
    }

    /// Takes a received frame, except pings, which depend on the machine's speed.
    fn take_frame(&mut self) -> bool {
        while let Some(frame) = self.decoder.next_frame().unwrap() {
            let (channel, message) = self.session.receive(frame).unwrap();
            if !matches!(message, ToClient::Ping { .. }) {
                let noted = with_fixed_ids(channel, message, self.stream_id);
                self.note("< ", &noted);
                return true;
            }
        }
        false
    }

    /// Checks that nothing follows.
    fn end(mut self) -> String {
        assert_eq!(self.socket.read(&mut [0; 10]).unwrap_or(0), 0, "the server sends more");
        self.text
    }

    fn note(&mut self, who: &str, frame: &[u8]) {
        self.text.push_str(who);
        frame.iter().for_each(|byte| self.text.push_str(&format!("{byte:02x}")));
        self.text.push('\n');
    }
}

fn with_fixed_ids(channel: u32, message: ToClient<'_>, stream_id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    match message {
        ToClient::Welcome { version, server, user, heartbeat_ms, files_max, channels_max, .. } => {
            ToClient::Welcome { version, server, epoch: EPOCH, user, heartbeat_ms, files_max, channels_max }
                .encode(channel, &mut out);
        }
        ToClient::Described { description } => {
            assert_eq!((description.stream_id, description.position_id), (stream_id, stream_id));
            let definition = fixed(description.definition.unwrap(), stream_id);
            let manifests: Vec<String> =
                description.spaces.iter().map(|space| fixed(space.manifest.unwrap(), stream_id)).collect();
            let spaces = description.spaces.into_iter().zip(&manifests);
            let description = Description {
                stream_id: STREAM_ID,
                run: RUN,
                position_id: STREAM_ID,
                definition: Some(definition.as_bytes()),
                spaces: spaces
                    .map(|(space, manifest)| tapedb_wire::SpaceDescription {
                        manifest: Some(manifest.as_bytes()),
                        ..space
                    })
                    .collect(),
                ..description
            };
            ToClient::Described { description }.encode(channel, &mut out);
        }
        message => message.encode(channel, &mut out),
    }
    out
}

/// The text of a definition or a manifest with the fixed id, and its new checksum.
fn fixed(text: &[u8], stream_id: u64) -> String {
    let text = str::from_utf8(text).unwrap();
    let line = |line: &str| match line.split_once(' ') {
        Some(("created", _)) => format!("created {CREATED}\n"),
        _ => format!("{line}\n").replace(&format!("{stream_id:016x}"), &format!("{STREAM_ID:016x}")),
    };
    let mut lines = text.lines();
    let (first, _checksum) = (lines.next().unwrap(), lines.next().unwrap());
    let rest: String = lines.map(line).collect();
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, rest.as_bytes()) as u32;
    format!("{first}\nchecksum {crc:08x}\n{rest}")
}
