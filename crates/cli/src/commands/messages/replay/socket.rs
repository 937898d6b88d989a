//! `tapedb replay --websocket`: replays that clients ask for.

use super::{Args, WAIT};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use tapedb_replay::Speed;
use tapedb_replay_socket::{Ended, ReplayServer, ServerOptions};
use tapedb_terminal::{Failure, Ui, ui};

/// Where it listens, in JSON output.
#[derive(Serialize)]
struct Ready {
    websocket: SocketAddr,
}

/// An address with a port, or a port of this machine.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let text = text.strip_prefix("localhost:").map_or(text.to_string(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| {
        "write an address with a port, such as 127.0.0.1:8001 or [::1]:8001, or a port".to_string()
    })
}

/// Serves until a signal arrives.
pub fn serve(args: &Args, address: SocketAddr, ui: &Ui) -> Result<(), Failure> {
    let speed = match args.speed {
        Some(start) if start.is_paused => {
            return Err(Failure::usage("a replay for WebSocket clients cannot begin with a pause"));
        }
        Some(start) => start.speed,
        None => Speed::Max,
    };
    let db = args.db.open_to_follow()?;
    let streams = args.selection.open(&db, ui)?;
    let cannot = |error| Failure::new(format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(cannot)?;
    if !address.ip().is_loopback() {
        ui.warn("every client that can connect to this address can read the streams: there is no encryption and no password");
    }
    let options = ServerOptions {
        speed,
        clients_max: usize::from(args.max_clients),
        hosts: args.host_names.clone(),
        observer: Some(Arc::new(report)),
    };
    let server = ReplayServer::start(&db, streams, listener, options).map_err(cannot)?;
    let websocket = server.address();
    if ui.json() {
        ui.print_json(&Ready { websocket })?;
    } else {
        ui.print(&format!("serving ws://{websocket}/ws-replay-normalized; Ctrl-C ends it\n"))?;
    }
    while !ui.is_interrupted() {
        thread::sleep(WAIT);
    }
    server.stop();
    Ok(())
}

/// One line on standard error for each client.
fn report(ended: &Ended) {
    let (messages, rate) = (ui::thousands(ended.messages), ui::rate(ended.messages, ended.seconds));
    let error = ended.error.as_ref().map(|error| format!("; {error}")).unwrap_or_default();
    eprintln!(
        "{}: {messages} messages, {} in {:.3} s ({rate}){error}",
        ended.peer,
        ui::bytes(ended.bytes),
        ended.seconds
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_ports_are_of_this_machine() {
        for (text, expected) in [
            ("8001", "127.0.0.1:8001"),
            ("localhost:8001", "127.0.0.1:8001"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::1]:8001", "[::1]:8001"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), Ok(expected));
        }
        for text in ["", "host", "host:8001", "127.0.0.1", "70000"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
