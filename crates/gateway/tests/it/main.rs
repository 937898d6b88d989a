//! Clients of PostgreSQL: real ones, where they are on the machine, and bytes that no client sends.

mod bytes;
mod clients;
mod fixture;
mod sessions;
