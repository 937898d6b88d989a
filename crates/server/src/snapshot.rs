//! A snapshot of the server: its streams, clients and warnings. The metrics page and the status are two forms of it.
//!
//! Always true: at most [`ROWS_MAX`] streams and as many clients have rows of their own; the others are summed up in
//! one row, so sums are complete and pages are bounded.

use crate::handle::ConnectionHandle;
use crate::metrics_page::MetricsPage;
use crate::state::ServerState;
use crate::traffic::{Counts, OTHER, Sums, Traffic};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tapedb_engine::{Census, Stream};

/// Streams with rows of their own, in order of their names; the same number of clients, the oldest connections first.
pub(crate) const ROWS_MAX: usize = 200;

/// A live cursor that lags by more messages than this is a warning.
pub(crate) const LAG_WARNING: u64 = 1_000_000;
/// More unsealed log files than this are a warning.
pub(crate) const FILES_WARNING: u64 = 16;

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Plain {
            batches: u64,
            messages: u64,
            bytes: u64,
        }
        let Self { batches, messages, bytes } = *self;
        Plain { batches, messages, bytes }.serialize(serializer)
    }
}

/// A stream, or the sum of all further ones.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct StreamRow {
    pub name: String,
    /// Number of streams in the row.
    pub streams: u64,
    /// Messages in files, including deleted ones that are still stored.
    pub messages: u64,
    pub sealed_messages: u64,
    pub segments: u64,
    pub segment_bytes: u64,
    pub log_messages: u64,
    pub log_bytes: u64,
    pub files_waiting: u64,
    pub deletions_waiting: u64,
    pub symbols: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_bytes: Option<u64>,
    /// Through the server, since it started.
    pub appended: Counts,
    pub delivered: Counts,
    /// Live cursors.
    pub watches: u64,
    /// Messages that the slowest of them has not been sent.
    pub lag_messages_max: u64,
    /// Why sealing or merging fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A client, or the sum of all further ones.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ClientRow {
    /// The connection's number; empty in the row of further ones.
    pub connection: String,
    /// Number of connections in the row.
    pub connections: u64,
    pub user: String,
    pub address: String,
    /// The program's name, as the client reports it.
    pub program: String,
    pub connected_seconds: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub appended: Counts,
    pub delivered: Counts,
    pub watches: u64,
    /// Messages that its live cursors have not been sent.
    pub lag_messages: u64,
    /// Unsent bytes.
    pub waiting_bytes: u64,
}

/// The snapshot.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub streams: Vec<StreamRow>,
    pub clients: Vec<ClientRow>,
    /// Through the server, since it started.
    pub total: Traffic,
    /// Live cursors.
    pub watches: u64,
    /// Of all clients, including disconnected ones.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Open connections.
    pub connections: usize,
    /// Streams whose sealing or merging fails, and streams that cannot be opened.
    pub failures: usize,
}

impl Snapshot {
    /// Takes a snapshot of the streams and clients that are visible.
    pub fn take(server: &ServerState, visibility: &Visibility<'_>) -> Self {
        let sums = server.traffic.sums();
        let handles = server.handles();
        let (mut streams, gone) = streams(server, &sums, &handles);
        let failures = streams.iter().filter(|stream| stream.failure.is_some()).count();
        streams.retain(|stream| (visibility.stream)(&stream.name));
        let gone = if (visibility.stream)(OTHER) { gone } else { Traffic::default() };
        let mut clients: Vec<ClientRow> = handles.iter().map(|handle| client(handle, &sums)).collect();
        let (mut received_bytes, mut sent_bytes) =
            (server.metrics.bytes_received.get(), server.metrics.bytes_sent.get());
        for client in &clients {
            received_bytes += client.received_bytes;
            sent_bytes += client.sent_bytes;
        }
        let watches = clients.iter().map(|client| client.watches).sum();
        let connections = clients.len();
        clients.retain(|client| (visibility.connection)(&client.connection));
        let (streams, clients) = (fold_streams(streams, gone), fold_clients(clients));
        Self {
            streams,
            clients,
            total: sums.total,
            watches,
            received_bytes,
            sent_bytes,
            connections,
            failures,
        }
    }

