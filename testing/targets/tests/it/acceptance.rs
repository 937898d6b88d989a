//! The real importer against the independent reader of `testing/acceptance`, on the first lines of every real file.
//!
//! Needs python3, the data (`TAPEDB_DATA`, a folder with `MANIFEST.tsv`) and the built binary (`TAPEDB_BIN`, or in
//! `target/release` or `target/debug`); skips where something is missing. All of every file:
//! `python3 testing/acceptance/check_import.py --tapedb target/release/tapedb --data DIR`.

use std::path::{Path, PathBuf};
use tapedb_skipped::{python, recorded_data, skipped};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The binary named by the environment, else the one built last.
fn binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TAPEDB_BIN") {
        return Some(named.into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let built = ["release", "debug"].map(|profile| target.join(profile).join("tapedb"));
    let time = |path: &PathBuf| path.metadata().and_then(|about| about.modified()).ok();
    built.into_iter().filter(|path| path.is_file()).max_by_key(time)
}

#[test]
fn what_is_imported_is_what_is_in_the_files() {
    let Some(data) = recorded_data() else { return };
    let Some(binary) = binary() else {
        return skipped("no tapedb binary; build one, or set TAPEDB_BIN");
    };
    let mut command = python();
    command.arg(root().join("testing/acceptance/check_import.py")).arg("--quick");
    match command.arg("--tapedb").arg(binary).arg("--data").arg(data).output() {
        Err(error) => skipped(format_args!("python3: {error}")),
        Ok(run) => {
            let text = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
        }
    }
}
