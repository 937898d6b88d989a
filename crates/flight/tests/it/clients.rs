//! Real clients. Those that are not on the machine are skipped, and listed.

use crate::fixture::{Served, Setup};
use std::sync::Arc;
use tapedb_skipped::skipped;

/// Runs a script of Python with clients.
#[track_caller]
fn python(served: &Served, script: &str) {
    let Some(mut command) = served.python() else {
        skipped(
            "Python's clients of Flight SQL are not installed; testing/gateways/environment installs them below target/",
        );
        return;
    };
    let script = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = command.arg(&script).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {}{errors}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn adbc_reads_and_ingests() {
    let served = Served::with_users();
    python(&served, "with_adbc.py");
}

#[test]
fn pyarrow_reads() {
    let served = Served::with_users();
    python(&served, "with_pyarrow.py");
}

#[test]
fn clients_use_tls() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let served = Served::with(Setup { has_users: true, tls: Some(Arc::new(config)), ..Setup::default() });
    std::fs::write(served.folder.path().join("certificate.pem"), certified.cert.pem()).unwrap();
    python(&served, "with_tls.py");
}
