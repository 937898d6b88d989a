//! Sessions: users and their rights, limits, cancels, and ends.

use crate::fixture::{Gateway, ROWS, Raw, Setup, message, startup};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A query that runs for much longer than any test.
const LONG: &str =
    "SELECT count(*) FROM ticks.Trade a, ticks.Trade b, ticks.Trade c WHERE a.price + b.price + c.price < 0";

/// Waits until something holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn statements_of_a_session_are_answered() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    for (text, expected) in [
        ("SELECT 1", Ok(1)),
        ("", Ok(0)),
        ("BEGIN; SELECT 1; SELECT 2; COMMIT", Ok(2)),
        ("SET application_name = 'x'; SHOW application_name", Ok(1)),
        ("SELECT count(*) FROM ticks", Ok(1)),
        ("SELECT * FROM ticks", Ok(ROWS as usize)),
        ("COPY (SELECT * FROM ticks LIMIT 7) TO STDOUT", Ok(7)),
        ("SELECT * FROM nothing", Err("42P01")),
        ("SELECT nothing FROM ticks", Err("42703")),
        ("SELEC 1", Err("42601")),
        ("INSERT INTO ticks VALUES (1)", Err("25006")),
        ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", Err("25006")),
        ("COPY ticks TO '/tmp/ticks'", Err("0A000")),
        ("COPY ticks FROM '/etc/passwd'", Err("0A000")),
        ("SELECT * FROM '/etc/passwd'", Err("42P01")),
        ("SELECT pg_catalog.pg_read_file('/etc/passwd')", Err("42883")),
        ("DEALLOCATE nothing", Err("26000")),
        ("FETCH 1 FROM nothing", Err("34000")),
        ("DECLARE c CURSOR FOR SELECT 1", Err("25P01")),
        ("SHOW nothing", Err("42704")),
        ("SELECT time_ns, time FROM ticks WHERE time_ns = 1704205800000000123", Ok(1)),
        ("SELECT t.time_ns FROM ticks t ORDER BY t.time_ns LIMIT 3", Ok(3)),
    ] {
        assert_eq!(raw.query(text), expected.map_err(str::to_string), "{text}");
    }
    assert_eq!(raw.query("BEGIN"), Ok(0));
    assert_eq!(raw.query("SELECT nothing FROM ticks"), Err("42703".into()));
    assert_eq!(raw.query("SELECT 1"), Err("25P02".into()), "the transaction has failed");
    assert_eq!(raw.query("ROLLBACK"), Ok(0));
    assert_eq!(raw.query("BEGIN; DECLARE c CURSOR FOR SELECT * FROM ticks; FETCH 10 FROM c"), Ok(10));
    assert_eq!(raw.query("FETCH ALL FROM c"), Ok(ROWS as usize - 10));
    assert_eq!(raw.query("CLOSE c; COMMIT"), Ok(0));
}