    /// Problems that need attention.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for StreamRow { name, failure, lag_messages_max, files_waiting, .. } in &self.streams {
            if let Some(failure) = failure {
                warnings.push(format!("stream {name:?}: maintenance fails: {failure}"));
            }
            if *lag_messages_max > LAG_WARNING {
                warnings
                    .push(format!("stream {name:?}: a live cursor is {lag_messages_max} messages behind"));
            }
            if *files_waiting > FILES_WARNING {
                warnings.push(format!("stream {name:?}: {files_waiting} log files wait to be sealed"));
            }
        }
        warnings
    }

    /// Adds it to a metrics page.
    pub fn write(&self, page: &mut MetricsPage) {
        let Traffic { appended, delivered } = self.total;
        page.counter("appends", "Batches that were appended.", appended.batches);
        page.counter("append_messages", "Messages that were appended.", appended.messages);
        page.counter("append_bytes", "Bytes of batches that were appended.", appended.bytes);
        page.counter("push_messages", "Messages of live batches.", delivered.messages);
        page.counter("push_bytes", "Bytes of live batches.", delivered.bytes);
        page.counter(
            "received_bytes",
            "Bytes received from clients, encrypted where they are.",
            self.received_bytes,
        );
        page.counter("sent_bytes", "Bytes sent to clients, encrypted where they are.", self.sent_bytes);
        page.gauge("connections", "Connections now.", self.connections);
        page.gauge("watches", "Live cursors now.", self.watches);
        page.gauge("maintenance_failures", "Streams whose sealing or merging fails.", self.failures);
        self.write_streams(page);
        self.write_clients(page);
    }

    fn write_streams(&self, page: &mut MetricsPage) {
        type Value = fn(&StreamRow) -> u64;
        let counters: [(&str, &str, Value); 5] = [
            ("stream_appended_batches", "Batches that were appended to a stream.", |row| {
                row.appended.batches
            }),
            ("stream_appended_messages", "Messages that were appended to a stream.", |row| {
                row.appended.messages
            }),
            ("stream_appended_bytes", "Bytes of batches that were appended to a stream.", |row| {
                row.appended.bytes
            }),
            ("stream_delivered_messages", "Messages pushed to live cursors of a stream.", |row| {
                row.delivered.messages
            }),
            ("stream_delivered_bytes", "Bytes pushed to live cursors of a stream.", |row| {
                row.delivered.bytes
            }),
        ];
        for (name, help, value) in counters {
            page.counters(name, help);
            let name = format!("{name}_total");
            self.streams.iter().for_each(|row| page.line(&name, &[("stream", &row.name)], value(row)));
        }
        let gauges: [(&str, &str, Value); 12] = [
            ("stream_messages", "Messages that a stream holds.", |row| row.messages),
            ("stream_sealed_messages", "Messages of a stream in segments.", |row| row.sealed_messages),
            ("stream_segments", "Segments of a stream.", |row| row.segments),
            ("stream_segment_bytes", "Bytes of a stream's segments.", |row| row.segment_bytes),
            ("stream_log_messages", "Messages of a stream in log files.", |row| row.log_messages),
            ("stream_log_bytes", "Bytes of a stream's batches in log files.", |row| row.log_bytes),
            ("stream_files_waiting", "Log files of a stream that wait to be sealed.", |row| {
                row.files_waiting
            }),
            ("stream_deletions_waiting", "Deletions that wait to be carried out in files.", |row| {
                row.deletions_waiting
            }),
            ("stream_symbols", "Symbols of a stream.", |row| row.symbols),
            ("stream_watches", "Live cursors of a stream.", |row| row.watches),
            (
                "watch_lag_messages_max",
                "Messages that the slowest live cursor of a stream has not been sent.",
                |row| row.lag_messages_max,
            ),
            ("stream_maintenance_failing", "1 where sealing or merging fails.", |row| {
                row.failure.is_some().into()
            }),
        ];
        for (name, help, value) in gauges {
            page.gauges(name, help);
            self.streams.iter().for_each(|row| page.line(name, &[("stream", &row.name)], value(row)));
        }
        page.gauges(
            "stream_retention_seconds",
            "Age up to which messages of a stream are retained, if it is limited.",
        );
        for row in &self.streams {
            if let Some(seconds) = row.retention_seconds {
                page.line("stream_retention_seconds", &[("stream", &row.name)], seconds);
            }
        }
        page.gauges(
            "stream_retention_bytes",
            "Bytes up to which messages of a stream are retained, if they are limited.",
        );
        for row in &self.streams {
            if let Some(bytes) = row.retention_bytes {
                page.line("stream_retention_bytes", &[("stream", &row.name)], bytes);
            }
        }
    }

    fn write_clients(&self, page: &mut MetricsPage) {
        type Value = fn(&ClientRow) -> u64;
        let counters: [(&str, &str, Value); 6] = [
            ("connection_received_bytes", "Bytes received from a client.", |row| row.received_bytes),
            ("connection_sent_bytes", "Bytes sent to a client.", |row| row.sent_bytes),
            ("connection_appended_messages", "Messages that a client appended.", |row| row.appended.messages),
            ("connection_appended_bytes", "Bytes of batches that a client appended.", |row| {
                row.appended.bytes
            }),
            ("connection_delivered_messages", "Messages pushed to a client.", |row| row.delivered.messages),
            ("connection_delivered_bytes", "Bytes of batches pushed to a client.", |row| row.delivered.bytes),
        ];
        let gauges: [(&str, &str, Value); 3] = [
            ("connection_waiting_bytes", "Bytes that wait to be taken by a client.", |row| row.waiting_bytes),
            ("connection_lag_messages", "Messages that a client's live cursors have not been sent.", |row| {
                row.lag_messages
            }),
            ("connection_watches", "Live cursors of a client.", |row| row.watches),
        ];
        for (name, help, value) in counters {
            page.counters(name, help);
            write_rows(page, &self.clients, &format!("{name}_total"), value);
        }
        for (name, help, value) in gauges {
            page.gauges(name, help);
            write_rows(page, &self.clients, name, value);
        }
    }
}

