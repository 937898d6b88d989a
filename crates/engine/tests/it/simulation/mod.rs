//! The whole database on a disk that breaks: one program at work ([`world`]), stopped in every operation of the disk, and
//! every operation of the disk failing. What was acknowledged is there ([`ledger`]), in order and once; what was deleted
//! stays so; and work goes on.
//!
//! `SIM_SEEDS=n` takes n seeds, from `SIM_SEED` on, and breaks every operation; `SIM_OPERATION` breaks one alone. A failure
//! prints what repeats it. `make sim` runs for long.

mod ledger;
mod world;

use crate::support::{Random, mix};
use std::io::ErrorKind;
use tapedb_log::sim::{SimStorage, Stop};
use world::World;

/// Calls of the program before it is stopped for good, and after it was stopped.
const STEPS: usize = 30;
const STEPS_AFTER: usize = 8;
/// Without `SIM_SEEDS` so many operations of one seed are broken, evenly spread, each time others.
const STOPS: u64 = 500;

/// What the disk does in one of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process dies in it.
    Stop(Stop),
    /// It fails, and a few calls later the process is stopped.
    Fail(ErrorKind),
}

/// Tells how to repeat what failed.
struct Repeat(u64, Option<Fault>, u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed, fault, operation) = self;
            eprintln!("repeat with SIM_SEED={seed} SIM_OPERATION={operation}: {fault:?}");
        }
    }
}

/// What a run came to.
struct Ran {
    /// Operations of the disk, up to the first stop.
    operations: u64,
    /// Errors that were seen.
    errors: u32,
    /// Parts of history that segments were merged into.
    merged: usize,
}

/// Runs the program once.
fn run(seed: u64, fault: Option<Fault>, operation: u64) -> Ran {
    let _repeat = Repeat(seed, fault, operation);
    let chance = mix(seed ^ mix(operation));
    let disk = SimStorage::new(chance);
    match fault {
        Some(Fault::Stop(_)) => disk.crash_at(operation),
        Some(Fault::Fail(kind)) => disk.fail_at(operation, kind),
        None => {}
    }
    let mut world = World::new(seed, disk.clone(), matches!(fault, Some(Fault::Fail(_))));
    let mut left = (chance >> 8) % 12;
    for _ in 0..STEPS {
        if world.step().is_err() || world.errors > 0 && left == 0 {
            break;
        }
        left = left.saturating_sub(world.errors.into());
    }
    let any = if chance.is_multiple_of(2) { Stop::Kill } else { Stop::Power };
    world.stop(if let Some(Fault::Stop(stop)) = fault { stop } else { any });
    world.check_all();
    let (operations, merged) = (disk.operations(), world.merged_parts());
    for _ in 0..STEPS_AFTER {
        assert!(world.step().is_ok(), "nobody stopped it");
    }
    world.stop(if chance & 4 == 0 { Stop::Kill } else { Stop::Power });
    world.check_all();
    Ran { operations, errors: world.errors, merged }
}

fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Runs with a fault in every operation.
fn everywhere(fault: Fault) {
    let seed = given("SIM_SEED").unwrap_or_else(|| 1 + Random::new().next() % 1_000_000);
    if let Some(operation) = given("SIM_OPERATION") {
        run(seed, Some(fault), operation);
        return;
    }
    for seed in seed..seed + given("SIM_SEEDS").unwrap_or(1) {
        let operations = run(seed, None, 0).operations;
        let step = if given("SIM_SEEDS").is_some() { 1 } else { 1 + operations / STOPS };
        let broken = (1 + mix(seed) % step..=operations).step_by(step as usize);
        let ran: Vec<Ran> = broken.map(|operation| run(seed, Some(fault), operation)).collect();
        let errors: usize = ran.iter().map(|ran| ran.errors as usize).sum();
        if let Fault::Fail(_) = fault {
            assert!(errors > ran.len() / 2, "seed {seed}: {errors} errors in {} runs", ran.len());
        }
    }
}

#[test]
fn the_program_does_all_there_is_to_do() {
    let calm: Vec<Ran> = (1..=6).map(|seed| run(seed, None, 0)).collect();
    assert!(calm.iter().all(|ran| ran.operations > 300 && ran.errors == 0));
    assert!(calm.iter().map(|ran| ran.merged).sum::<usize>() > 3, "it must merge");
}

#[test]
fn killed_anywhere_it_has_all_that_was_acknowledged() {
    everywhere(Fault::Stop(Stop::Kill));
}

#[test]
fn after_a_power_cut_anywhere_it_has_all_that_was_on_the_disk() {
    everywhere(Fault::Stop(Stop::Power));
}

#[test]
fn a_full_disk_anywhere_is_told_and_loses_nothing() {
    everywhere(Fault::Fail(ErrorKind::StorageFull));
}

#[test]
fn a_failing_disk_anywhere_is_told_and_loses_nothing() {
    everywhere(Fault::Fail(ErrorKind::Other));
}
