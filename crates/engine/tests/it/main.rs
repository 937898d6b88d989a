//! The public API of the database: conformance, a model, live readers, other processes, kills, damage, a full disk.

#![allow(missing_docs, reason = "tests")]
#![allow(clippy::duplicate_mod, reason = "the suite runs in more than one place")]

mod backup;
mod batches;
mod child;
mod chosen_rows;
mod closed;
mod counting;
mod damage;
mod elsewhere;
mod files;
mod full;
mod gate;
mod here;
mod interrupted;
mod kill;
mod killed_columns;
mod last;
mod locking;
mod loopback;
mod memory;
mod objects;
mod process;
mod renaming;
mod repair;
mod replaced;
mod resume;
mod retention;
mod rewrite;
mod sealing;
mod sealing_threads;
mod segments;
mod settings;
mod simulation;
mod starts;
mod storm;
mod strands;
mod support;
mod symbols;
mod transient;
mod trap;
mod unconverted;
mod untrusted;
mod verifying;
