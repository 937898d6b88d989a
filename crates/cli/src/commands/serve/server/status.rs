//! `tapedb server status`: show the status of a server.

use super::http;
use crate::remote;
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_client::{WebAddress, WebAnswer};
use tapedb_terminal::{Failure, Ui, quantity::duration, ui};

/// Show the status of a server: version, load, streams, clients with their lag, and warnings.
///
/// The URL is that of the server (tape://HOST:PORT and its like, with a login as for --db) or of its health and metrics
/// (http://127.0.0.1:7848, https:// where it is encrypted; TAPEDB_CA names its authority). With a login, you see the streams that you may see and your own connection, or all if you have `admin`
/// for all streams. Rates are between two snapshots; --json prints one snapshot unchanged.
///
/// Examples:
///   tapedb server status http://127.0.0.1:7848
///   tapedb server status tape://ann@ticks.example.com --json
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// URL of the server.
    #[arg(value_name = "URL")]
    url: String,

    /// Time between the two snapshots; 0s for one snapshot without rates.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
}

/// Shows the status.
pub fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let address = Address::of(&args.url)?;
    let first = address.snapshot()?;
    if ui.json() {
        return ui.print_json(&first);
    }
    if args.interval.is_zero() {
        return ui.print(&Shown { now: &first, before: None, seconds: 0.0 }.text());
    }
    let began = Instant::now();
    while began.elapsed() < args.interval {
        ui.check_interrupt()?;
        thread::sleep((args.interval - began.elapsed().min(args.interval)).min(Duration::from_millis(50)));
    }
    let now = address.snapshot()?;
    let seconds = began.elapsed().as_secs_f64();
    ui.print(&Shown { now: &now, before: Some(&first), seconds }.text())
}

/// Address at which the status is requested.
enum Address {
    Http(WebAddress),
    Server(tapedb_engine::Database),
}

impl Address {
    fn of(url: &str) -> Result<Self, Failure> {
        if let Some(address) = http::address(url)? {
            return Ok(Self::Http(address));
        }
        if !url.contains("://") {
            return Err(Failure::usage(format!(
                "{url} is not a URL of a server; write tape://HOST:PORT, or http://HOST:PORT or https://HOST:PORT of its health and metrics"
            )));
        }
        remote::connect(url).map(Self::Server)
    }

    fn snapshot(&self) -> Result<Value, Failure> {
        let text = match self {
            Self::Http(address) => fetch(address)?,
            Self::Server(db) => db
                .server_status()?
                .ok_or_else(|| Failure::new("the server sent no status; check that it has this version"))?,
        };
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("the answer is not a status ({error}); check that it is a TapeDB server"))
        })
    }
}

/// Requests `/status` over HTTP.
fn fetch(address: &WebAddress) -> Result<String, Failure> {
    let WebAnswer { status, first_line, body } = http::ask(address, "GET", "/status", false)?;
    match status {
        200 => Ok(body),
        _ => Err(Failure::new(format!(
            "{address}/status answered {first_line:?}; check that it is the port of a TapeDB server's health and metrics"
        ))),
    }
}

