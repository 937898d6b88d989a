//! Importers: files of every format, and the recorded data where it is at hand.

mod books;
mod captures;
mod crypto;
#[cfg(feature = "zstd")]
mod dbn_data;
mod iex;
mod import_files;
mod itch;
mod mdp3;
mod real_data;
