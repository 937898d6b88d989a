//! Importers: files of every format, and the recorded data where it is at hand.

mod books;
#[cfg(feature = "zstd")]
mod dbn_data;
mod import_files;
mod itch;
mod real_data;
