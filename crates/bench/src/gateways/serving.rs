//! The server of the benchmark: this program again.

use crate::gateways::failed::failed;
use crate::gateways::{lines, plain};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;

/// A server, which is killed and whose database is removed when this is dropped.
pub struct Serving {
    child: Child,
    db: PathBuf,
    pub ilp: u16,
    pub postgres: u16,
    pub flight: u16,
    pub http: u16,
}

/// The addresses that it prints.
#[derive(Deserialize)]
struct Ready {
    ilp: Option<String>,
    postgres: Option<String>,
    flight: Option<String>,
    http: Option<String>,
}

/// Creates a database with rows in sealed files.
pub fn fill(path: &Path, table: &str, rows: u64) -> Result<(), Failure> {
    if path.exists() {
        let path = path.display();
        return Err(Failure::new(format!("{path} exists; remove it, or name another directory with --db")));
    }
    let db = Database::open(path)?;
    let schema = format!("message {table} {{ side: string?, price: f64?, amount: f64?, size: i64? }}");
    let options = StreamOptions { durability: Durability::Async, ..StreamOptions::default() };
    let stream = db.create_stream(table, schema.parse().map_err(failed)?, options)?;
    let mut loader = stream.loader()?;
    for row in 0..rows {
        let (symbol, side, price, amount, time) = lines::values(row);
        let json = format!(
            r#"{{"$type": "{table}", "side": "{side}", "price": {price}, "amount": {amount}, "size": {row}}}"#
        );
        let record = stream.layouts().from_json(&json).map_err(failed)?;
        loader.append_value(&symbol, Timestamp(time as i64), &record)?;
    }
    loader.close()?;
    stream.seal()?;
    Ok(())
}

impl Serving {
    /// Starts it.
    pub fn start(db: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["server", "--json", "--log", "error", "--db"]).arg(db);
        for option in ["--listen", "--http", "--ilp", "--postgres", "--flight"] {
            command.args([option, "127.0.0.1:0"]);
        }
        // Settings of the environment are another server's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TAPEDB_SERVER_") {
                command.env_remove(name);
            }
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        let mut serving = Self { child, db: db.into(), ilp: 0, postgres: 0, flight: 0, http: 0 };
        let Ok(ready) = serde_json::from_str::<Ready>(&line) else {
            let mut why = String::new();
            if let Some(errors) = &mut serving.child.stderr {
                let _ = errors.read_to_string(&mut why);
            }
            return Err(Failure::new(format!("the server does not start: {}", why.trim())));
        };
        let port = |address: &Option<String>| {
            let port = address.as_deref().and_then(|address| address.rsplit(':').next()?.parse().ok());
            port.ok_or_else(|| {
                Failure::new("this build lacks a protocol; build it with its default features")
            })
        };
        serving.ilp = port(&ready.ilp)?;
        serving.postgres = port(&ready.postgres)?;
        serving.flight = port(&ready.flight)?;
        serving.http = port(&ready.http)?;
        Ok(serving)
    }

    /// Compares what was written, and removes it.
    pub fn take_written(&self, table: &str, rows: u64) -> Result<(), Failure> {
        let text = format!("SELECT count(*) AS n, sum(size) AS total FROM {table} WHERE side IS NOT NULL");
        let found = plain::query(self.http, &text, "csv")?;
        let found = String::from_utf8_lossy(&found).trim().replace("\r\n", "\n");
        let expected = format!("n,total\n{rows},{}", rows * rows.saturating_sub(1) / 2);
        if found != expected {
            return Err(Failure::new(format!("{found:?} is stored, where {expected:?} was sent")));
        }
        plain::delete(self.http, table)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.db);
    }
}
