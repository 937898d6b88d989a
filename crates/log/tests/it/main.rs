//! The log from outside: crashes, damage, groups of writers, readers, symbols, golden files, all storages alike.

mod crash;
mod damage;
mod end;
mod group;
mod reading;
mod resent;
mod storage;
mod support;
mod symbols;
mod taken_back;
mod vectors;
