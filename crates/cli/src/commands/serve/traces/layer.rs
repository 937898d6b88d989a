//! Spans as they happen, and when they have ended.

use super::Counts;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_terminal::Failure;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Bytes of a text in an attribute.
const TEXT_BYTES_MAX: usize = 256;

/// A span.
#[derive(Debug, Default)]
pub struct Span {
    pub name: &'static str,
    pub trace: u128,
    pub id: u64,
    /// 0: it begins its trace.
    pub parent: u64,
    /// Nanoseconds since 1970.
    pub begins: u64,
    pub ends: u64,
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether a client has caused it.
    pub is_of_server: bool,
    pub has_failed: bool,
    /// Trace and span of the client, as it has sent them.
    caller: Option<(u128, u64)>,
}

/// The value of an attribute.
#[derive(Debug, PartialEq)]
pub enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// Gives spans to the exporter when they end.
pub struct SpanLayer {
    sender: SyncSender<Span>,
    counts: Arc<Counts>,
    /// What the numbers of spans are made of: they differ from those of other processes.
    seed: u64,
    next: AtomicU64,
}

impl SpanLayer {
    pub fn new(sender: SyncSender<Span>, counts: Arc<Counts>) -> Result<Self, Failure> {
        let seed = tapedb_access::random().map_err(Failure::new)?;
        Ok(Self { sender, counts, seed: u64::from_le_bytes(seed), next: AtomicU64::new(1) })
    }

    /// A number that no other span has; never 0.
    fn number(&self) -> u64 {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        // SplitMix64.
        let mut number = self.seed.wrapping_add(next.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)).max(1)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(place) = context.span(id) else { return };
        let mut span = Span { name: attributes.metadata().name(), begins: now(), ..Span::default() };
        attributes.record(&mut span);
        span.id = self.number();
        let parent = place
            .parent()
            .and_then(|parent| parent.extensions().get::<Span>().map(|span| (span.trace, span.id)));
        (span.trace, span.parent) = parent
            .or(span.caller)
            .unwrap_or_else(|| (u128::from(self.number()) << 64 | u128::from(self.number()), 0));
        place.extensions_mut().insert(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(place) = context.span(id) else { return };
        if let Some(span) = place.extensions_mut().get_mut::<Span>() {
            values.record(span);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(mut span) = context.span(&id).and_then(|place| place.extensions_mut().remove::<Span>())
        else {
            return;
        };
        span.ends = now().max(span.begins);
        if self.sender.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

impl Span {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), &value) {
            ("otel.kind", Value::Text(kind)) => self.is_of_server = kind == "server",
            ("otel.status_code", Value::Text(code)) => self.has_failed = code == "ERROR",
            ("traceparent", Value::Text(text)) => self.caller = caller(text),
            (name, _) => match self.attributes.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => self.attributes.push((name, value)),
            },
        }
    }
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        let most = value.len().min(TEXT_BYTES_MAX);
        let end = (0..=most).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
        self.set(field, Value::Text(value[..end].into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }
}

/// Trace and span in the header `traceparent` of W3C; `None`: it is none.
fn caller(text: &str) -> Option<(u128, u64)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex(version, 2) || version == "ff" || !is_hex(trace, 32) || !is_hex(span, 16) {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    (trace != 0 && span != 0).then_some((trace, span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    #[test]
    fn spans_have_parents_attributes_and_ends() {
        let (sender, spans) = sync_channel(2);
        let counts = Arc::<Counts>::default();
        let layer = SpanLayer::new(sender, counts.clone()).unwrap();
        tracing::subscriber::with_default(registry().with(layer), || {
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            let outer = tracing::info_span!(
                "outer",
                "otel.kind" = "server",
                traceparent = parent,
                bytes = 7_u64,
                text = "é".repeat(1000),
                rows = tracing::field::Empty
            );
            outer.in_scope(|| drop(tracing::info_span!("inner", is = true).entered()));
            outer.record("rows", u64::MAX);
            drop(outer);
            drop(tracing::info_span!("too many"));
        });
        let (inner, outer) = (spans.recv().unwrap(), spans.recv().unwrap());
        assert_eq!((inner.name, outer.name), ("inner", "outer"));
        assert_eq!(
            (outer.trace, outer.parent),
            (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
        );
        assert_eq!((inner.trace, inner.parent), (outer.trace, outer.id));
        assert!(
            outer.is_of_server
                && !inner.is_of_server
                && outer.begins <= inner.begins
                && inner.ends <= outer.ends
        );
        assert_eq!(outer.attributes[0], ("bytes", Value::Int(7)));
        assert_eq!(outer.attributes[1], ("text", Value::Text("é".repeat(128))));
        assert_eq!(outer.attributes[2], ("rows", Value::Int(i64::MAX)));
        assert_eq!(inner.attributes, [("is", Value::Bool(true))]);
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn parents_that_are_none_are_not_used() {
        let zero = format!("00-{}-{}-01", "0".repeat(32), "1".repeat(16));
        for text in
            ["", "00", "00-1-2-3", zero.as_str(), "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
        {
            assert_eq!(caller(text), None, "{text}");
        }
    }
}
