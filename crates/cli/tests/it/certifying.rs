//! `tapedb cert`, and certificates of openssl: clients that trust them reach an encrypted server, and no other server.

use crate::serving::Served;
use crate::support::{Place, Run, no_input};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Lists the streams of a server with a certificate for `localhost`, trusting the certificates of a file.
fn streams(ready: &Value, host: &str, ca: &Path) -> Run {
    let port = ready["tcp"].as_str().unwrap().rsplit(':').next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapedb"));
    command
        .args(["streams", "--db", &format!("tapes://{host}:{port}")])
        .env("TAPEDB_CA", ca)
        .stdin(no_input());
    Run::of(command.output().expect("the command runs"))
}

fn start(place: &Place, certificate: &Path, key: &Path) -> (Served, Value) {
    let [certificate, key] = [certificate, key].map(|path| path.to_str().unwrap().to_string());
    Served::start(&place.path("."), &["--tls-certificate", &certificate, "--tls-key", &key])
}

#[test]
fn clients_accept_certificates_of_a_private_authority() {
    let place = Place::new();
    let tls = place.path("tls");
    let cert = |more: &str| Run::plain(&format!("cert {} {more}", tls.display()));
    let made = cert("--json").json().remove(0);
    assert_eq!((&made["authority_is_new"], made["hosts"].as_array().unwrap().len()), (&true.into(), 3));
    assert!(cert("").bad(1).contains("--force replaces it"));
    let [ca, certificate, key] = ["ca.pem", "server.pem", "server.key"].map(|name| tls.join(name));
    {
        let (_served, ready) = start(&place, &certificate, &key);
        assert_eq!(ready["encrypted"], true);
        streams(&ready, "localhost", &ca).good();
        streams(&ready, "127.0.0.1", &ca).good();
    }
    #[cfg(unix)]
    for name in ["ca.key", "server.key"] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(tls.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    // Another certificate of the same authority; another authority is not trusted.
    let authority = std::fs::read(&ca).unwrap();
    let made = cert("--force --host localhost --days 30 --json").json().remove(0);
    assert_eq!((&made["authority_is_new"], std::fs::read(&ca).unwrap()), (&false.into(), authority));
    Run::plain(&format!("cert {}", place.path("other").display())).good();
    let (_served, ready) = start(&place, &certificate, &key);
    streams(&ready, "localhost", &ca).good();
    assert!(streams(&ready, "127.0.0.1", &ca).bad(1).contains("not valid for name"));
    let refused = streams(&ready, "localhost", &place.path("other").join("ca.pem")).bad(1);
    assert!(refused.contains("BadSignature") && refused.contains("in TAPEDB_CA"), "{refused}");
    assert!(!refused.contains("that the server runs"), "{refused}");

    std::fs::remove_file(tls.join("ca.key")).unwrap();
    assert!(cert("--force").bad(1).contains("needs both"));
    assert!(Run::plain("cert /proc/none").bad(1).contains("cannot create"));
    assert_eq!(Run::plain("cert x --days 0").code, 2);
}

/// Creates a certificate with openssl; `None` if openssl is not installed.
fn openssl(place: &Place, name: &str, more: &[&str]) -> Option<[std::path::PathBuf; 2]> {
    let [certificate, key] = ["pem", "key"].map(|end| place.path(&format!("{name}.{end}")));
    let mut command = Command::new("openssl");
    command.args("req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost".split(' ')).args(more);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate).stdin(no_input());
    let made = command.output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some([certificate, key])
}

#[test]
fn clients_accept_a_certificate_of_openssl_that_they_name() {
    let place = Place::new();
    let Some([certificate, key]) = openssl(&place, "plain", &[]) else {
        return tapedb_skipped::skipped("openssl is not installed");
    };
    let [other, other_key] = openssl(&place, "other", &[]).unwrap();
    let [named, named_key] = openssl(&place, "named", &["-addext", "subjectAltName=DNS:localhost"]).unwrap();
    {
        let (_served, ready) = start(&place, &certificate, &key);
        streams(&ready, "localhost", &certificate).good();
        // Without names: it is trusted itself.
        streams(&ready, "127.0.0.1", &certificate).good();
        // The same name, and another key.
        assert!(streams(&ready, "localhost", &other).code != 0);
    }
    {
        let (_served, ready) = start(&place, &named, &named_key);
        streams(&ready, "localhost", &named).good();
        assert!(streams(&ready, "127.0.0.1", &named).bad(1).contains("not valid for name"));
    }
    // A certificate that is not in the file is refused, although an authority in it has signed another one.
    let (_served, ready) = start(&place, &other, &other_key);
    assert!(streams(&ready, "localhost", &named).code != 0);
}

#[cfg(unix)]
#[test]
fn a_certificate_is_replaced_while_the_server_runs() {
    let place = Place::new();
    for name in ["tls", "other"] {
        Run::plain(&format!("cert {}", place.path(name).display())).good();
    }
    let [ca, certificate, key] =
        ["ca.pem", "server.pem", "server.key"].map(|name| place.path("tls").join(name));
    let other = place.path("other");
    let (served, ready) = Served::start(
        &place.path("."),
        &[
            "--tls-certificate",
            certificate.to_str().unwrap(),
            "--tls-key",
            key.to_str().unwrap(),
            "--http-tls",
        ],
    );
    let http = format!("https://localhost:{}", ready["http"].as_str().unwrap().rsplit(':').next().unwrap());
    let ask = |command: &str, ca: &Path| {
        let mut asked = Run::command(&format!("server {command}"));
        Run::of(asked.arg(&http).env("TAPEDB_CA", ca).output().expect("the command runs"))
    };
    assert!(ask("status --interval 0s", &ca).good().contains(", ok, up "));
    assert!(ask("status", &other.join("ca.pem")).bad(1).contains("in TAPEDB_CA"));
    let plain = Run::plain(&format!("server status {}", http.replace("https", "http"))).bad(1);
    assert!(plain.contains("answered") || plain.contains("cannot be reached"), "{plain}");

    // Certificate and key of different pairs, and half a file: the server goes on with what it has.
    std::fs::copy(other.join("server.pem"), &certificate).unwrap();
    assert!(ask("reload", &ca).bad(1).contains("certificate: unchanged"));
    std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert!(ask("reload", &ca).bad(1).contains("certificate: unchanged"));
    streams(&ready, "localhost", &ca).good();
    assert!(ask("status --interval 0s", &ca).good().contains(", ok, up "));

    // Both of the other pair, on every encrypted port.
    for (from, to) in [("server.pem", &certificate), ("server.key", &key)] {
        std::fs::copy(other.join(from), to).unwrap();
    }
    assert_eq!(ask("reload", &ca).good(), "certificate: reloaded\n");
    assert!(streams(&ready, "localhost", &ca).code != 0);
    streams(&ready, "localhost", &other.join("ca.pem")).good();
    assert!(ask("status --interval 0s", &other.join("ca.pem")).good().contains(", ok, up "));
    let (code, log) = served.end("-TERM");
    assert!(code == 0 && log.contains("certificate: reloaded"), "{code}: {log}");
}
