//! `tapedb server reload`: a running server reads its users file and its certificate again.

use super::http;
use serde_json::Value;
use tapedb_terminal::{Failure, Ui};

const EXAMPLES: &str = "\
Examples:
  tapedb server reload http://127.0.0.1:7848
  tapedb server reload https://admin@ticks.example.com:7848";

/// Let a running server read its users file and its certificate again, as SIGHUP does.
///
/// Handshakes from now on use the new certificate; open connections stay. Rights apply to connected clients at once. A file that cannot be
/// used changes nothing: the server goes on with what it has, and this command fails with the reason. It needs the right to administer all
/// streams, where the server has users: the login is as for --db (a name in the URL, TAPEDB_PASSWORD or TAPEDB_TOKEN, TAPEDB_CA).
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// URL of the server's HTTP port.
    #[arg(value_name = "URL")]
    url: String,
}

/// Asks the server.
pub fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let address = http::address(&args.url)?.ok_or_else(|| {
        Failure::usage(format!(
            "{} is not a URL of a server's HTTP port; write http://HOST:PORT or https://HOST:PORT",
            args.url
        ))
    })?;
    let answer = http::ask(&address, "POST", "/api/reload", true)?;
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().map(str::to_string);
    match (answer.status, text("done"), text("error")) {
        (200, Some(_), _) if ui.json() => ui.print_json(&body),
        (200, Some(done), _) => ui.print(&format!("{done}\n")),
        (_, _, Some(error)) => Err(Failure::new(error)),
        _ => Err(Failure::new(format!(
            "{address}/api/reload answered {:?}; check that it is the HTTP port of a TapeDB server of this version",
            answer.first_line
        ))),
    }
}
