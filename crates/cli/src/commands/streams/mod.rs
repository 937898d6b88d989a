//! Commands on streams as a whole: list, describe, create, alter, rename, delete.

pub mod alter;
pub mod create;
pub mod delete;
pub mod desc;
pub mod list;
pub mod rename;
pub mod settings;
pub mod symbols;
