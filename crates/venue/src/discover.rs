//! Which files to import, and the content of their names.

use super::container::{self, Member};
use super::error::ImportError;
use super::format::Format;
use super::options::{ImportOptions, OnBadLine};
use super::source::{LineParser, Source, TextSource};
use super::{
    algoseek, binance, bybit, capture, cme, coinbase, databento, futures, fx, iex, lobster, nasdaq, pcap,
    tardis,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tapedb_schema::Timestamp;

/// Deepest folder below one given.
pub const MAX_FOLDER_DEPTH: usize = 64;

/// A file, or a member of a zip file, that can be imported.
#[derive(Debug, Clone)]
pub struct SourceFile {
    path: PathBuf,
    member: Option<Member>,
    bytes: u64,
    detail: Detail,
    on_bad_line: OnBadLine,
}

#[derive(Debug, Clone)]
enum Detail {
    UsEquity(algoseek::Day),
    Fx(fx::Day),
    Binance(binance::Capture),
    Dbn(databento::DbnFile),
    Lobster(lobster::Day),
    Futures(futures::Day),
    Itch(nasdaq::ItchFile),
    /// A capture, whose packets have the dates.
    Iex,
    /// As before.
    Mdp3,
    Tardis(tardis::TardisFile),
    /// Whether long numbers are rounded, as in the following.
    Bybit(bool),
    Coinbase(bool),
    Capture(capture::Capture),
}

impl SourceFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The member of the zip file.
    pub fn member(&self) -> Option<&str> {
        self.member.as_ref().map(|member| member.name.as_str())
    }

    /// Compressed bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// No row is before this, by the names; [`Timestamp::MIN`] without a date in them, as with HistData.
    pub fn not_before(&self) -> Timestamp {
        match &self.detail {
            Detail::UsEquity(day) => day.start(),
            Detail::Fx(day) => day.start(),
            Detail::Binance(capture) => capture.start(),
            Detail::Dbn(file) => file.start(),
            Detail::Lobster(day) => day.start(),
            Detail::Futures(day) => day.start(),
            Detail::Itch(file) => file.start(),
            Detail::Iex | Detail::Mdp3 => Timestamp::MIN,
            Detail::Tardis(_) | Detail::Bybit(_) | Detail::Coinbase(_) | Detail::Capture(_) => Timestamp::MIN,
        }
    }

    /// Opens it at its first row. Takes about 200 KiB of memory, more only where lines are longer than 64 KiB.
    ///
    /// # Errors
    /// [`ImportError::Open`].
    pub fn open(&self) -> Result<Box<dyn Source>, ImportError> {
        match &self.detail {
            Detail::UsEquity(day) => self.open_with(day.parser()),
            Detail::Fx(day) => self.open_with(day.parser()),
            Detail::Binance(capture) => self.open_with(capture.parser()),
            Detail::Dbn(file) => file.open(&self.path, self.bytes, self.on_bad_line),
            Detail::Lobster(day) => self.open_with(day.parser()),
            Detail::Futures(day) => self.open_with(day.parser()),
            Detail::Itch(file) => file.open(&self.path, self.bytes, self.on_bad_line),
            Detail::Iex => iex::open(&self.path, self.bytes, self.on_bad_line),
            Detail::Mdp3 => cme::open(&self.path, self.bytes, self.on_bad_line),
            Detail::Tardis(file) => self.open_with(file.parser()),
            Detail::Bybit(round) => self.open_with(bybit::Archive::new(&self.path, *round)),
            Detail::Capture(capture) => self.open_with(capture.parser()),
            Detail::Coinbase(round) => {
                let opened = self.unpacked()?;
                let (path, bytes) = (self.path.clone(), self.bytes);
                Ok(Box::new(coinbase::snapshot::SnapshotSource::new(opened, path, bytes, *round)))
            }
        }
    }

    fn unpacked(&self) -> Result<container::Opened, ImportError> {
        match &self.member {
            Some(member) => container::open_member(&self.path, member),
            None if is_gzip(&self.path) => container::open_gzip(&self.path),
            None => container::open_plain(&self.path),
        }
    }

    fn open_with<P: LineParser + 'static>(&self, parser: P) -> Result<Box<dyn Source>, ImportError> {
        let opened = self.unpacked()?;
        let names = (self.path.clone(), self.member.as_ref().map(|member| member.name.clone()));
        Ok(Box::new(TextSource::new(parser, opened, names, self.bytes, self.on_bad_line)))
    }
}

