//! What payloads are made of, for `docs/format/wire.md`: a session that was captured (`testing/vectors/wire-session.txt`, made
//! by the server's tests), gone through by both state machines and taken apart field by field.

use crate::fields::Put;
use crate::message::{Login, Rest};
use std::fmt::{Debug, Display};

/// A part of a payload: what it is called and says, and its bytes.
#[derive(Debug)]
pub(crate) struct Part {
    label: String,
    bytes: Vec<u8>,
}

/// Something that can be taken apart.
pub(crate) trait Dissect {
    fn dissect(&self, name: &str, out: &mut Vec<Part>);
}

fn part(label: impl Display, field: &impl Put, out: &mut Vec<Part>) {
    let mut bytes = Vec::new();
    field.put(&mut bytes);
    out.push(Part { label: label.to_string(), bytes });
}

macro_rules! plain {
    ($($plain:ty),*) => {$(
        impl Dissect for $plain {
            fn dissect(&self, name: &str, out: &mut Vec<Part>) {
                part(format_args!("{name} {self}"), self, out);
            }
        }
    )*};
}

plain!(u16, u32, i64, bool);

impl Dissect for u64 {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        // Counts and places are small; what is large is an id, of random bits.
        let is_id = *self > 1 << 48;
        if is_id {
            part(format_args!("{name} {self:016x}"), self, out);
        } else {
            part(format_args!("{name} {self}"), self, out);
        }
    }
}

impl Dissect for &str {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        if self.len() <= ROW_BYTES - 4 {
            part(format_args!("{name} {self:?}"), self, out);
        } else {
            self.as_bytes().dissect(name, out);
        }
    }
}

impl Dissect for String {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        self.as_str().dissect(name, out);
    }
}

impl Dissect for &[u8] {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        part(format_args!("{name}, {} bytes", self.len()), &(self.len() as u32), out);
        for row in self.chunks(ROW_BYTES) {
            out.push(Part {
                label: String::from_utf8_lossy(row).escape_debug().to_string(),
                bytes: row.into(),
            });
        }
    }
}

impl Dissect for Rest<'_> {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        out.push(Part { label: format!("{name}, {} bytes", self.0.len()), bytes: self.0.into() });
    }
}

impl<T: Dissect> Dissect for Vec<T> {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        part(format_args!("{name}, {} elements", self.len()), &(self.len() as u32), out);
        for (i, element) in self.iter().enumerate() {
            element.dissect(&format!("{name}[{i}]"), out);
        }
    }
}

impl<T: Dissect> Dissect for Option<T> {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        self.is_some().dissect(&format!("{name} is there:"), out);
        self.iter().for_each(|value| value.dissect(name, out));
    }
}

impl<A: Dissect, B: Dissect> Dissect for (A, B) {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        self.0.dissect(&format!("{name}.0"), out);
        self.1.dissect(&format!("{name}.1"), out);
    }
}

impl Dissect for Login<'_> {
    fn dissect(&self, name: &str, out: &mut Vec<Part>) {
        match self {
            Self::Anyone => part(format_args!("{name} 0: nobody in particular"), &0_u8, out),
            Self::Password { user, password } => {
                part(format_args!("{name} 1: a user with a password"), &1_u8, out);
                user.dissect("user", out);
                password.dissect("password", out);
            }
            Self::Token(token) => {
                part(format_args!("{name} 2: a token"), &2_u8, out);
                token.dissect("token", out);
            }
        }
    }
}

/// Bytes in a row of the page.
const ROW_BYTES: usize = 16;

mod tests {
    use super::*;
    use crate::client::ClientSession;
    use crate::frame::{Decoder, FRAME_HEADER_BYTES, Frame, PREFACE};
    use crate::message::{ToClient, ToServer};
    use crate::server::{Limits, ServerSession};
    use std::fmt::Write;
    use std::{env, fs};

    const SESSION: &str = include_str!("../../../testing/vectors/wire-session.txt");
    const PAGE: &str = include_str!("../../../docs/format/wire.md");
    const PAGE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/wire.md");

    /// The two ends of the session, who must agree with all that was said.
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
            let (who, hex) = line.split_at(2);
            let bytes = bytes_of(hex);
            match who {
                "> " if bytes == PREFACE => ends.show("client", "preface", &[], &[whole(&bytes)]),
                "> " => ends.said(&bytes),
                "< " => ends.answered(&bytes),
                _ => panic!("{line}"),
            }
            frames += 1;
        }
        assert!(frames > 20, "{frames}");
        assert_eq!((ends.server.channels(), ends.client.channels()), (0, 0), "all is closed in the end");
        compare(&ends.page);
    }

    /// The page has the session between these two lines.
    const BEGIN: &str =
        "<!-- Written by `WRITE_VECTORS=1 cargo test -p tapedb-wire --lib dissect`. -->\n\n```text\n";
    const END: &str = "```\n";

    fn compare(shown: &str) {
        let (before, rest) = PAGE.split_once(BEGIN).expect("the page has a place for the session");
        let (there, after) = rest.split_once(END).expect("it has an end");
        if env::var_os("WRITE_VECTORS").is_some() {
            fs::write(PAGE_PATH, [before, BEGIN, shown, END, after].concat())
                .expect("the page can be written");
        } else {
            assert!(
                there == shown,
                "docs/format/wire.md shows another session; have it written again:\n{shown}"
            );
        }
    }

    impl Ends {
        /// The client said something: the server must expect it, and the client's end say it in the same bytes.
        fn said(&mut self, before: &[u8]) {
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
                ToServer::Watch { credit, .. } => drop(self.server.open_watch(channel, *credit)),
                _ => {}
            }
            self.show("client", name_of(&message), before, &message.dissected());
        }

        /// The server answered or pushed something.
        fn answered(&mut self, before: &[u8]) {
            let mut decoder = Decoder::new();
            let frame = only_frame(&mut decoder, before);
            let (channel, message) = self.client.receive(frame).expect("what is expected");
            let mut again = Vec::new();
            message.encode(channel, &mut again);
            assert_eq!(again, before, "{message:?}");
            match &message {
                ToClient::Loading { last_number } => self.server.open_load(channel, last_number + 1),
                ToClient::Closed {} => drop(self.server.close(channel)),
                _ => {}
            }
            let (name, parts) = (name_of(&message), message.dissected());
            self.show("server", name, before, &parts);
        }

        fn show(&mut self, who: &str, name: impl Display, frame: &[u8], parts: &[Part]) {
            let _ = writeln!(self.page, "{}{who}: {name}", if self.page.is_empty() { "" } else { "\n" });
            if let Some(header) = frame.get(..FRAME_HEADER_BYTES) {
                let (len, kind, channel) = (frame.len() - FRAME_HEADER_BYTES, frame[4], frame[8]);
                self.row(header, &format!("len {len}, kind {kind}, channel {channel}"));
            }
            for Part { label, bytes } in parts {
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

    fn whole(bytes: &[u8]) -> Part {
        Part { label: String::from_utf8_lossy(bytes).escape_debug().to_string(), bytes: bytes.into() }
    }

    fn name_of(message: &impl Debug) -> String {
        let text = format!("{message:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_string()
    }

    /// Whether the client chooses a channel for it, and waits for what comes there.
    fn starts_channel(message: &ToServer<'_>) -> bool {
        use ToServer::{AddSymbols, Command, Describe, FileLen, Load, OpenFile, ReadFile, Streams, Watch};
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
                | Load { .. }
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
}
