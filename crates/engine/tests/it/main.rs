//! The database from outside: conformance, a model, live readers, other processes, kills, damage, a full disk.

#![allow(missing_docs, reason = "tests")]

mod backup;
mod batches;
mod columns;
mod conformance;
mod damage;
mod full;
mod gate;
mod kill;
mod live;
mod model;
mod process;
mod renaming;
mod repair;
mod replaced;
mod retention;
mod sealing;
mod segments;
mod settings;
mod simulation;
mod storm;
mod support;
mod transient;
mod versions;
