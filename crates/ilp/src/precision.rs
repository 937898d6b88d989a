//! Units of timestamps.

/// The unit of timestamps that have no suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// `n`, `ns`.
    #[default]
    Nanoseconds,
    /// `u`, `us`, `µ`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
    /// `m`.
    Minutes,
    /// `h`.
    Hours,
}

impl Precision {
    /// The unit that the parameter `precision` of a request names; `None`: there is no such unit.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "" | "n" | "ns" => Self::Nanoseconds,
            "u" | "us" | "µ" | "µs" => Self::Microseconds,
            "ms" => Self::Milliseconds,
            "s" => Self::Seconds,
            "m" => Self::Minutes,
            "h" => Self::Hours,
            _ => return None,
        })
    }

    /// Nanoseconds of one unit.
    pub fn nanoseconds(self) -> i64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Minutes => 60_000_000_000,
            Self::Hours => 3_600_000_000_000,
        }
    }
}
