//! NATS JetStream: streams of a NATS server as sources and sinks.
//!
//! [`import`](import()) reads with a consumer of its own from the position that the stream has; [`export`](export()) publishes with the
//! expectation of the sequence number before, so that nothing is there twice and a second exporter fails. `frame` parses what a server
//! sends, `connection` has the socket and the login, `jetstream` the requests.

mod address;
mod connection;
mod export;
mod frame;
mod import;
mod jetstream;
mod login;

pub use address::Address;
pub use connection::Server;
pub use export::{ExportOptions, export, export_status};
pub use import::{ImportOptions, import, import_status};
pub use login::Login;

/// Reads what a hostile server sends: for fuzzing.
pub fn read_hostile_frames(mut bytes: &[u8]) {
    while let Ok(Some((frame, length))) = frame::parse(bytes) {
        if let frame::Frame::Message { headers, reply, .. } = frame {
            let headers = &bytes[headers];
            drop(frame::marks(headers));
            let _ = frame::status(headers);
            let _ = jetstream::Place::of(str::from_utf8(&bytes[reply]).unwrap_or_default());
        }
        bytes = &bytes[length..];
    }
}