#[test]
fn users_have_passwords_and_rights() {
    let gateway = Gateway::with(Setup { has_users: true, ..Setup::default() });
    let login = |user: &str, password: &str| {
        let mut raw = Raw::connect(gateway.address());
        raw.send(&startup(user));
        assert_eq!(raw.next().unwrap(), (b'R', 3u32.to_be_bytes().to_vec()), "a password is asked for");
        raw.send(&message(b'p', &[password.as_bytes(), b"\0"].concat()));
        raw
    };
    for (user, password) in [("ann", ""), ("ann", "wrong"), ("nobody", "secret"), ("nobody", "")] {
        assert_eq!(login(user, password).error(), "28P01", "{user} {password:?}");
    }
    let mut ann = login("ann", "secret");
    ann.until(b'Z');
    assert_eq!(ann.query("SELECT * FROM kinds"), Ok(2));
    assert_eq!(ann.query("SELECT * FROM hidden"), Err("42P01".into()), "it does not exist to ann");
    assert_eq!(ann.query("SELECT relname FROM pg_class"), Ok(3));
    assert_eq!(ann.query("SELECT * FROM information_schema.tables WHERE table_schema = 'hidden'"), Ok(0));
    assert_eq!(ann.query("SELECT * FROM pg_namespace WHERE nspname = 'hidden'"), Ok(0));
    let mut anonymous = gateway.session("anonymous");
    assert_eq!(anonymous.query("SELECT count(*) FROM ticks"), Ok(1));
    assert_eq!(anonymous.query("SELECT * FROM kinds"), Err("42P01".into()));
    // Rights that are taken away are gone at the next statement, and so is a user.
    std::fs::write(gateway.folder.path().join("users.toml"), "").unwrap();
    gateway.access.authenticator.logins().reload().unwrap();
    ann.send(&message(b'Q', b"SELECT 1\0"));
    assert_eq!(ann.error(), "28000");
    let audit = std::fs::read_to_string(gateway.folder.path().join("audit.jsonl")).unwrap();
    assert!(
        audit.contains(r#""event":"login","user":"ann""#)
            && audit.contains(r#""event":"refused","user":"nobody""#)
    );
}

#[test]
fn a_query_is_cancelled_by_its_key_alone() {
    let gateway = Gateway::start();
    let mut raw = Raw::connect(gateway.address());
    raw.send(&startup("anyone"));
    let answers = raw.until(b'Z');
    let key = &answers.iter().find(|(kind, _)| *kind == b'K').unwrap().1;
    let cancel = |secret: &[u8]| {
        let body = [&80_877_102u32.to_be_bytes()[..], &key[..4], secret].concat();
        Raw::connect(gateway.address()).send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat());
    };
    let secret: Vec<u8> = key[4..].to_vec();
    let wrong: Vec<u8> = secret.iter().map(|byte| !byte).collect();
    let before = gateway.postgres.statements();
    raw.send(&message(b'Q', &[LONG.as_bytes(), b"\0"].concat()));
    wait_for("the query begins", || gateway.postgres.statements() > before);
    cancel(&wrong);
    cancel(&[0; 256]);
    // A cancel before the query runs is lost, as in PostgreSQL: it is repeated.
    let is_done = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                cancel(&secret);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let error = raw.error();
        is_done.store(true, Ordering::Relaxed);
        error
    });
    assert_eq!(error, "57014");
    raw.until(b'Z');
    assert_eq!(raw.query("SELECT 1"), Ok(1), "the session goes on");
}

#[test]
fn a_client_that_leaves_stops_its_query() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    raw.send(&message(b'Q', &[LONG.as_bytes(), b"\0"].concat()));
    wait_for("the query begins", || gateway.postgres.statements() == 1);
    drop(raw);
    wait_for("the connection ends", || gateway.postgres.connections() == 0);
}

#[test]
fn a_server_that_shuts_down_states_it() {
    let gateway = Gateway::start();
    let mut idle = gateway.session("anyone");
    let mut busy = gateway.session("anyone");
    busy.send(&message(b'Q', &[LONG.as_bytes(), b"\0"].concat()));
    wait_for("the query begins", || gateway.postgres.statements() == 1);
    let Gateway { postgres, folder: _folder, .. } = gateway;
    assert_eq!(postgres.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(idle.error(), "57P01");
    assert_eq!(busy.error(), "57P01");
}

#[test]
fn connections_are_limited_in_number_and_in_time() {
    let setup = Setup {
        connections_max: Some(2),
        handshake_time: Some(Duration::from_millis(300)),
        ..Setup::default()
    };
    let gateway = Gateway::with(setup);
    let _one = gateway.session("anyone");
    let mut silent = Raw::connect(gateway.address());
    wait_for("both are open", || gateway.postgres.connections() == 2);
    assert_eq!(Raw::connect(gateway.address()).error(), "53300");
    assert_eq!(silent.error(), "08006", "it did not authenticate in time");
    wait_for("it is closed", || gateway.postgres.connections() == 1);
    gateway.session("anyone");
}
