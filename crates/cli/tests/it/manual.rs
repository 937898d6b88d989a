//! Completions, manual pages, the version, errors in JSON, and no databases by mistyped paths.

use crate::support::{Place, Run};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[path = "../../build/commit.rs"]
#[allow(dead_code, reason = "the build script's, of which a part is tested")]
mod commit;

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Run::plain(&format!("completions {shell}")).good();
        assert!(script.contains("on-bad-line") && script.contains("completions"), "{shell}");
    }
    // Only for shells that are installed.
    let script = Run::plain("completions bash").good();
    let mut bash = Command::new("bash");
    let Ok(mut bash) = bash.args(["-n", "-s"]).stdin(Stdio::piped()).spawn() else { return };
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success(), "bash can read it");
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let pages = place.path("man1");
    Run::plain(&format!("--json man {}", pages.display())).good();
    for name in ["tapedb", "tapedb-load", "tapedb-read", "tapedb-tick-plant", "tapedb-topic-publish"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).expect(name);
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let load = std::fs::read_to_string(pages.join("tapedb-load.1")).unwrap();
    assert!(load.contains("flush\\-interval") && load.contains("SIGTERM"), "{load}");
    // A command that has commands below it has its own description too.
    let server = std::fs::read_to_string(pages.join("tapedb-server.1")).unwrap();
    assert!(server.contains("SIGHUP") && server.contains("Example"), "{server}");
}

#[test]
fn the_version_names_the_commit() {
    let version = Run::plain("--version").good();
    assert!(version.starts_with(concat!("tapedb ", env!("CARGO_PKG_VERSION"))), "{version}");
    // A build for tests has no commit, except in an archive.
    let shown = commit::given().map(|commit| format!(" ({commit})")).unwrap_or_default();
    assert!(version.ends_with(&format!("{shown}\n")), "{version}");
    let head =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    if let (Some(commit), Ok(head)) = (commit::of_git(), head) {
        let head = String::from_utf8(head.stdout).unwrap();
        assert!(head.starts_with(commit.trim_end_matches('+')), "{commit} {head}");
        assert!(!commit::git_files().is_empty());
    }
    // `git archive` replaces a placeholder by a commit.
    assert_eq!(
        commit::shortened("0123456789abcdef0123456789abcdef01234567\n").as_deref(),
        Some("0123456789ab")
    );
    assert_eq!(commit::shortened("$Format:%H$\n"), None);
    let attributes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.gitattributes");
    let attributes = std::fs::read_to_string(attributes).unwrap();
    assert!(attributes.contains("crates/cli/build/archive.txt export-subst"), "{attributes}");
}

#[test]
fn programs_read_errors_as_objects() {
    let object = |line: &str| {
        let run = Run::plain(line);
        assert_eq!((run.out.as_str(), run.err.lines().count()), ("", 1), "{}", run.err);
        let object: Value = serde_json::from_str(&run.err).expect(&run.err);
        assert_eq!(object["code"], run.code);
        (run.code, object["error"].as_str().expect("a text").to_string())
    };
    let (code, error) = object("--json streams --db /nonexistent/db");
    assert!(code == 1 && error.contains("/nonexistent/db"), "{error}");
    let (code, error) = object("read feed --db x --from yesterday --json");
    assert!(code == 2 && error.contains("--from") && error.contains("yesterday"), "{error}");
    let (code, error) = object("--json load");
    assert!(code == 2 && error.contains("--db") && !error.contains("error:"), "{error}");
    // Requested help is not an error.
    let help = Run::plain("--json load --help");
    assert!(help.code == 0 && help.out.contains("flush-interval"));
}

#[test]
fn a_mistyped_path_creates_no_database() {
    let place = Place::new();
    let (db, schema) = (place.db().display().to_string(), place.path("t.schema"));
    std::fs::write(&schema, "message Tick { price: f64 }").unwrap();
    std::fs::write(place.path("sym.q"), "trade:([]time:`timespan$();sym:`symbol$();price:`float$())")
        .unwrap();
    let tables = place.path("sym.q").display().to_string();
    let trades = place.trades("aaa", 3).display().to_string();
    for line in [
        format!("server --db {db} --listen off --http off"),
        format!("generate --db {db} --stream feed"),
        format!("import --db {db} --stream us --format us-equity-ticks {trades}"),
        format!("load --db {db} ticks"),
        format!("alter --db {db} ticks --cold"),
        format!("seal --db {db} ticks"),
        format!("rename --db {db} ticks other"),
        format!("topic copy quotes --db {db}"),
        format!("tick plant --db {db} --tables {tables} --listen off --http off"),
        format!("tick all --db {db} --tables {tables} --listen off --http off"),
        format!("tick hdb --db {db} --listen off --http off"),
        format!("tick feed --plant {db}"),
    ] {
        let error = Run::plain(&line).bad(1);
        assert!(error.contains(&db), "{line}: {error}");
        assert!(!place.db().exists(), "{line}");
    }
    // Nor in an empty directory: it may be a mount point without its disk.
    std::fs::create_dir(place.db()).unwrap();
    assert!(Run::plain(&format!("server --db {db} --listen off --http off")).bad(1).contains("--create"));
    assert_eq!(place.db().read_dir().unwrap().count(), 0);
    Run::plain(&format!("create ticks --db {db} --schema {}", schema.display())).good();
    Run::plain(&format!("generate --db {db} --stream feed --messages 10")).good();
    let fresh = place.path("fresh");
    let line = format!("generate --db {} --stream feed --messages 10", fresh.display());
    Run::plain(&format!("{line} --create")).good();
}

#[test]
fn a_package_has_the_files_of_the_command() {
    let place = Place::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/package");
    // A script in place of the binary of the tests, which takes long to compress.
    let small = place.path("tapedb");
    std::fs::write(&small, format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_tapedb"))).unwrap();
    std::fs::set_permissions(&small, std::fs::Permissions::from_mode(0o755)).unwrap();
    let made = Command::new(script)
        .arg("--tapedb")
        .arg(&small)
        .arg("--out")
        .arg(place.path("."))
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let archive = String::from_utf8(made.stdout).unwrap();
    let listed = Command::new("tar").args(["-tzf", archive.trim()]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for file in [
        "/bin/tapedb\n",
        "/share/man/man1/tapedb-load.1\n",
        "/share/bash-completion/completions/tapedb\n",
        "/share/zsh/site-functions/_tapedb\n",
        "/share/fish/vendor_completions.d/tapedb.fish\n",
        "/lib/systemd/system/tapedb.service\n",
        "/share/doc/tapedb/LICENSE\n",
    ] {
        assert!(listed.contains(file), "{file}: {listed}");
    }
}
