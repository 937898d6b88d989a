//! Clients of PostgreSQL: real ones, where they are on the machine, and bytes that no client sends.

mod bytes;
mod clients;
mod copies;
mod dashboard;
mod fixture;
mod sessions;
