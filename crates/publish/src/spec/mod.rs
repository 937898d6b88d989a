//! The parts of Iceberg's table format, version 2, that publishing needs: metadata, schemas, manifests, and the files of Avro that these
//! are in. Bytes in, values out: nothing here reads or writes a file.
//!
//! What others write is read by the numbers of its fields, and what of it is not understood stays as it is.

pub(crate) mod avro;
pub(crate) mod manifest;
pub(crate) mod metadata;
