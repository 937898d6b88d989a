//! Clients that others wrote: `questdb` and `influxdb-client` for Python, installed below the target directory. Where they cannot be,
//! the tests are skipped, and named in the list behind the tests.

use crate::support::{Place, place};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_ilp_load::{LineServer, LoadOptions};
use tapedb_skipped::skipped;

const PACKAGES: [&str; 5] = ["questdb==6.0.0", "influxdb-client==1.50.0", "numpy", "pandas", "pyarrow"];

static INSTALLING: Mutex<()> = Mutex::new(());

/// Whether a step of the installation went well.
#[track_caller]
fn did(command: &mut Command) -> bool {
    let error = match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_string(),
        Err(error) => error.to_string(),
    };
    skipped(format_args!("cannot install clients of the line protocol: {error}"));
    false
}

#[track_caller]
fn python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ilp-clients");
    // Tests run at the same time.
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (python, done) = (folder.join("bin/python"), folder.join("installed"));
    if !done.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let is_there = did(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            && did(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES));
        if !is_there {
            return None;
        }
        std::fs::write(done, "").unwrap();
    }
    Some(python)
}

/// Runs a part of `testing/ilp/clients.py` against a server.
fn run(place: &Place, part: &str, users: Option<PathBuf>) -> Option<(LineServer, String)> {
    let server = place.serve(LoadOptions::default(), users);
    let out = run_against(&server, part, None)?;
    Some((server, out))
}

/// Runs a part of it against this server, which has the certificate of this file.
fn run_against(server: &LineServer, part: &str, certificate: Option<&Path>) -> Option<String> {
    let python = python()?;
    let addresses = server.addresses();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/ilp/clients.py");
    let ports = [addresses.http, addresses.tcp].map(|address| address.unwrap().port().to_string());
    let output = Command::new(python).arg(script).arg(part).args(ports).args(certificate).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    Some(out.into_owned())
}

/// Each row of `testing/ilp/clients.py`, as it is read back.
fn rows(version: u8) -> Vec<String> {
    let (time, bool) = (1_700_000_000_000_000_001i64, true);
    let mut row = format!(
        "{time} A B {{\"$type\":\"quotes{version}\",\"ex\":\"x,=\\\\\\\"\",\"p\":0.1,\"n\":-9007199254740993,\"s\":\"q\\\"u\\\\o\\nte \u{fc}\",\"b\":{bool},\"at\":\"2024-01-01T00:00:00.000005Z\""
    );
    if version >= 2 {
        row += ",\"a\":[[1.5,2.5],[3.5,4.5]]";
    }
    if version >= 3 {
        row += ",\"d\":\"1.2500\",\"e\":\"-0.000001\"";
    }
    row += "}";
    vec![row]
}

#[test]
fn questdb_senders_of_every_version_over_http_and_tcp() {
    let place = place();
    let Some((_server, out)) = run(&place, "senders", None) else { return };
    assert_eq!(out.trim().lines().last(), Some("sent"), "{out}");
    for version in 1..=3 {
        for transport in ["http", "tcp"] {
            let stream = format!("quotes{version}_{transport}");
            crate::support::wait_until(|| place.db.stream(&stream).is_ok());
            let expected: Vec<String> = rows(version)
                .iter()
                .map(|row| row.replace(&format!("quotes{version}\""), &format!("{stream}\"")))
                .collect();
            let read = place.read(&stream);
            assert_eq!(read.lines().collect::<Vec<_>>(), expected, "{stream}");
        }
    }
}

#[test]
fn questdb_data_frames_and_refusals() {
    let place = place();
    let Some((_server, out)) = run(&place, "frames", Some(place.users())) else { return };
    assert_eq!(out.trim().lines().last(), Some("refused 2"), "{out}");
    for version in 1..=3 {
        let read = place.read(&format!("t{version}"));
        assert_eq!(read.lines().count(), 100_000);
        for (number, line) in (0i64..).zip(read.lines()) {
            let time = 1_700_000_000_000_000_000 + number * 1_000;
            let start = format!("{time} S{} {{", number % 500);
            assert!(line.starts_with(&start), "{line}");
            let parts = [
                format!("\"size\":{number}"),
                format!("\"price\":{:?}", number as f64 * 0.01),
                format!("\"live\":{}", number % 2 == 0),
            ];
            for part in parts {
                assert!(line.contains(&part), "{line} lacks {part}");
            }
        }
    }
}

#[test]
fn questdb_senders_over_tls() {
    let place = place();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let certificate = place.directory.path().join("certificate.pem");
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    let server = place.serve_with(place.loader(), None, Some(Arc::new(tls)));
    let Some(out) = run_against(&server, "encrypted", Some(&certificate)) else { return };
    assert_eq!(out.trim().lines().last(), Some("encrypted"), "{out}");
    for transport in ["https", "tcps"] {
        let count = || place.db.stream(transport).map_or(0, |stream| stream.stats().unwrap().next_sequence);
        crate::support::wait_until(|| count() == 50_000);
    }
    assert!(place.db.stream("plain").is_err());
}

#[test]
fn influxdb_client_writes_points_plain_and_compressed() {
    let place = place();
    let Some((_server, out)) = run(&place, "influx", Some(place.users())) else { return };
    assert_eq!(out.trim().lines().last(), Some("written"), "{out}");
    let read = place.read("trade");
    let expected = "1700000000000000001 A B {\"$type\":\"trade\",\"b\":true,\"n\":3,\"p\":1.5,\"s\":\"q\\\"x\\ny\"}\n\
                    1700000000000000002 A B {\"$type\":\"trade\",\"b\":false,\"n\":4,\"p\":2.5,\"s\":\"z\"}\n";
    assert_eq!(read, expected);
    assert!(place.read("tcpu").starts_with("17000000000 a {"));
}
