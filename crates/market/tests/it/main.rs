//! Importers: files of every format, and the recorded data where it is at hand.

mod import_files;
mod real_data;
