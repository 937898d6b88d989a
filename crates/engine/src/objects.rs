//! The object tier: sealed segments that have become old, as objects of a store elsewhere.
//!
//! A store is a trait, [`ObjectStore`]: this crate has no socket. Stores are found by the scheme of a URL: `file://` (a folder) is here,
//! others are added with [`register_object_store`]. What the engine does with a store:
//!
//! - [`crate::maintenance::offload`] copies a segment, reads the copy back, records it in the manifest and only then removes the file.
//! - [`file`] reads such a segment as if it was a file: its index and the heads of its blocks are kept beside the manifest
//!   ([`foot`]), the rest comes in chunks of 8 MiB ([`chunks`]), some of them ahead, through a cache on the disk ([`cache`]).
//! - [`record`] describes a stream in the store, so that a database can be read from its store alone.
//!
//! Always true: an object never changes, for it is only created where there is none, and its name has the checksum of its content. An object
//! that a manifest names is removed by nothing: see [`crate::maintenance::sweep`].

pub(crate) mod cache;
pub(crate) mod chunks;
pub(crate) mod counts;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod foot;
pub(crate) mod keys;
pub(crate) mod record;
pub(crate) mod store;
pub(crate) mod tier;
pub(crate) mod url;
