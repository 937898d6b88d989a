//! Real clients. Those that are not on the machine are skipped, and listed.

use crate::fixture::{Gateway, ROWS, Setup};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tapedb_skipped::skipped;

const PGJDBC: &str = "42.7.8";
const MAVEN_DEPENDENCY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";

/// What psql prints for a command, without lines and headers.
fn psql(gateway: &Gateway, user: &str, password: &str, mode: &str, command: &str) -> Option<String> {
    let port = gateway.address().port();
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", command])
        .arg(format!("host=127.0.0.1 port={port} user={user} dbname=tapedb sslmode={mode}"))
        .env("PGPASSWORD", password)
        .output();
    let Ok(output) = output else {
        skipped("psql is not installed (postgresql-client)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {text}{errors}");
    Some(text.trim_end().into())
}

#[test]
fn psql_reads_and_lists() {
    let gateway = Gateway::with(Setup { has_users: true, ..Setup::default() });
    for (command, parts) in [
        ("SELECT count(*) FROM ticks.Trade", vec!["20000"]),
        (
            "SELECT time, symbol, price, size, side, id, sequence, time_ns FROM ticks LIMIT 1",
            vec!["2024-01-02 14:30:00+00|AAPL|100|0|Buy|18446744073709551615|0|1704205800000000123"],
        ),
        (
            "SELECT flag, small, wide, exact, clock, bytes, list, level FROM kinds ORDER BY small LIMIT 1",
            vec!["t|-5||12345.6700|14:30:00.5|\\x00ff|{1,2}|{\"price\":1.5,\"size\":7}"],
        ),
        ("\\dn", vec!["kinds|", "ticks|"]),
        ("\\dt", vec!["ticks|Trade|table|", "kinds|Kind|table|"]),
        ("\\dt+", vec!["ticks|Trade|table|"]),
        ("\\d", vec!["ticks|Trade|table|"]),
        ("\\d ticks.*", vec!["price|double precision", "time|timestamp with time zone", "id|numeric"]),
        ("\\l", vec!["tapedb|"]),
        ("\\du", vec!["ann"]),
        ("\\conninfo", vec!["tapedb"]),
        (
            "\\copy (SELECT symbol, size FROM ticks LIMIT 2) TO STDOUT (FORMAT csv, HEADER)",
            vec!["symbol,size\nAAPL,0\n"],
        ),
        ("SELECT current_database(), current_user", vec!["tapedb|ann"]),
    ] {
        let Some(text) = psql(&gateway, "ann", "secret", "prefer", command) else { return };
        for part in parts {
            assert!(text.contains(part), "{command}: {text:?} lacks {part:?}");
        }
        assert!(!text.contains("hidden") && !text.contains("Secret"), "{command}: {text}");
    }
}

#[test]
fn psql_speaks_tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let gateway = Gateway::with(Setup { has_users: true, tls: Some(Arc::new(config)), ..Setup::default() });
    let text = psql(&gateway, "ann", "secret", "require", "SELECT price FROM ticks ORDER BY sequence");
    let Some(text) = text else { return };
    assert_eq!(text.lines().count(), ROWS as usize);
}

/// Runs a script of Python with clients.
fn python(gateway: &Gateway, script: &str) {
    let Some(mut command) = gateway.python() else {
        skipped(
            "Python's clients of PostgreSQL are not installed; testing/gateways/environment installs them below target/",
        );
        return;
    };
    let output =
        command.arg(format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"))).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {}{errors}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn psycopg_reads_in_both_formats() {
    python(&Gateway::start(), "with_psycopg.py");
}

#[test]
fn asyncpg_reads() {
    python(&Gateway::start(), "with_asyncpg.py");
}

#[test]
fn adbc_reads_through_copy() {
    python(&Gateway::start(), "with_adbc.py");
}

/// The driver's archive, which Maven fetches below the target directory.
fn pgjdbc() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pgjdbc");
    let archive = folder.join(format!("postgresql-{PGJDBC}.jar"));
    if !archive.exists() {
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", MAVEN_DEPENDENCY]);
        maven.arg(format!("-Dartifact=org.postgresql:postgresql:{PGJDBC}"));
        maven.arg(format!("-DoutputDirectory={}", folder.display())).stdin(Stdio::null());
        let is_there = maven.output().is_ok_and(|output| output.status.success());
        if !is_there || !archive.exists() {
            return None;
        }
    }
    Some(archive)
}

#[test]
fn pgjdbc_reads_asks_for_metadata_and_copies() {
    let Some(archive) = pgjdbc() else {
        skipped("Maven cannot fetch PostgreSQL's JDBC driver, or is not there");
        return;
    };
    let gateway = Gateway::start();
    let mut java = Command::new("java");
    java.arg("-cp").arg(archive).arg(format!("{}/tests/clients/WithPgjdbc.java", env!("CARGO_MANIFEST_DIR")));
    java.env("GATEWAY_PORT", gateway.address().port().to_string());
    let output = java.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{errors}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn queries_of_the_catalogue_are_answered() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    for text in
        include_str!("../clients/catalogue.sql").split(";\n").map(str::trim).filter(|text| !text.is_empty())
    {
        let rows = raw.query(text);
        assert!(rows.is_ok(), "{rows:?}: {text}");
    }
}
