//! Health, status and metrics over HTTP: three pages, a request each, then the connection is closed.
//!
//! There is no login, so nothing here says more than numbers and names. Always true: at most [`REQUESTS_MAX`] connections are
//! open, none of them for longer than [`TIME_MAX`] in all. Where there are more, the oldest that is not being answered goes: who says
//! nothing keeps nobody out.

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
/// Time for a request to come and for its answer to go.
const TIME_MAX: Duration = Duration::from_secs(2);
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// What the pages say.
pub(crate) trait Pages: Send + Sync + 'static {
    /// Whether all is well, and a JSON object that says more.
    fn health(&self) -> (bool, String);
    /// How all is, as a JSON object.
    fn status(&self) -> String;
    /// The metrics, as Prometheus reads them.
    fn metrics(&self) -> String;
}

/// Answers requests, each on a thread of its own.
#[derive(Debug, Default)]
pub(crate) struct Http {
    open: Arc<Mutex<VecDeque<Arc<Open>>>>,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    socket: TcpStream,
    /// Its request is there, and is being answered.
    is_answering: AtomicBool,
}

impl Http {
    /// Answers the request that comes over `socket`.
    pub fn serve<P: Pages>(&self, socket: TcpStream, pages: Arc<P>) {
        let open = Arc::new(Open { socket, is_answering: AtomicBool::new(false) });
        let Some(place) = self.place(&open) else { return };
        let answer = move || {
            let _place = place;
            // Who asked has gone, or was too slow: there is nobody to tell.
            let _ = answer(&open, &*pages);
        };
        if let Err(error) = thread::Builder::new().name("http".into()).spawn(answer) {
            tracing::warn!(%error, "no thread for an HTTP request");
        }
    }

    /// A place for a connection, if need be that of an older one; `None` when all are being answered.
    fn place(&self, new: &Arc<Open>) -> Option<Place> {
        let mut open = locked(&self.open);
        if open.len() >= REQUESTS_MAX {
            let idle = open.iter().position(|open| !open.is_answering.load(Ordering::Acquire))?;
            if let Some(displaced) = open.remove(idle) {
                // Its thread, which waits for it, ends.
                let _ = displaced.socket.shutdown(Shutdown::Both);
            }
        }
        open.push_back(new.clone());
        Some(Place { of: self.open.clone(), open: new.clone() })
    }
}

/// A place among the open connections, until it is dropped or another has it.
struct Place {
    of: Arc<Mutex<VecDeque<Arc<Open>>>>,
    open: Arc<Open>,
}

impl Drop for Place {
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
        None => response("400 Bad Request", "text/plain", "this is no HTTP request\n", true),
    };
    socket.set_write_timeout(Some(left(end)?))?;
    socket.write_all(text.as_bytes())?;
    // What the other side still sends would reset the connection, and take the answer with it.
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

/// Method and path; `None` for what is no request.
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
        _ => response("404 Not Found", "text/plain", "there is /health, /status and /metrics\n", has_body),
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

    struct Ill;

    impl Pages for Ill {
        fn health(&self) -> (bool, String) {
            (false, "{\"status\":\"ill\"}".into())
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
        Http::default().serve(listener.accept().unwrap().0, Arc::new(Ill));
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn three_pages_and_no_more() {
        let health = ask("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            health.starts_with("HTTP/1.1 503 ") && health.ends_with("\r\n\r\n{\"status\":\"ill\"}"),
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
    fn what_is_no_request_is_refused() {
        assert!(ask("TAPEDB1\n\0\0\0").starts_with("HTTP/1.1 400 "));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert!(ask(&long).starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn who_says_nothing_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (http, mut silent) = (Http::default(), Vec::new());
        let connect = |http: &Http| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            http.serve(listener.accept().unwrap().0, Arc::new(Ill));
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
