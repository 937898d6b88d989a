//! Messages of the sizes that are measured.

use tapedb_codec::Record;

/// A record whose content follows from a number.
pub trait Numbered: Record + Clone + Send + Sync + 'static {
    /// The record.
    fn of(number: u64) -> Self;
    /// The number, from its bytes; `None` when they are not of such a record.
    fn number(body: &[u8]) -> Option<u64>;
}

/// The first and the last eight bytes: the number, and what it is mixed with.
fn ends(body: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*body.first_chunk()?);
    (u64::from_le_bytes(*body.last_chunk()?) == !number).then_some(number)
}

/// 16 bytes.
#[derive(Record, Default, Debug, Clone)]
#[record(message)]
pub struct Body16 {
    /// The number.
    pub number: u64,
    /// Its complement.
    pub check: u64,
}

/// 40 bytes.
#[derive(Record, Default, Debug, Clone)]
#[record(message)]
pub struct Body40 {
    /// The number.
    pub number: u64,
    /// A price.
    pub open: f64,
    /// A price.
    pub close: f64,
    /// A size.
    pub volume: f64,
    /// The number's complement.
    pub check: u64,
}

/// 256 bytes.
#[derive(Record, Default, Debug, Clone)]
#[record(message)]
pub struct Body256 {
    /// One of 32 numbers.
    pub n00: u64,
    /// One of 32 numbers.
    pub n01: u64,
    /// One of 32 numbers.
    pub n02: u64,
    /// One of 32 numbers.
    pub n03: u64,
    /// One of 32 numbers.
    pub n04: u64,
    /// One of 32 numbers.
    pub n05: u64,
    /// One of 32 numbers.
    pub n06: u64,
    /// One of 32 numbers.
    pub n07: u64,
    /// One of 32 numbers.
    pub n08: u64,
    /// One of 32 numbers.
    pub n09: u64,
    /// One of 32 numbers.
    pub n10: u64,
    /// One of 32 numbers.
    pub n11: u64,
    /// One of 32 numbers.
    pub n12: u64,
    /// One of 32 numbers.
    pub n13: u64,
    /// One of 32 numbers.
    pub n14: u64,
    /// One of 32 numbers.
    pub n15: u64,
    /// One of 32 numbers.
    pub n16: u64,
    /// One of 32 numbers.
    pub n17: u64,
    /// One of 32 numbers.
    pub n18: u64,
    /// One of 32 numbers.
    pub n19: u64,
    /// One of 32 numbers.
    pub n20: u64,
    /// One of 32 numbers.
    pub n21: u64,
    /// One of 32 numbers.
    pub n22: u64,
    /// One of 32 numbers.
    pub n23: u64,
    /// One of 32 numbers.
    pub n24: u64,
    /// One of 32 numbers.
    pub n25: u64,
    /// One of 32 numbers.
    pub n26: u64,
    /// One of 32 numbers.
    pub n27: u64,
    /// One of 32 numbers.
    pub n28: u64,
    /// One of 32 numbers.
    pub n29: u64,
    /// One of 32 numbers.
    pub n30: u64,
    /// One of 32 numbers.
    pub n31: u64,
}

impl Numbered for Body16 {
    fn of(number: u64) -> Self {
        Self { number, check: !number }
    }
    fn number(body: &[u8]) -> Option<u64> {
        ends(body)
    }
}

impl Numbered for Body40 {
    #[inline(always)]
    fn of(number: u64) -> Self {
        Self { number, open: 1.5, close: 2.5, volume: 100.0, check: !number }
    }
    #[inline(always)]
    fn number(body: &[u8]) -> Option<u64> {
        ends(body)
    }
}

impl Numbered for Body256 {
    #[inline(always)]
    fn of(number: u64) -> Self {
        Self { n00: number, n31: !number, ..Self::default() }
    }
    #[inline(always)]
    fn number(body: &[u8]) -> Option<u64> {
        ends(body)
    }
}
