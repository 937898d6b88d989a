//! Files of venues and vendors as messages: streaming, in time order, in bounded memory.
//!
//! [`discover`] finds the files of a [`Format`], [`SourceFile::open`] reads one as a [`Source`], [`Merge`] reads many in time order;
//! [`detect`] finds out the format, [`Merge`] documents memory and file handles. What becomes of each format is in `docs/IMPORT.md`.
//!
//! One folder for each vendor or venue; what they share lies beside the folders. This crate has no stream, no socket and no clock of
//! its own; it prints nothing.
//!
//! ```no_run
//! use tapedb_venue::{AnyRecord, Format, ImportOptions, Merge, discover};
//! let files = discover(Format::UsEquityTicks, &["us-equity-ticks"], &ImportOptions::default())?;
//! let (mut merge, mut record) = (Merge::new(files), AnyRecord::default());
//! while let Some(row) = merge.next(&mut record)? {
//!     println!("{} {} {}", row.time, row.symbol, record.type_name());
//! }
//! # Ok::<(), tapedb_venue::ImportError>(())
//! ```

mod algoseek;
mod binance;
mod bitfinex;
mod bitmex;
mod bitstamp;
mod bybit;
mod capture;
mod clock;
mod cme;
mod coinbase;
mod container;
mod databento;
mod deribit;
mod detect;
mod discover;
mod error;
mod fields;
mod format;
mod frame_parser;
mod frames;
mod futures;
mod fx;
mod gate;
mod huobi;
mod iex;
mod kraken;
mod kraken_futures;
mod kucoin;
mod lines;
mod lobster;
mod merge;
mod nasdaq;
mod okx;
mod options;
mod pcap;
mod record;
mod source;
mod table;
mod tardis;
mod venues;
mod window;

pub use container::MAX_MEMBERS;
pub use detect::detect;
pub use discover::{MAX_FOLDER_DEPTH, SourceFile, discover};
pub use error::{ImportError, LineLocation, MAX_EXCERPT_BYTES};
pub use format::{Format, UnknownFormat};
pub use frame_parser::{FrameError, FrameParser, MAX_FRAME_BYTES};
pub use frames::messages::Message;
pub use fx::FxProvider;
pub use lines::MAX_LINE_BYTES;
pub use merge::{Merge, MergedRow};
pub use options::{ImportOptions, OnBadLine};
pub use record::{AnyRecord, Visitor};
pub use source::{Counters, MAX_SYMBOL_BYTES, MAX_UNKNOWN_KINDS, RowHeader, Source};
pub use table::{
    ROWS_LOOKED_AT, TableFile, TableOptions, TableRow, TableRows, TableSymbol, find_tables, infer_schema,
};
pub use tardis::exchange_code;
pub use venues::Venue;
