//! Health, status and metrics over HTTP: three pages, a request each, then the connection is closed.
//!
//! There is no login, so nothing here says more than numbers and names. Always true: at most [`REQUESTS_MAX`] requests are
//! under way, none of them for longer than [`TIME_MAX`] in all.

use httparse::{Request, Status};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Requests at once; further ones are closed.
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
    under_way: Arc<AtomicUsize>,
}

impl Http {
    /// Answers the request that comes over `socket`.
    pub fn serve<P: Pages>(&self, socket: TcpStream, pages: Arc<P>) {
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let place = Place(self.under_way.clone());
        let answer = move || {
            let _place = place;
            // Who asked has gone, or was too slow: there is nobody to tell.
            let _ = answer(socket, &*pages);
        };
        if let Err(error) = thread::Builder::new().name("http".into()).spawn(answer) {
            tracing::warn!(%error, "no thread for an HTTP request");
        }
    }
}

struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut socket: TcpStream, pages: &impl Pages) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    socket.set_nonblocking(false)?;
    let text = match read_request(&mut socket, end)? {
        Some((method, path)) => respond(&method, &path, pages),
        None => response("400 Bad Request", "text/plain", "this is no HTTP request\n", true),
    };
    socket.set_write_timeout(Some(left(end)?))?;
    socket.write_all(text.as_bytes())?;
    // What the other side still sends would reset the connection, and take the answer with it.
    socket.shutdown(Shutdown::Write)?;
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
fn read_request(socket: &mut TcpStream, end: Instant) -> io::Result<Option<(String, String)>> {
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
    fn there_are_places_for_some_at_once_and_they_become_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (http, mut clients) = (Http::default(), Vec::new());
        for _ in 0..REQUESTS_MAX + 3 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            http.serve(listener.accept().unwrap().0, Arc::new(Ill));
        }
        for client in &mut clients[REQUESTS_MAX..] {
            assert_eq!(client.read(&mut [0; 10]).unwrap_or(0), 0, "closed");
        }
        let mut text = String::new();
        clients[0].write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        clients[0].read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    }
}
