//! History in columns: blocks of messages taken apart by field, compressed, and put together again.

mod encoding;
