//! Clients that others wrote, from the public registries: each subscribes, receives, publishes every shape it can, and counts
//! 100,000 rows. They are installed into the target directory; where a registry cannot be reached, or a language is not there,
//! that client is skipped, and named in the list behind the tests. The one in Rust takes minutes to compile and OpenSSL to
//! link: `make kdb-clients` runs it too.

use crate::support::{place, plant};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tapedb_skipped::skipped;
use tapedb_tick::kdb::front::{Front, FrontOptions, Served};

const ROWS: u32 = 100_000;
const JAVAKDB: &str = "https://repo1.maven.org/maven2/com/kx/javakdb/2.0/javakdb-2.0.jar";

/// Where clients are installed.
fn installed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kdb-clients").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/kdb").join(name)
}

/// Whether a step of an installation went well; if not, why the client is skipped.
#[track_caller]
fn did(what: &str, command: &mut Command) -> bool {
    let error = match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_string(),
        Err(error) => error.to_string(),
    };
    skipped(format_args!("cannot install {what}: {error}"));
    false
}

/// A plant with an RDB for a client that is run with its port.
fn run(client: impl Fn(u16) -> Command) {
    let place = place();
    let plant = Arc::new(plant(&place.db));
    let options = FrontOptions::at("127.0.0.1:0".parse().expect("an address"));
    let front = Front::start(Served::plant(plant), options).expect("a front");
    let output = client(front.address().port()).output().expect("the client runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}\n{:?}", front.status());
    assert_eq!(out.trim().lines().last(), Some(format!("received {ROWS}").as_str()));
}

/// The Python of an environment with these packages, which is made if need be.
#[track_caller]
fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let folder = installed(name);
    let (python, done) = (folder.join("bin/python"), folder.join("installed"));
    if !done.exists() {
        let is_there = did(name, Command::new("python3").args(["-m", "venv"]).arg(&folder))
            && did(name, Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages));
        if !is_there {
            return None;
        }
        std::fs::write(done, "").expect("it fits");
    }
    Some(python)
}

#[track_caller]
fn run_python(name: &str, packages: &[&str], client: &str) {
    let Some(python) = python(name, packages) else { return };
    run(|port| {
        let mut command = Command::new(&python);
        command.arg(script(client)).args([port.to_string(), ROWS.to_string()]);
        command
    });
}

#[test]
fn kola() {
    run_python("kola", &["kola==2.6.1"], "client_kola.py");
}

#[test]
fn qpython3() {
    run_python("qpython3", &["numpy<2", "pandas<2.3", "qpython3==1.0.1"], "client_qpython.py");
}

#[test]
fn node_q() {
    let folder = installed("node-q");
    let modules = folder.join("node_modules");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-fund", "--no-audit", "--silent", "node-q@2.7.0", "--prefix"]).arg(&folder);
    if !modules.join("node-q").exists() && !did("node-q", &mut npm) {
        return;
    }
    run(|port| {
        let mut command = Command::new("node");
        command.arg(script("client_node.js")).arg(&modules).args([port.to_string(), ROWS.to_string()]);
        command
    });
}

#[test]
fn javakdb() {
    let folder = installed("javakdb");
    let (jar, class) = (folder.join("javakdb.jar"), folder.join("ClientJava.class"));
    let mut fetch = Command::new("curl");
    fetch.args(["--silent", "--show-error", "--fail", "--max-time", "120", JAVAKDB, "--output"]).arg(&jar);
    if !jar.exists() && !did("javakdb", &mut fetch) {
        return;
    }
    let mut javac = Command::new("javac");
    javac.arg("-cp").arg(&jar).arg("-d").arg(&folder).arg(script("ClientJava.java"));
    if !did("javakdb", &mut javac) {
        return;
    }
    assert!(class.exists());
    run(|port| {
        let mut command = Command::new("java");
        command.arg("-cp").arg(format!("{}:{}", jar.display(), folder.display())).arg("ClientJava");
        command.args([port.to_string(), ROWS.to_string()]);
        command
    });
}

#[test]
fn kdbplus() {
    if std::env::var_os("KDBPLUS").is_none() {
        return skipped("the client kdbplus, which `make kdb-clients` compiles");
    }
    let folder = installed("kdbplus");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--target-dir"]).arg(&folder).arg("--manifest-path");
    assert!(did("kdbplus", cargo.arg(script("rust/Cargo.toml"))), "it was asked for");
    run(|port| {
        let mut command = Command::new(folder.join("debug/tapedb-kdb-client-rust"));
        command.args([port.to_string(), ROWS.to_string()]);
        command
    });
}
