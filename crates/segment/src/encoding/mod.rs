//! How one column of values lies in bytes.
