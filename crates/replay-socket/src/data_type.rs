//! Names of the kinds of messages that a client asks for.

/// Deepest snapshot of a book.
pub(crate) const DEPTH_MAX: usize = 1_000;
/// Longest interval of snapshots, in milliseconds: a day.
const INTERVAL_MS_MAX: u64 = 86_400_000;

/// A kind of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataType {
    Trade,
    BookChange,
    Liquidation,
    Snapshot(SnapshotType),
}

/// The best levels of a book, at intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotType {
    /// As it was asked for.
    pub(crate) name: String,
    pub(crate) depth: usize,
    /// 0: at each change of these levels.
    pub(crate) interval_ms: u64,
}

impl DataType {
    /// The kind of a name; `None`: there is none.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "trade" => Self::Trade,
            "book_change" => Self::BookChange,
            "liquidation" => Self::Liquidation,
            "quote" => Self::Snapshot(SnapshotType { name: name.into(), depth: 1, interval_ms: 0 }),
            _ => {
                let (depth, interval) = match name.strip_prefix("book_snapshot_") {
                    Some(rest) => {
                        let (depth, interval) = rest.split_once('_')?;
                        (whole(depth)? as usize, interval)
                    }
                    None => (1, name.strip_prefix("quote_")?),
                };
                let interval_ms = milliseconds(interval)?;
                if !(1..=DEPTH_MAX).contains(&depth) || interval_ms > INTERVAL_MS_MAX {
                    return None;
                }
                Self::Snapshot(SnapshotType { name: name.into(), depth, interval_ms })
            }
        })
    }
}

/// `100ms`, `10s`, `1m`.
fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(number), ..) => (number, 1),
        (_, Some(number), _) => (number, 1_000),
        (.., Some(number)) => (number, 60_000),
        _ => return None,
    };
    whole(number)?.checked_mul(unit)
}

fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_refused() {
        let snapshot = |name: &str, depth, interval_ms| {
            Some(DataType::Snapshot(SnapshotType { name: name.into(), depth, interval_ms }))
        };
        assert_eq!(DataType::of("trade"), Some(DataType::Trade));
        for (name, depth, interval) in [
            ("quote", 1, 0),
            ("quote_10s", 1, 10_000),
            ("book_snapshot_5_0ms", 5, 0),
            ("book_snapshot_50_100ms", 50, 100),
            ("book_snapshot_1000_2m", 1_000, 120_000),
        ] {
            assert_eq!(DataType::of(name), snapshot(name, depth, interval), "{name}");
        }
        for name in [
            "",
            "trades",
            "trade_bar_1m",
            "quote_",
            "quote_s",
            "book_snapshot_",
            "book_snapshot_5",
            "book_snapshot_0_1s",
            "book_snapshot_1001_1s",
            "book_snapshot_5_1h",
            "book_snapshot_5_-1s",
            "book_snapshot_5_99999999999999999999ms",
            "book_snapshot_5_86400001ms",
            "book_snapshot_+5_1s",
        ] {
            assert_eq!(DataType::of(name), None, "{name}");
        }
    }
}
