//! The human-readable form of a schema.
