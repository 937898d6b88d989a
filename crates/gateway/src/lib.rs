//! TapeDB for programs that are clients of other databases: [`Postgres`] speaks the protocol of PostgreSQL, over the queries of
//! `tapedb-query`, with the users, rights and limits of the server that it belongs to. `docs/GATEWAYS.md` describes it.

pub mod postgres;

pub use postgres::{Options, Postgres};
