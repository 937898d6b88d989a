//! What arrives on a connection, cut up as sockets cut it, at both ends.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_wire::{
    CachedSpace, CachedStream, ClientSession, Coded, Decoder, FRAME_HEADER_BYTES, Granule, Limits, Login,
    Rest, ServerSession, ToClient, ToServer,
};

/// See the module.
pub const TARGET: Target = Target { name: "wire", run, seed };

const LIMITS: Limits = Limits { channels_max: 4, credit_max: 1 << 20 };
const BYTES_MAX: usize = 1 << 16;

/// What is understood has one way to be written; sessions keep to their limits; neither end believes more than arrived.
/// The first byte says how the others are cut up.
pub fn run(input: &[u8]) {
    let (&cut, bytes) = input.split_first().unwrap_or((&0, &[]));
    let pieces = bytes.chunks(usize::from(cut) + 1);
    let mut server =
        ServerEnd { session: ServerSession::new(LIMITS), decoder: Decoder::with_bytes_max(BYTES_MAX) };
    pieces.clone().all(|piece| server.hear(piece));
    let mut client = ClientEnd { session: ClientSession::new(), decoder: Decoder::with_bytes_max(BYTES_MAX) };
    let mut asked = Vec::new();
    for _ in 0..4 {
        client.session.ask(&ToServer::FileLen { file: 1 }, &mut asked);
        client.session.ask(&watch(), &mut asked);
        client.session.ask(&load(), &mut asked);
        client.session.ask(&query(), &mut asked);
    }
    pieces.clone().all(|piece| client.hear(piece));
    let mut preface = Decoder::new();
    pieces.for_each(|piece| preface.push(piece));
    match preface.take_preface() {
        Ok(taken) => assert_eq!(taken, bytes.starts_with(&tapedb_wire::PREFACE)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

struct ServerEnd {
    session: ServerSession,
    decoder: Decoder,
}

impl ServerEnd {
    /// Takes bytes in; `false` when the connection has ended.
    fn hear(&mut self, bytes: &[u8]) -> bool {
        self.decoder.push(bytes);
        loop {
            let frame = match self.decoder.next_frame() {
                Ok(None) => return true,
                Ok(Some(frame)) => frame,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return false;
                }
            };
            let (channel, payload) = (frame.channel, frame.payload.to_vec());
            let Ok(message) = self.session.receive(frame) else { return false };
            let mut again = Vec::new();
            message.encode(channel, &mut again);
            assert_eq!(again[FRAME_HEADER_BYTES..], payload, "{message:?}");
            match message {
                ToServer::Hello { .. } => self.session.welcome(),
                ToServer::Watch { credit, .. } => {
                    self.session.open_watch(channel, credit);
                }
                ToServer::Load { .. } => self.session.open_load(channel, 1),
                ToServer::Query { credit, .. } => {
                    self.session.open_query(channel, credit);
                }
                ToServer::Append { number, .. } if self.session.is_expected(channel, number) => {
                    self.session.note_append(channel, number);
                }
                ToServer::Close {} => {
                    self.session.close(channel);
                }
                _ => {}
            }
            assert!(self.session.channels() <= LIMITS.channels_max as usize);
            use tapedb_wire::Channel::{Query, Watch};
            if let Some(Watch(credit) | Query(credit)) = self.session.channel(channel) {
                assert!(credit.left() <= LIMITS.credit_max);
            }
        }
    }
}

struct ClientEnd {
    session: ClientSession,
    decoder: Decoder,
}

impl ClientEnd {
    fn hear(&mut self, bytes: &[u8]) -> bool {
        self.decoder.push(bytes);
        loop {
            let frame = match self.decoder.next_frame() {
                Ok(None) => return true,
                Ok(Some(frame)) => frame,
                Err(_) => return false,
            };
            let payload = frame.payload.to_vec();
            let open = self.session.channels();
            let Ok((channel, message)) = self.session.receive(frame) else { return false };
            let mut again = Vec::new();
            message.encode(channel, &mut again);
            assert_eq!(again[FRAME_HEADER_BYTES..], payload, "{message:?}");
            assert!(self.session.channels() <= open);
        }
    }
}

fn watch() -> ToServer<'static> {
    ToServer::Watch { stream_id: 1, credit: 1000, lag_max: 0, from: vec![0, 1] }
}

fn load() -> ToServer<'static> {
    ToServer::Load { stream_id: 1, space: 0, producer: 7 }
}

