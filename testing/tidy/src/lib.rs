//! Checks of the tree itself, run as tests: `cargo test -p tapedb-tidy`.
//!
//! - [`circles`]: no circle of more than three files in any crate.
//! - [`layers`]: a crate depends only on crates below it on the map in `docs/ARCHITECTURE.md`.
//! - [`links`]: every relative link of every page leads to a file and a heading that exist.
//! - [`paths`]: the files that pages name exist.
//! - [`words`]: comments, texts and pages use the field's words; a list names those that they do not use.
//!
//! Standard library only, so that it compiles in a second.

pub mod circles;
pub mod layers;
pub mod links;
pub mod modules;
pub mod paths;
pub mod source;
pub mod tree;
pub mod words;
