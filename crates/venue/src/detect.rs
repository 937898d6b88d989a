//! Which format a file is of, by its name and its first bytes.

use crate::container;
use crate::databento::Magic;
use crate::discover::{begins_as, discover, is_named_as};
use crate::error::ImportError;
use crate::{Format, ImportOptions, cme, iex, nasdaq};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders below one given that are searched for a file whose format is known.
const DEPTH: usize = 8;

/// The format of files and folders: of each file the one that its first bytes state or, where these state none, the only one that has
/// such files. Of a folder, files of no format do not count.
///
/// # Errors
/// [`ImportError::WrongFormat`] for a file of no format, or of another than those before it; [`ImportError::NothingFound`] if a folder
/// has no file of any format; [`ImportError::Open`].
pub fn detect<P: AsRef<Path>>(paths: &[P], options: &ImportOptions) -> Result<Format, ImportError> {
    let mut found: Option<(Format, PathBuf)> = None;
    for path in paths.iter().map(AsRef::as_ref) {
        let metadata = fs::metadata(path).map_err(|source| open_error(path, source))?;
        if metadata.is_dir() {
            let before = found.is_some();
            add_folder(path, DEPTH, &mut found)?;
            if found.is_none() && !before {
                let looked_for = "files of a known format; name it with --format";
                return Err(ImportError::NothingFound { path: path.into(), looked_for });
            }
        } else {
            let format = of_file(path)?.or_else(|| accepted(path, options));
            let Some(format) = format else {
                let reason = "no known format; name it with --format".into();
                return Err(ImportError::WrongFormat { path: path.into(), reason });
            };
            add(format, path, &mut found)?;
        }
    }
    found
        .map(|(format, _)| format)
        .ok_or_else(|| ImportError::NothingFound { path: PathBuf::new(), looked_for: "a file or folder" })
}

fn add_folder(folder: &Path, depth: usize, found: &mut Option<(Format, PathBuf)>) -> Result<(), ImportError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = entries.map_err(|source| open_error(folder, source))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(|source| open_error(&path, source))?;
        if kind.is_dir() && depth > 0 {
            add_folder(&path, depth - 1, found)?;
        } else if kind.is_file()
            && let Some(format) = named(&path)
        {
            add(format, &path, found)?;
        }
    }
    Ok(())
}

fn add(format: Format, path: &Path, found: &mut Option<(Format, PathBuf)>) -> Result<(), ImportError> {
    match found {
        None => *found = Some((format, path.to_path_buf())),
        Some((known, other)) if *known != format => {
            let other = other.display();
            let reason =
                format!("of format {format}, but {other} is of format {known}; import them one by one");
            return Err(ImportError::WrongFormat { path: path.into(), reason });
        }
        Some(_) => {}
    }
    Ok(())
}

/// The format that a file's first bytes state.
fn of_file(path: &Path) -> Result<Option<Format>, ImportError> {
    Ok(match Magic::of_file(path)? {
        Magic::Plain | Magic::Old => Some(Format::Dbn),
        // Other formats may be compressed with zstd too: the name decides.
        Magic::Zstd => named(path),
        // Names of captures do not say of which feed they are.
        Magic::Other if nasdaq::is_captured(path) => Some(Format::Itch),
        Magic::Other if iex::is_captured(path) => Some(Format::Iex),
        Magic::Other if cme::is_captured(path) => Some(Format::Mdp3),
        Magic::Other => begun(path)?.or_else(|| named(path)),
    })
}

/// The format that a text's first bytes state.
fn begun(path: &Path) -> Result<Option<Format>, ImportError> {
    let head = container::head(path)?;
    let formats = [Format::Tardis, Format::CoinbaseSnapshot, Format::Capture, Format::BinanceRawWs];
    Ok(formats.into_iter().find(|format| begins_as(*format, &head)))
}

