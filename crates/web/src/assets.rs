//! The console: the files of its build, embedded.

use crate::failure::Failure;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

#[derive(RustEmbed)]
#[folder = "../../console/dist"]
#[allow_missing = true]
struct Files;

/// The page without the files.
const NO_CONSOLE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>TapeDB</title></head><body>\
     <h1>TapeDB</h1><p>This build of the command has no console. The interface is here: \
     <a href=\"/api/openapi.json\">/api/openapi.json</a>.</p></body></html>\n";
const INDEX: &str = "index.html";
/// Shorter files are not compressed.
const COMPRESSED_MIN: usize = 1024;
/// Names that contain a hash of their content: they never change.
const HASHED: &str = "assets/";

/// A file of the console. Addresses that are none show the console too, whose state is in the address.
pub(crate) async fn answer(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path == "api" || path.starts_with("api/") {
        return Failure::not_found("there is no such address; /api/openapi.json lists them").into_response();
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        return Failure::form(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD").into_response();
    }
    let takes_html =
        || headers.get(ACCEPT).is_none_or(|accept| contains(accept, "text/html") || contains(accept, "*/*"));
    let name = match Files::get(path) {
        Some(_) if !path.is_empty() => path,
        // A missing script must not be answered with a page.
        _ if path.starts_with(HASHED) || !takes_html() => {
            return Failure::not_found("there is no such file").into_response();
        }
        _ => INDEX,
    };
    file(name, &headers)
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(name) else {
        return ([(CONTENT_TYPE, "text/html; charset=utf-8")], NO_CONSOLE).into_response();
    };
    let hash = file.metadata.sha256_hash()[..16].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let tag = format!("\"{hash}\"");
    let caching = if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [(CACHE_CONTROL, caching), (VARY, "accept-encoding"), (CONTENT_TYPE, content_type(name))];
    let etag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| contains(known, &tag));
    if is_known {
        return (StatusCode::NOT_MODIFIED, common, [(ETAG, etag)]).into_response();
    }
    let body = match file.data {
        std::borrow::Cow::Borrowed(data) => Bytes::from_static(data),
        std::borrow::Cow::Owned(data) => data.into(),
    };
    let takes_gzip = headers.get_all(ACCEPT_ENCODING).iter().any(|accepted| contains(accepted, "gzip"));
    if takes_gzip && body.len() >= COMPRESSED_MIN {
        let packed = compressed(&hash, &body);
        return (common, [(ETAG, etag), (CONTENT_ENCODING, HeaderValue::from_static("gzip"))], packed)
            .into_response();
    }
    (common, [(ETAG, etag)], body).into_response()
}

fn contains(header: &HeaderValue, text: &str) -> bool {
    header.to_str().is_ok_and(|header| header.contains(text))
}

/// A file compressed: once, and then from memory. There are only as many as files.
fn compressed(hash: &str, body: &Bytes) -> Bytes {
    static PACKED: OnceLock<Mutex<HashMap<String, Bytes>>> = OnceLock::new();
    let mut packed = PACKED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let pack = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // A vector takes every write.
        let written = encoder.write_all(body).and_then(|()| encoder.finish());
        written.map_or_else(|_| Bytes::new(), Bytes::from)
    };
    packed.entry(hash.into()).or_insert_with(pack).clone()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("json" | "webmanifest" | "map") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
