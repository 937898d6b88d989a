//! Golden vectors, fuzz targets over their corpus, pages, hostile bytes, and blocks against the reference decoder.

mod acceptance;
mod columns;
// The library builds from its C sources on these platforms only.
#[cfg(all(
    any(target_os = "linux", target_os = "macos"),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod decimal_oracle;
mod frozen_database;
mod hostile;
mod message_page;
mod schema_text;
mod segment_blocks;
mod segment_files;
mod segment_page;
mod segment_selected;
mod segment_trials;
mod targets;
mod vectors;
mod versions;