fn write_rows(page: &mut MetricsPage, rows: &[ClientRow], name: &str, value: fn(&ClientRow) -> u64) {
    for row in rows {
        let ClientRow { connection, user, address, .. } = row;
        let labels = [("connection", &**connection), ("user", user), ("address", address)];
        page.line(name, &labels, value(row));
    }
}

/// What a user may see.
pub(crate) struct Visibility<'a> {
    pub stream: &'a dyn Fn(&str) -> bool,
    /// By the connection's number.
    pub connection: &'a dyn Fn(&str) -> bool,
}

impl Visibility<'_> {
    /// Everything.
    pub const ALL: Visibility<'static> = Visibility { stream: &|_| true, connection: &|_| true };
}

/// Rows of all streams, in order of their names; and the traffic of removed streams.
fn streams(
    server: &ServerState,
    sums: &Sums,
    handles: &[Arc<ConnectionHandle>],
) -> (Vec<StreamRow>, Traffic) {
    let mut rows: BTreeMap<String, StreamRow> = BTreeMap::new();
    for name in server.db.streams().unwrap_or_default() {
        let row = match server.db.stream(&name) {
            Ok(stream) => stream_row(&stream),
            Err(tapedb_engine::Error::NotFound(tapedb_engine::NotFound::Stream { .. })) => continue,
            Err(error) => StreamRow { failure: Some(error.to_string()), ..StreamRow::default() },
        };
        rows.insert(name.clone(), StreamRow { name, streams: 1, ..row });
    }
    let mut gone = Traffic::default();
    for (name, traffic) in &sums.by_stream {
        match rows.get_mut(name) {
            Some(row) => row.add_traffic(*traffic),
            None => gone += *traffic,
        }
    }
    for watch in handles.iter().flat_map(|handle| handle.watches()) {
        if let Some(row) = rows.get_mut(watch.stream_name()) {
            row.watches += 1;
            row.lag_messages_max = row.lag_messages_max.max(watch.lag());
        }
    }
    (rows.into_values().collect(), gone)
}

fn stream_row(stream: &Stream) -> StreamRow {
    let Census {
        sealed_messages,
        segments,
        segment_bytes,
        log_messages,
        log_bytes,
        files_waiting,
        deletions_waiting,
        symbols,
        ..
    } = stream.census().unwrap_or_default();
    let retention = stream.options().retention;
    StreamRow {
        messages: sealed_messages + log_messages,
        sealed_messages,
        segments,
        segment_bytes,
        log_messages,
        log_bytes,
        files_waiting,
        deletions_waiting,
        symbols: symbols.into(),
        retention_seconds: retention.age.as_ref().map(Duration::as_secs_f64),
        retention_bytes: retention.bytes,
        failure: stream.maintenance_failure(),
        ..StreamRow::default()
    }
}

fn client(handle: &Arc<ConnectionHandle>, sums: &Sums) -> ClientRow {
    let mut traffic = handle.traffic.ended();
    traffic += sums.by_connection.get(&handle.id).copied().unwrap_or_default();
    let watches = handle.watches();
    ClientRow {
        connection: handle.id.to_string(),
        connections: 1,
        user: handle.user().into(),
        address: handle.peer.to_string(),
        program: handle.program.get().cloned().unwrap_or_default(),
        connected_seconds: handle.since.elapsed().as_secs(),
        received_bytes: handle.received.load(Ordering::Relaxed),
        sent_bytes: handle.send_buffer.written(),
        appended: traffic.appended,
        delivered: traffic.delivered,
        watches: watches.len() as u64,
        lag_messages: watches.iter().map(|watch| watch.lag()).sum(),
        waiting_bytes: handle.send_buffer.waiting() as u64,
    }
}

