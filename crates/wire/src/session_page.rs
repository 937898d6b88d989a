//! Compares the session in `docs/format/wire.md` with a captured one (`testing/vectors/wire-session.txt`, written by the
//! server's tests): both state machines process it, and every payload is split into fields.

use crate::client::ClientSession;
use crate::dissect::{FieldBytes, ROW_BYTES};
use crate::frame::{Decoder, FRAME_HEADER_BYTES, Frame, PREFACE};
use crate::message::{ToClient, ToServer};
use crate::server::{Limits, ServerSession};
use std::fmt::{Debug, Display, Write};
use std::{env, fs};

const SESSION: &str = include_str!("../../../testing/vectors/wire-session.txt");
const PAGE: &str = include_str!("../../../docs/format/wire.md");
const PAGE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/wire.md");

/// The two ends of the session, which must accept every frame.
struct Ends {
    server: ServerSession,
    client: ClientSession,
    page: String,
}

#[test]
fn the_page_shows_a_session_that_both_ends_understand() {
    let limits = Limits { channels_max: 10, credit_max: 1 << 30 };
    let mut ends =
        Ends { server: ServerSession::new(limits), client: ClientSession::new(), page: String::new() };
    let mut frames = 0;
    for line in SESSION.lines().filter(|line| !line.starts_with('#')) {
        let (side, hex) = line.split_at(2);
        let bytes = bytes_of(hex);
        match side {
            "> " if bytes == PREFACE => ends.show("client", "preface", &[], &[whole(&bytes)]),
            "> " => ends.client_frame(&bytes),
            "< " => ends.server_frame(&bytes),
            _ => panic!("{line}"),
        }
        frames += 1;
    }
    assert!(frames > 20, "{frames}");
    assert_eq!(
        (ends.server.channels(), ends.client.channels()),
        (0, 0),
        "every channel is closed at the end"
    );
    compare(&ends.page);
}

/// The page has the session between these two lines.
const BEGIN: &str =
    "<!-- Written by `WRITE_VECTORS=1 cargo test -p tapedb-wire --lib session_page`. -->\n\n```text\n";
const END: &str = "```\n";

fn compare(shown: &str) {
    let (before, rest) = PAGE.split_once(BEGIN).expect("the page has a section for the session");
    let (there, after) = rest.split_once(END).expect("it has an end");
    if env::var_os("WRITE_VECTORS").is_some() {
        fs::write(PAGE_PATH, [before, BEGIN, shown, END, after].concat()).expect("the page can be written");
    } else {
        assert!(there == shown, "docs/format/wire.md shows another session; write it again:\n{shown}");
    }
}

impl Ends {
    /// A client's frame: the server must accept it, and the client's session must encode the same bytes.
    fn client_frame(&mut self, before: &[u8]) {
        let mut decoder = Decoder::new();
        let Frame { kind, channel, payload } = only_frame(&mut decoder, before);
        let message = ToServer::parse(kind, payload).expect("a message");
        let mut again = Vec::new();
        if starts_channel(&message) {
            assert_eq!(self.client.ask(&message, &mut again), channel);
        } else {
            message.encode(channel, &mut again);
        }
        assert_eq!(again, before, "{message:?}");
        let mut payload = before[FRAME_HEADER_BYTES..].to_vec();
        let mut frame = Frame { kind, channel, payload: &mut payload };
        if let Some(arrived) = self.server.receive_append(&mut frame).expect("a batch") {
            let number = arrived.number;
            assert!(self.server.is_expected(channel, number), "{number}");
            self.server.note_append(channel, number);
        } else {
            self.server.receive(frame).expect("what is expected");
        }
        match &message {
            ToServer::Hello { .. } => self.server.welcome(),
            ToServer::Watch { credit, .. } | ToServer::WatchSome { credit, .. } => {
                drop(self.server.open_watch(channel, *credit))
            }
            ToServer::Query { credit, .. } => drop(self.server.open_query(channel, *credit)),
            _ => {}
        }
        self.show("client", name_of(&message), before, &message.dissected());
    }

    /// A server's frame: an answer or a push.
    fn server_frame(&mut self, before: &[u8]) {
        let mut decoder = Decoder::new();
        let frame = only_frame(&mut decoder, before);
        let (channel, message) = self.client.receive(frame).expect("what is expected");
        let mut again = Vec::new();
        message.encode(channel, &mut again);
        assert_eq!(again, before, "{message:?}");
        match &message {
            ToClient::Loading { last_number } => self.server.open_load(channel, last_number + 1),
            ToClient::Closed {} | ToClient::RowsEnded {} => drop(self.server.close(channel)),
            _ => {}
        }
        let (name, parts) = (name_of(&message), message.dissected());
        self.show("server", name, before, &parts);
    }

    fn show(&mut self, side: &str, name: impl Display, frame: &[u8], pieces: &[FieldBytes]) {
        let _ = writeln!(self.page, "{}{side}: {name}", if self.page.is_empty() { "" } else { "\n" });
        if let Some(header) = frame.get(..FRAME_HEADER_BYTES) {
            let (len, kind, channel) = (frame.len() - FRAME_HEADER_BYTES, frame[4], frame[8]);
            self.row(header, &format!("len {len}, kind {kind}, channel {channel}"));
        }
        for FieldBytes { label, bytes } in pieces {
            let mut rows = bytes.chunks(ROW_BYTES);
            self.row(rows.next().unwrap_or_default(), label);
            rows.for_each(|row| self.row(row, ""));
        }
    }

    fn row(&mut self, bytes: &[u8], label: &str) {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = format!("  {:<47}  {label}", hex.join(" "));
        let _ = writeln!(self.page, "{}", row.trim_end());
    }
}

fn whole(bytes: &[u8]) -> FieldBytes {
    FieldBytes { label: String::from_utf8_lossy(bytes).escape_debug().to_string(), bytes: bytes.into() }
}

fn name_of(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_string()
}

/// Whether the client chooses a channel for this message and waits for an answer there.
fn starts_channel(message: &ToServer<'_>) -> bool {
    use ToServer::{
        AddSymbols, Command, Describe, FileLen, Load, OpenFile, Query, ReadFile, Streams, Watch, WatchSome,
    };
    matches!(
        message,
        Streams {}
            | Describe { .. }
            | OpenFile { .. }
            | ReadFile { .. }
            | FileLen { .. }
            | AddSymbols { .. }
            | Command { .. }
            | Watch { .. }
            | WatchSome { .. }
            | Load { .. }
            | Query { .. }
    )
}

fn only_frame<'d>(decoder: &'d mut Decoder, bytes: &[u8]) -> Frame<'d> {
    decoder.push(bytes);
    decoder.next_frame().expect("a frame").expect("a whole one")
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digits).collect()
}