/// Finds the files of a format among files and, recursively, folders; each given path in turn, folders sorted by name.
///
/// Of a folder, only files that are named and built as in the format are imported; symbolic links below it are not
/// followed. A file that is given has to be of the format.
///
/// # Errors
/// [`ImportError::NothingFound`] if a folder holds none, [`ImportError::WrongFormat`] for a file that is none,
/// [`ImportError::NeedsOption`], [`ImportError::Open`].
pub fn discover<P: AsRef<Path>>(
    format: Format,
    paths: &[P],
    options: &ImportOptions,
) -> Result<Vec<SourceFile>, ImportError> {
    let mut found = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let before = found.len();
        if !metadata(path)?.is_dir() {
            add_file(format, path, options, &mut found)?;
        } else {
            walk(format, path, options, 0, &mut found)?;
        }
        if found.len() == before {
            return Err(nothing(format, path, metadata(path)?.is_dir()));
        }
    }
    Ok(found)
}

fn nothing(format: Format, path: &Path, folder: bool) -> ImportError {
    let (path, looked_for) = (path.to_path_buf(), format.looked_for());
    match folder {
        true => ImportError::NothingFound { path, looked_for },
        false => ImportError::WrongFormat {
            path,
            reason: format!("not a file of {format}: expected {looked_for}"),
        },
    }
}

fn walk(
    format: Format,
    folder: &Path,
    options: &ImportOptions,
    depth: usize,
    found: &mut Vec<SourceFile>,
) -> Result<(), ImportError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|source| ImportError::Open { path: folder.to_path_buf(), source })?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(|source| ImportError::Open { path: path.clone(), source })?;
        if kind.is_dir() && depth < MAX_FOLDER_DEPTH {
            walk(format, &path, options, depth + 1, found)?;
        } else if kind.is_file() && is_named_as(format, &path) {
            add_file(format, &path, options, found)?;
        }
    }
    Ok(())
}

/// Whether a file in a folder may be one of the format.
pub(super) fn is_named_as(format: Format, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let dated = name.len() > 8 && name.as_bytes()[..8].iter().all(u8::is_ascii_digit);
    let dated_zip = dated && name.ends_with(".zip");
    match format {
        Format::UsEquityTicks => dated_zip && (name.contains("quote") || name.contains("trade")),
        Format::FxTicks => fx::Day::is_histdata(path) || (dated_zip && name.contains("quote")),
        Format::BinanceRawWs => binance::Capture::is_named_so(path),
        Format::Dbn => databento::is_named_so(&name),
        Format::Lobster => lobster::Day::of_path(path).is_some(),
        Format::Itch => {
            nasdaq::is_named_so(&name) || (pcap::is_capture_named(path) && nasdaq::is_captured(path))
        }
        Format::Iex => pcap::is_capture_named(path) && iex::is_captured(path),
        Format::Mdp3 => pcap::is_capture_named(path) && cme::is_captured(path),
        Format::FuturesTicks => {
            dated_zip && ["trade", "quote", "openinterest"].iter().any(|kind| name.contains(kind))
        }
        Format::Tardis => tardis::is_named_so(&name),
        Format::BybitOb => name.ends_with(".data.zip") || bybit::Archive::is_named_so(&name),
        Format::CoinbaseSnapshot => coinbase::snapshot::is_named_so(&name),
        Format::Capture => capture::Capture::is_named_so(path),
    }
}

/// Whether a text with these first bytes is one of the format; `false` for formats whose texts do not show it.
pub(super) fn begins_as(format: Format, head: &[u8]) -> bool {
    match format {
        Format::Tardis => tardis::begins_so(head),
        Format::CoinbaseSnapshot => coinbase::snapshot::begins_so(head),
        Format::Capture => capture::Capture::begins_so(head),
        Format::BinanceRawWs => binance::Capture::begins_so(head),
        _ => false,
    }
}

