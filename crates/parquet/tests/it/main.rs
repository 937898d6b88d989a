//! Parquet files out of streams and into streams, and files of others.

mod files;
mod hostile;
mod pages;
mod python;
mod round_trip;
mod support;