/// Sums up the rows above the limit, and the traffic of removed streams.
fn fold_streams(rows: Vec<StreamRow>, gone: Traffic) -> Vec<StreamRow> {
    // A stream with the name of the summary row is part of it.
    let (mut kept, mut others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.name != OTHER);
    others.extend(kept.split_off(kept.len().min(ROWS_MAX)));
    let mut other = StreamRow { name: OTHER.into(), ..StreamRow::default() };
    other.add_traffic(gone);
    others.iter().for_each(|row| other.add(row));
    let is_there = !others.is_empty() || gone != Traffic::default();
    kept.extend(is_there.then_some(other));
    kept
}

fn fold_clients(mut rows: Vec<ClientRow>) -> Vec<ClientRow> {
    let others = rows.split_off(rows.len().min(ROWS_MAX));
    if !others.is_empty() {
        let mut other = ClientRow { user: OTHER.into(), ..ClientRow::default() };
        others.iter().for_each(|row| other.add(row));
        rows.push(other);
    }
    rows
}

impl StreamRow {
    fn add_traffic(&mut self, traffic: Traffic) {
        self.appended += traffic.appended;
        self.delivered += traffic.delivered;
    }

    fn add(&mut self, row: &Self) {
        self.streams += row.streams;
        self.messages += row.messages;
        self.sealed_messages += row.sealed_messages;
        self.segments += row.segments;
        self.segment_bytes += row.segment_bytes;
        self.log_messages += row.log_messages;
        self.log_bytes += row.log_bytes;
        self.files_waiting += row.files_waiting;
        self.deletions_waiting += row.deletions_waiting;
        self.symbols += row.symbols;
        self.appended += row.appended;
        self.delivered += row.delivered;
        self.watches += row.watches;
        self.lag_messages_max = self.lag_messages_max.max(row.lag_messages_max);
        self.failure = self.failure.take().or_else(|| row.failure.clone());
    }
}

impl ClientRow {
    fn add(&mut self, row: &Self) {
        self.connections += row.connections;
        self.received_bytes += row.received_bytes;
        self.sent_bytes += row.sent_bytes;
        self.appended += row.appended;
        self.delivered += row.delivered;
        self.watches += row.watches;
        self.lag_messages += row.lag_messages;
        self.waiting_bytes += row.waiting_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(messages: u64) -> Counts {
        Counts { batches: 1, messages, bytes: messages * 10 }
    }

    #[test]
    fn further_rows_are_summed_up_and_sums_are_complete() {
        let row = |i: usize| StreamRow {
            name: format!("s{i:04}"),
            streams: 1,
            messages: i as u64,
            appended: counts(1),
            lag_messages_max: i as u64,
            retention_bytes: Some(7),
            ..StreamRow::default()
        };
        let mut rows: Vec<StreamRow> = (0..ROWS_MAX + 50).map(row).collect();
        rows.push(StreamRow { name: OTHER.into(), ..row(3) });
        let gone = Traffic { appended: counts(5), delivered: counts(9) };
        let folded = fold_streams(rows, gone);
        assert_eq!(folded.len(), ROWS_MAX + 1);
        let other = folded.last().unwrap();
        assert_eq!((&*other.name, other.streams, other.retention_bytes), (OTHER, 51, None));
        assert_eq!((other.appended.messages, other.delivered.messages), (51 + 5, 9));
        assert_eq!(other.lag_messages_max, ROWS_MAX as u64 + 49);
        let sum: u64 = folded.iter().map(|row| row.appended.messages).sum();
        assert_eq!(sum, ROWS_MAX as u64 + 51 + 5);
        assert!(fold_streams(Vec::new(), Traffic::default()).is_empty());

        let client = |i: usize| ClientRow {
            connection: i.to_string(),
            connections: 1,
            sent_bytes: 2,
            ..ClientRow::default()
        };
        let folded = fold_clients((0..ROWS_MAX + 3).map(client).collect());
        let other = folded.last().unwrap();
        assert_eq!((folded.len(), other.connections, other.sent_bytes), (ROWS_MAX + 1, 3, 6));
        assert_eq!(fold_clients((0..ROWS_MAX).map(client).collect()).len(), ROWS_MAX);
    }
}