/// What is to be known of a text that is recognised by its first bytes, or of a capture by its venue's name.
fn begun(format: Format, path: &Path, options: &ImportOptions) -> Result<Option<Detail>, ImportError> {
    let begins = begins_as(format, &container::head(path)?);
    let round = options.round_numbers;
    Ok(match format {
        Format::Tardis if begins => Some(Detail::Tardis(tardis::TardisFile::of_path(path, round))),
        Format::CoinbaseSnapshot if begins => Some(Detail::Coinbase(round)),
        Format::Capture if begins || capture::Capture::is_named_so(path) => {
            Some(Detail::Capture(capture::Capture::of_path(path, options)))
        }
        _ => None,
    })
}

/// Adds the file, or those members of a zip that are of the format: none if it is of another.
fn add_file(
    format: Format,
    path: &Path,
    options: &ImportOptions,
    found: &mut Vec<SourceFile>,
) -> Result<(), ImportError> {
    let gzip = is_gzip(path);
    let mut add = |member: Option<Member>, bytes, detail| {
        let (path, on_bad_line) = (path.to_path_buf(), options.on_bad_line);
        found.push(SourceFile { path, member, bytes, detail, on_bad_line });
    };
    match format {
        Format::BinanceRawWs if gzip || begins_as(format, &container::head(path)?) => {
            add(None, metadata(path)?.len(), Detail::Binance(binance::Capture::of_path(path, options)));
        }
        Format::Dbn => {
            if let Some(file) = databento::DbnFile::of_path(path) {
                add(None, metadata(path)?.len(), Detail::Dbn(file));
            }
        }
        Format::Itch => {
            if let Some(file) = nasdaq::ItchFile::of_path(path) {
                add(None, metadata(path)?.len(), Detail::Itch(file));
            }
        }
        Format::Iex if iex::is_captured(path) => add(None, metadata(path)?.len(), Detail::Iex),
        Format::Mdp3 if cme::is_captured(path) => add(None, metadata(path)?.len(), Detail::Mdp3),
        Format::Tardis | Format::CoinbaseSnapshot | Format::Capture => {
            if let Some(detail) = begun(format, path, options)? {
                add(None, metadata(path)?.len(), detail);
            }
        }
        Format::BybitOb if !is_zip(path) => {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if bybit::Archive::is_named_so(name) {
                add(None, metadata(path)?.len(), Detail::Bybit(options.round_numbers));
            }
        }
        Format::FxTicks if gzip || (!is_zip(path) && fx::Day::is_histdata(path)) => {
            add(None, metadata(path)?.len(), Detail::Fx(fx::Day::of_histdata(path, options)?));
        }
        Format::Lobster => {
            if let Some(day) = lobster::Day::of_path(path) {
                add(None, metadata(path)?.len(), Detail::Lobster(day));
            }
        }
        Format::UsEquityTicks | Format::FxTicks | Format::FuturesTicks | Format::BybitOb if !gzip => {
            for member in container::members(path)? {
                if let Some(detail) = member_detail(format, path, &member.name, options)? {
                    add(Some(member.clone()), member.compressed_bytes, detail);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn member_detail(
    format: Format,
    path: &Path,
    name: &str,
    options: &ImportOptions,
) -> Result<Option<Detail>, ImportError> {
    Ok(match format {
        Format::UsEquityTicks => algoseek::Day::of_member(name).map(Detail::UsEquity),
        Format::FxTicks if fx::Day::is_histdata_member(name) => {
            let name = name.rsplit('/').next().unwrap_or(name);
            Some(Detail::Fx(fx::Day::of_histdata(&path.with_file_name(name), options)?))
        }
        Format::FxTicks => fx::Day::of_member(path, name, options)?.map(Detail::Fx),
        Format::FuturesTicks => futures::Day::of_member(name).map(Detail::Futures),
        Format::BybitOb => bybit::Archive::is_named_so(name).then_some(Detail::Bybit(options.round_numbers)),
        _ => None,
    })
}

fn is_zip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

fn metadata(path: &Path) -> Result<fs::Metadata, ImportError> {
    fs::metadata(path).map_err(|source| ImportError::Open { path: path.to_path_buf(), source })
}
