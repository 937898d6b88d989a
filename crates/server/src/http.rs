//! Health, status and metrics over HTTP: three pages, one request per connection.
//!
//! There is no authentication, so the pages contain only numbers and names. Always true: at most [`REQUESTS_MAX`]
//! connections are open, none of them longer than [`TIME_MAX`]. When the limit is reached, the oldest connection
//! without a complete request is closed: silent connections block no others.

use httparse::{Request, Status};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at once.
const REQUESTS_MAX: usize = 16;
/// Time for a request and its answer.
const TIME_MAX: Duration = Duration::from_secs(2);
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// The contents of the pages.
pub(crate) trait Pages: Send + Sync + 'static {
    /// Whether the server is healthy, and a JSON object with details.
    fn health(&self) -> (bool, String);
    /// The status, as a JSON object.
    fn status(&self) -> String;
    /// The metrics, in the text format of Prometheus.
    fn metrics(&self) -> String;
}

/// Answers requests, each on its own thread.
#[derive(Debug, Default)]
pub(crate) struct Http {
    open: Arc<Mutex<VecDeque<Arc<Open>>>>,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    socket: TcpStream,
    /// Its request was received, and is being answered.
    is_answering: AtomicBool,
}

impl Http {
    /// Answers the request of a connection.
    pub fn serve<P: Pages>(&self, socket: TcpStream, pages: Arc<P>) {
        let open = Arc::new(Open { socket, is_answering: AtomicBool::new(false) });
        let Some(registration) = self.registration(&open) else { return };
        let answer = move || {
            let _place = registration;
            // The client has disconnected, or was too slow: an error cannot be reported.
            let _ = answer(&open, &*pages);
        };
        if let Err(error) = thread::Builder::new().name("http".into()).spawn(answer) {
            tracing::warn!(%error, "no thread for an HTTP request");
        }
    }

    /// Registers a connection, if need be instead of an older one; `None` when all are being answered.
    fn registration(&self, new: &Arc<Open>) -> Option<Registration> {
        let mut open = locked(&self.open);
        if open.len() >= REQUESTS_MAX {
            let idle = open.iter().position(|open| !open.is_answering.load(Ordering::Acquire))?;
            if let Some(displaced) = open.remove(idle) {
                // Its thread waits for the socket, and ends.
                let _ = displaced.socket.shutdown(Shutdown::Both);
            }
        }
        open.push_back(new.clone());
        Some(Registration { of: self.open.clone(), open: new.clone() })
    }
}

/// A registered connection, until it is dropped or replaced.
struct Registration {
    of: Arc<Mutex<VecDeque<Arc<Open>>>>,
    open: Arc<Open>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        locked(&self.of).retain(|open| !Arc::ptr_eq(open, &self.open));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(open: &Open, pages: &impl Pages) -> io::Result<()> {
    let (end, mut socket) = (Instant::now() + TIME_MAX, &open.socket);
    socket.set_nonblocking(false)?;
    let request = read_request(socket, end)?;
    open.is_answering.store(true, Ordering::Release);
    let text = match request {
        Some((method, path)) => respond(&method, &path, pages),
        None => response("400 Bad Request", "text/plain", "not an HTTP request\n", true),
    };
    socket.set_write_timeout(Some(left(end)?))?;
    socket.write_all(text.as_bytes())?;
    // Closing the socket with unread bytes would reset the connection and discard the answer.
    socket.shutdown(Shutdown::Write)?;
    open.is_answering.store(false, Ordering::Release);
    let mut rest = [0; HEAD_BYTES_MAX];
    while let Ok(time) = left(end) {
        socket.set_read_timeout(Some(time))?;
        if socket.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Method and path; `None` for bytes that are not a request.
fn read_request(mut socket: &TcpStream, end: Instant) -> io::Result<Option<(String, String)>> {
    let (mut head, mut length) = ([0; HEAD_BYTES_MAX], 0);
    while length < head.len() {
        socket.set_read_timeout(Some(left(end)?))?;
        let count = socket.read(&mut head[length..])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += count;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        match request.parse(&head[..length]) {
            Ok(Status::Complete(_)) => {
                return Ok(request
                    .method
                    .zip(request.path)
                    .map(|(method, path)| (method.into(), path.into())));
            }
            Ok(Status::Partial) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

fn respond(method: &str, path: &str, pages: &impl Pages) -> String {
    let has_body = method != "HEAD";
    if !matches!(method, "GET" | "HEAD") {
        return response("405 Method Not Allowed", "text/plain", "only GET and HEAD\n", true);
    }
    match path.split('?').next() {
        Some("/health") => {
            let (is_well, json) = pages.health();
            let status = if is_well { "200 OK" } else { "503 Service Unavailable" };
            response(status, "application/json", &json, has_body)
        }
        Some("/status") => response("200 OK", "application/json", &pages.status(), has_body),
        Some("/metrics") => response("200 OK", "text/plain; version=0.0.4", &pages.metrics(), has_body),
        _ => response("404 Not Found", "text/plain", "pages are /health, /status and /metrics\n", has_body),
    }
}

fn response(status: &str, kind: &str, body: &str, has_body: bool) -> String {
    let length = body.len();
    let body = if has_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}"
    )
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    struct Unhealthy;

    impl Pages for Unhealthy {
        fn health(&self) -> (bool, String) {
            (false, "{\"status\":\"failed\"}".into())
        }

        fn status(&self) -> String {
            "{}\n".into()
        }

        fn metrics(&self) -> String {
            "tapedb_up 1\n".into()
        }
    }

    fn ask(request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        Http::default().serve(listener.accept().unwrap().0, Arc::new(Unhealthy));
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_the_three_pages_exist() {
        let health = ask("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            health.starts_with("HTTP/1.1 503 ") && health.ends_with("\r\n\r\n{\"status\":\"failed\"}"),
            "{health}"
        );
        assert!(ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n").ends_with("\r\n\r\ntapedb_up 1\n"));
        assert!(ask("GET /status HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n{}\n"));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 12\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn bytes_that_are_not_a_request_are_refused() {
        assert!(ask("TAPEDB1\n\0\0\0").starts_with("HTTP/1.1 400 "));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert!(ask(&long).starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn silent_connections_block_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (http, mut silent) = (Http::default(), Vec::new());
        let connect = |http: &Http| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            http.serve(listener.accept().unwrap().0, Arc::new(Unhealthy));
            client
        };
        for _ in 0..REQUESTS_MAX * 4 {
            silent.push(connect(&http));
            let mut client = connect(&http);
            client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
            assert!(locked(&http.open).len() <= REQUESTS_MAX);
        }
        assert_eq!(silent[0].read(&mut [0; 10]).unwrap_or(0), 0, "the oldest is closed");
    }
}