/// A snapshot, and an earlier one for rates.
struct Shown<'a> {
    now: &'a Value,
    before: Option<&'a Value>,
    seconds: f64,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Shown<'_> {
    fn text(&self) -> String {
        let mut shown = self.head();
        shown.push_str(&self.streams());
        shown.push_str(&self.clients());
        let warnings = rows(&self.now["warnings"]);
        if !warnings.is_empty() {
            shown.push_str("\nwarnings\n");
            shown.extend(warnings.iter().map(|warning| format!("  {}\n", text(warning))));
        }
        shown
    }

    fn head(&self) -> String {
        let now = self.now;
        let process = &now["process"];
        let mut head = format!(
            "tapedb {}, {}, up {}\n",
            text(&now["version"]),
            text(&now["status"]),
            elapsed(number(&now["uptime_seconds"]))
        );
        let mut parts = Vec::new();
        if let (Some(cpu), Some(before)) = (process["cpu_seconds"].as_f64(), self.before) {
            let cores =
                (cpu - before["process"]["cpu_seconds"].as_f64().unwrap_or(cpu)) / self.seconds.max(1e-9);
            parts.push(format!("{cores:.2} cores"));
        }
        let counted = |name: &str| process[name].as_u64();
        parts.extend(counted("resident_bytes").map(|bytes| format!("{} of memory", ui::bytes(bytes))));
        parts.extend(counted("threads").map(|threads| format!("{threads} threads")));
        parts.extend(counted("open_files").map(|open| match counted("open_files_max") {
            Some(most) => format!("{open} of {most} files"),
            None => format!("{open} files"),
        }));
        parts.extend(counted("disk_free_bytes").map(|free| format!("{} free on the disk", ui::bytes(free))));
        if !parts.is_empty() {
            head.push_str(&format!("process      {}\n", parts.join(", ")));
        }
        let (connections, most) = (number(&now["connections"]), number(&now["connections_max"]));
        let watches = number(&now["watches"]);
        head.push_str(&format!("connections  {connections} of {most}, {watches} live cursors\n"));
        for (what, name) in [("appended", "appended"), ("delivered", "delivered")] {
            let (messages, bytes) = (number(&now[name]["messages"]), number(&now[name]["bytes"]));
            let rate = self.before.map(|before| {
                let new = messages.saturating_sub(number(&before[name]["messages"]));
                format!(", now {}", ui::rate(new, self.seconds))
            });
            let rate = rate.unwrap_or_default();
            head.push_str(&format!(
                "{what:<13}{} messages, {}{rate}\n",
                ui::thousands(messages),
                ui::bytes(bytes)
            ));
        }
        if let Some(append) = now["append"].as_object() {
            head.extend(
                append
                    .iter()
                    .map(|(durability, latency)| latency_line(&format!("append {durability}"), latency)),
            );
        }
        head.push_str(&latency_line("delivery", &now["delivery"]));
        head.push_str(&latency_line("catching up", &now["catch_up"]));
        head
    }

    fn streams(&self) -> String {
        let rows: Vec<Vec<String>> = rows(&self.now["streams"]).iter().map(|row| self.stream(row)).collect();
        if rows.is_empty() {
            return "\nno streams\n".into();
        }
        let head =
            ["stream", "messages", "sealed", "on disk", "to seal", "in/s", "out/s", "readers", "lag", "kept"];
        format!("\n{}", ui::table(&head, &[1, 2, 3, 4, 5, 6, 7, 8], &rows))
    }

    fn stream(&self, row: &Value) -> Vec<String> {
        let before = self.before.map(|before| {
            let same = |other: &&Value| other["name"] == row["name"];
            rows(&before["streams"]).iter().find(same).unwrap_or(&Value::Null)
        });
        let messages = number(&row["messages"]);
        let sealed = number(&row["sealed_messages"]) as f64 * 100.0 / messages.max(1) as f64;
        vec![
            text(&row["name"]).into(),
            ui::thousands(messages),
            format!("{sealed:.0} %"),
            ui::bytes(number(&row["segment_bytes"]) + number(&row["log_bytes"])),
            ui::thousands(number(&row["files_waiting"])),
            self.rate(row, before, "appended"),
            self.rate(row, before, "delivered"),
            number(&row["watches"]).to_string(),
            ui::thousands(number(&row["lag_messages_max"])),
            kept(row),
        ]
    }

    fn clients(&self) -> String {
        let rows: Vec<Vec<String>> = rows(&self.now["clients"]).iter().map(|row| self.client(row)).collect();
        if rows.is_empty() {
            return "\nno clients\n".into();
        }
        let head = ["client", "user", "address", "program", "in/s", "out/s", "readers", "lag", "waiting"];
        format!("\n{}", ui::table(&head, &[4, 5, 6, 7, 8], &rows))
    }

    fn client(&self, row: &Value) -> Vec<String> {
        let before = self.before.map(|before| {
            let same = |other: &&Value| other["connection"] == row["connection"];
            rows(&before["clients"]).iter().find(same).unwrap_or(&Value::Null)
        });
        vec![
            text(&row["connection"]).into(),
            text(&row["user"]).into(),
            text(&row["address"]).into(),
            text(&row["program"]).into(),
            self.rate(row, before, "appended"),
            self.rate(row, before, "delivered"),
            number(&row["watches"]).to_string(),
            ui::thousands(number(&row["lag_messages"])),
            ui::bytes(number(&row["waiting_bytes"])),
        ]
    }

    /// Messages a second since the earlier snapshot.
    fn rate(&self, row: &Value, before: Option<&Value>, name: &str) -> String {
        let Some(before) = before else { return "-".into() };
        let new = number(&row[name]["messages"]).saturating_sub(number(&before[name]["messages"]));
        ui::thousands(ui::per_second(new, self.seconds).round() as u64)
    }
}

