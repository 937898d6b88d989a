//! Plants, RDBs and HDBs together, in one process and over the network.

#![allow(missing_docs, reason = "tests")]

mod days;
mod effect;
mod handover;
mod kdb;
mod kdb_clients;
mod order;
mod over;
mod power;
mod shapes;
mod support;
mod updates;
mod widened;