fn query() -> ToServer<'static> {
    ToServer::Query {
        credit: 1000,
        ms_max: 5,
        rows_max: 0,
        decimals: "float",
        text: "SELECT price FROM bars WHERE symbol = $1",
        parameters: Rest(b"an Arrow stream"),
    }
}

/// What one side may say, a few messages of it.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let mut bytes = vec![random.next_u64() as u8];
    if random.once_in(8) {
        bytes.extend(tapedb_wire::PREFACE);
    }
    let to_server = random.once_in(2);
    let hello = ToServer::Hello { version_min: 1, version_max: 1, program: "fuzz", login: Login::Token("t") };
    if to_server {
        hello.encode(0, &mut bytes)
    } else {
        welcome().encode(0, &mut bytes)
    }
    for _ in 0..random.below(8) {
        let channel = random.below(7) as u32;
        if to_server {
            say_to_server(&mut random, channel, &mut bytes);
        } else {
            say_to_client(&mut random, channel, &mut bytes);
        }
    }
    bytes
}

fn welcome() -> ToClient<'static> {
    ToClient::Welcome {
        version: 1,
        server: "fuzz",
        epoch: 5,
        user: "anyone",
        heartbeat_ms: 1000,
        files_max: 8,
        channels_max: 8,
    }
}

fn say_to_server(random: &mut SplitMix64, channel: u32, out: &mut Vec<u8>) {
    let space = CachedSpace { generation: random.next_u64(), next_sequence: 9 };
    let known =
        CachedStream { stream_id: 1, run: 7, revision: 2, symbols: 3, spaces: vec![space; random.below(3)] };
    let parts = Coded { code: 3, texts: vec!["bars".into()], numbers: vec![random.next_u64() as i64] };
    match random.below(13) {
        0 => ToServer::Streams {},
        1 => ToServer::Describe { name: "bars", known: random.once_in(2).then_some(known) },
        2 => ToServer::OpenFile { stream_id: 1, name: "0/00000000000000000000.seg" },
        3 => ToServer::ReadFile { file: 1, offset: random.next_u64(), len: 4096 },
        4 => ToServer::AddSymbols { stream_id: 1, names: vec!["AIG", "BAC"] },
        5 => ToServer::Command { command: parts },
        6 => watch(),
        7 => load(),
        8 => ToServer::Credit { bytes: random.next_u64() },
        9 => ToServer::Append { number: 1, batch: Rest(b"a batch") },
        10 => ToServer::Close {},
        11 => query(),
        _ => ToServer::Ping { number: random.next_u64() },
    }
    .encode(channel, out);
}

fn say_to_client(random: &mut SplitMix64, channel: u32, out: &mut Vec<u8>) {
    let granule = Granule {
        file: 0,
        offset: 64,
        len: 100,
        first_sequence: random.next_u64(),
        count: 3,
        time_min: -1,
        time_max: 1,
        sorted: random.once_in(2),
    };
    let space = tapedb_wire::SpaceDescription {
        generation: 1,
        manifest: random.once_in(2).then_some(&b"text"[..]),
        first_sequence: 0,
        next_sequence: 9,
        granules: vec![granule; random.below(3)],
        files: vec![0; random.below(3)],
    };
    let description = tapedb_wire::Description {
        name: "bars",
        stream_id: 1,
        run: 1,
        position_id: 2,
        revision: 3,
        definition: Some(b"text"),
        symbols_from: 0,
        symbols: vec!["AIG"],
        symbols_total: 1,
        spaces: vec![space],
    };
    let failure = Coded { code: 3, texts: vec!["no such stream".into()], numbers: vec![] };
    let (file, offset, first_sequence) = (0, 64, random.next_u64());
    match random.below(14) {
        0 => ToClient::FileLenIs { len: random.next_u64() },
        1 => ToClient::Described { description },
        2 => ToClient::Watching { from: vec![0, 1] },
        3 => ToClient::Grown { space: 1, file, offset, first_sequence, batches: Rest(b"batches") },
        4 => ToClient::Symbols { from: 1, names: vec!["AIG", "BAC"] },
        5 => ToClient::Gone { renamed: random.once_in(2).then_some("bars2") },
        6 => ToClient::Loading { last_number: 3 },
        7 => ToClient::Appended { number: 4, first_sequence, next_sequence: first_sequence },
        8 => ToClient::AppendFailed { number: 4, failure },
        9 => ToClient::Failed { failure },
        10 => ToClient::Changed {},
        11 => ToClient::Rows { bytes: Rest(b"rows") },
        12 => ToClient::RowsEnded {},
        _ => ToClient::Goodbye { failure },
    }
    .encode(channel, out);
}