fn latency_line(name: &str, latency: &Value) -> String {
    let [p50, p99, p999] =
        ["p50_seconds", "p99_seconds", "p999_seconds"].map(|share| latency[share].as_f64());
    let (Some(p50), Some(p99), Some(p999)) = (p50, p99, p999) else { return String::new() };
    let [p50, p99, p999] = [p50, p99, p999].map(|seconds| format!("{:?}", Duration::from_secs_f64(seconds)));
    format!("{name:<13}half within {p50}, 99 % within {p99}, 99.9 % within {p999}\n")
}

fn kept(row: &Value) -> String {
    let age = row["retention_seconds"].as_f64().map(|seconds| elapsed(seconds as u64));
    let bytes = row["retention_bytes"].as_u64().map(ui::bytes);
    let limits: Vec<String> = [age, bytes].into_iter().flatten().collect();
    if limits.is_empty() { "all".into() } else { limits.join(", ") }
}

/// A duration in its two largest units.
fn elapsed(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_a_table_with_rates() {
        let look = |messages: u64| {
            let text = format!(
                r#"{{"status":"ok","version":"0.2.0","uptime_seconds":3700,"process":{{"cpu_seconds":{messages}}},
                    "connections":1,"connections_max":1000,"watches":1,
                    "appended":{{"messages":{messages},"bytes":1024}},"delivered":{{"messages":0,"bytes":0}},
                    "append":{{"async":{{"p50_seconds":0.00001,"p99_seconds":0.0001,"p999_seconds":0.001}}}},
                    "streams":[{{"name":"bars","messages":200,"sealed_messages":100,"segment_bytes":2048,"log_bytes":0,
                        "appended":{{"messages":{messages}}},"delivered":{{"messages":0}},"watches":1,"lag_messages_max":7,
                        "retention_seconds":86400}}],
                    "clients":[],"warnings":["look here"]}}"#
            );
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let (before, now) = (look(0), look(10));
        let shown = Shown { now: &now, before: Some(&before), seconds: 2.0 }.text();
        for part in [
            "tapedb 0.2.0, ok, up 1 h 1 min\n",
            "5.00 cores",
            "appended     10 messages, 1.0 KiB, now 5 messages/s\n",
            "append async half within 10µs, 99 % within 100µs, 99.9 % within 1ms\n",
            "bars         200    50 %  2.0 KiB        0     5      0        1    7  1 d 0 h\n",
            "\nno clients\n",
            "\nwarnings\n  look here\n",
        ] {
            assert!(shown.contains(part), "{shown} lacks {part:?}");
        }
        let alone = Shown { now: &now, before: None, seconds: 0.0 }.text();
        assert!(!alone.contains("cores") && alone.contains("   -      -  "), "{alone}");
        assert_eq!([59, 60, 90_000].map(elapsed), ["59 s", "1 min 0 s", "1 d 1 h"]);
    }
}
