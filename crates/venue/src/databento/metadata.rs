//! What stands before the records: the version, and which symbols stand for which numbers. Bytes in, values out.

use super::symbols::Symbols;
use tapedb_schema::Timestamp;

/// Bytes before the metadata: the prefix, the version, the length.
pub(super) const PRELUDE_BYTES: usize = 8;
/// The beginning of a file with metadata.
pub(super) const PREFIX: &[u8; 3] = b"DBN";
/// The beginning of the metadata of files from before this format.
pub(super) const DBZ_PREFIX: &[u8; 3] = b"DBZ";
/// Most bytes of metadata; options of one underlying for a month take 6 MB.
pub(super) const MAX_METADATA_BYTES: usize = 256 << 20;
/// Versions that are read.
pub(super) const VERSIONS: std::ops::RangeInclusive<u8> = 1..=3;

const FIXED_BYTES: usize = 100;
const DBZ_FIXED_BYTES: usize = 96;
const FIRST_SYMBOL_BYTES: usize = 22;
/// The kind of symbols that are numbers of instruments.
const INSTRUMENT_ID: u8 = 0;
const NANOS_PER_DAY: u64 = 86_400_000_000_000;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// The vendor's name of the data.
    pub(super) dataset: String,
    /// Begin of what was asked for.
    pub(super) start: Option<Timestamp>,
    /// Which number stands for which symbol.
    pub(super) symbols: Symbols,
}

/// Why metadata cannot be read.
pub(super) type Reason = &'static str;

impl Metadata {
    /// Metadata of a version, without its prelude.
    pub(super) fn parse(version: u8, bytes: &[u8]) -> Result<Self, Reason> {
        let fixed = bytes.get(..FIXED_BYTES).ok_or("the metadata is cut short")?;
        // Version 1 has a number of records after the limit.
        let kinds = if version == 1 { 50 } else { 42 };
        let width = match version {
            1 => FIRST_SYMBOL_BYTES,
            _ => usize::from(u16::from_le_bytes([fixed[kinds + 3], fixed[kinds + 4]])),
        };
        let mut rest = Rest(&bytes[FIXED_BYTES..]);
        let mut metadata = Self::fixed(fixed)?;
        metadata.read_symbols(&mut rest, width, (fixed[kinds], fixed[kinds + 1]))?;
        Ok(metadata)
    }

    /// The fixed part of the metadata of a file from before this format; the symbols follow compressed, at the returned offset.
    pub(super) fn parse_old(bytes: &[u8]) -> Result<(Self, usize), Reason> {
        let fixed = bytes.get(..DBZ_FIXED_BYTES).ok_or("the metadata is cut short")?;
        Ok((Self::fixed(&fixed[4..])?, DBZ_FIXED_BYTES))
    }

    /// The symbols of a file from before this format, unpacked.
    pub(super) fn read_old_symbols(&mut self, fixed: &[u8], bytes: &[u8]) -> Result<(), Reason> {
        let kinds = fixed.get(55..57).ok_or("the metadata is cut short")?;
        self.read_symbols(&mut Rest(bytes), FIRST_SYMBOL_BYTES, (kinds[0], kinds[1]))
    }

    /// Dataset, schema, start: the same in all versions.
    fn fixed(fixed: &[u8]) -> Result<Self, Reason> {
        let dataset = text(&fixed[..16])?.to_string();
        let start = u64::from_le_bytes(fixed[18..26].try_into().expect("eight bytes"));
        let start = i64::try_from(start).ok().map(Timestamp);
        Ok(Self { dataset, start, symbols: Symbols::default() })
    }

    fn read_symbols(&mut self, rest: &mut Rest<'_>, width: usize, kinds: (u8, u8)) -> Result<(), Reason> {
        if width == 0 {
            return Err("the metadata has symbols of no width");
        }
        if rest.u32()? != 0 {
            return Err("the metadata has a schema definition, which versions 1 to 3 do not define");
        }
        // What was asked for, what was found in part, and what was not.
        for _ in 0..3 {
            let count = rest.u32()?;
            rest.items(count, width)?;
        }
        for _ in 0..rest.u32()? {
            let asked = text(rest.take(width)?)?;
            for _ in 0..rest.u32()? {
                let (start, end) = (day(rest.u32()?)?, day(rest.u32()?)?);
                let found = text(rest.take(width)?)?;
                let pair = match kinds {
                    (_, INSTRUMENT_ID) => Some((found, asked)),
                    (INSTRUMENT_ID, _) => Some((asked, found)),
                    _ => None,
                };
                let Some((number, name)) = pair else { continue };
                // An empty symbol says that there was none on these days.
                let Ok(number) = number.parse() else { continue };
                if !self.symbols.add(number, start, end, name) {
                    return Err("the metadata has more than 4,194,304 symbol mappings");
                }
            }
        }
        Ok(())
    }
}

/// Bytes that are not yet read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Reason> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or("the metadata is cut short, or its counts are wrong")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Reason> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn items(&mut self, count: u32, width: usize) -> Result<&'a [u8], Reason> {
        self.take((count as usize).saturating_mul(width))
    }
}

/// A text up to its first zero.
fn text(bytes: &[u8]) -> Result<&str, Reason> {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..length]).map_err(|_| "the metadata has a symbol that is not UTF-8")
}

/// Midnight of a date written as the number YYYYMMDD.
fn day(date: u32) -> Result<u64, Reason> {
    let (year, month, day) = ((date / 10_000) as i32, date / 100 % 100, date % 100);
    let time = Timestamp::from_date(year, month, day).ok_or("the metadata has a date that does not exist")?;
    Ok(u64::try_from(time.nanos()).unwrap_or(0) / NANOS_PER_DAY * NANOS_PER_DAY)
}