/// The format that a file's name is of; of a zip file, the names of its members.
fn named(path: &Path) -> Option<Format> {
    let mut named = Format::ALL.into_iter().filter(|format| is_named_as(*format, path));
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) {
        return named.find(|format| has_members(*format, path));
    }
    named.next()
}

fn has_members(format: Format, path: &Path) -> bool {
    !matches!(discover(format, &[path], &ImportOptions::default()), Err(ImportError::WrongFormat { .. }))
}

/// The only format that a file is accepted as; its name alone does not say it.
fn accepted(path: &Path, options: &ImportOptions) -> Option<Format> {
    // Binary formats show in names or first bytes, and would accept what is of none.
    let text = Format::ALL
        .into_iter()
        .filter(|format| !matches!(format, Format::Dbn | Format::Itch | Format::Iex | Format::Mdp3));
    let mut accepted = text.filter(|format| {
        !matches!(discover(*format, &[path], options), Err(ImportError::WrongFormat { .. }))
    });
    let first = accepted.next()?;
    accepted.next().is_none().then_some(first)
}

fn open_error(path: &Path, source: std::io::Error) -> ImportError {
    ImportError::Open { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_tell_the_format_whatever_the_name() {
        let folder = tempfile::tempdir().unwrap();
        for (format, text) in [
            (Format::Tardis, "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"),
            (Format::CoinbaseSnapshot, "{\"product\":\"BTC-USD\",\"level\":2,\"captured_at\""),
            (Format::Capture, "wss://ws.kraken.com <-> 1618678132.368463\n"),
        ] {
            for name in ["day.txt", "usdm-btcusdt_20240808.gz"] {
                let path = folder.path().join(name);
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
                let packed = packed.finish().unwrap();
                fs::write(&path, if name.ends_with(".gz") { &packed } else { text.as_bytes() }).unwrap();
                assert_eq!(detect(&[&path], &ImportOptions::default()).unwrap(), format);
            }
        }
        let zip_of_bybit = folder.path().join("xrpusdt-ob500.data.zip");
        let mut zip = zip::ZipWriter::new(fs::File::create(&zip_of_bybit).unwrap());
        zip.start_file("2024-12-01_XRPUSDT_ob500.data", zip::write::SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        assert_eq!(detect(&[&zip_of_bybit], &ImportOptions::default()).unwrap(), Format::BybitOb);
    }

    #[test]
    fn bytes_and_names_tell_the_format() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let of = |paths: &[&PathBuf]| detect(paths, &ImportOptions::default());
        let dbn = file("day.bin", b"DBN\x03\0\0\0\0\0\0\0\0");
        assert_eq!(of(&[&dbn]).unwrap(), Format::Dbn);
        assert_eq!(of(&[&file("a.dbn.zst", &[0x28, 0xB5, 0x2F, 0xFD])]).unwrap(), Format::Dbn);
        let binance = file("usdm-btcusdt_20240808.gz", b"\x1f\x8b");
        assert_eq!(of(&[&binance]).unwrap(), Format::BinanceRawWs);
        let error = of(&[&binance, &dbn]).unwrap_err().to_string();
        assert!(error.contains("import them one by one"), "{error}");
        // The name has a date, as files of ITCH have; what the zip holds decides.
        let quotes = folder.path().join("aig-20131007.zip");
        let mut zip = zip::ZipWriter::new(fs::File::create(&quotes).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file("20131007_aig_Quote_Tick.csv", options).unwrap();
        zip.finish().unwrap();
        assert_eq!(of(&[&quotes]).unwrap(), Format::UsEquityTicks);
        let error = of(&[&file("notes.txt", b"hello")]).unwrap_err().to_string();
        assert!(error.ends_with("no known format; name it with --format"), "{error}");
        let error = detect(&[folder.path()], &ImportOptions::default()).unwrap_err().to_string();
        assert!(error.contains("one by one"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        assert!(detect(&[empty.path()], &ImportOptions::default()).is_err());
    }
}
