//! Runs the job that a worker process was started with.

use crate::remote::floor::Floor;
use crate::remote::jobs::{Follow, Load, Read, Serve};
use crate::remote::latency::{Idle, Listen, Pace};
use crate::scale::{Crowd, Feeder};
use crate::tick::roles::Process;
use crate::topic::killed::Subscribe;
use crate::worker::Job;
use serde_json::{Map, Value};
use tapedb_terminal::{Failure, Ui};

/// Runs a job: an object with its name as the only key.
pub fn run(text: &str, ui: &Ui) -> Result<(), Failure> {
    let object: Map<String, Value> = serde_json::from_str(text).map_err(refused)?;
    let (name, job) = object.into_iter().next().ok_or_else(|| refused("it is empty"))?;
    let run = match name.as_str() {
        Serve::NAME => run_as::<Serve>,
        Load::NAME => run_as::<Load>,
        Read::NAME => run_as::<Read>,
        Follow::NAME => run_as::<Follow>,
        Pace::NAME => run_as::<Pace>,
        Idle::NAME => run_as::<Idle>,
        Listen::NAME => run_as::<Listen>,
        Floor::NAME => run_as::<Floor>,
        Crowd::NAME => run_as::<Crowd>,
        Feeder::NAME => run_as::<Feeder>,
        Process::NAME => run_as::<Process>,
        Subscribe::NAME => run_as::<Subscribe>,
        _ => return Err(refused(format!("{name:?} is not known"))),
    };
    run(job, ui)
}

fn run_as<J: Job>(job: Value, ui: &Ui) -> Result<(), Failure> {
    serde_json::from_value::<J>(job).map_err(refused)?.run(ui)
}

fn refused(why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the job of a worker: {why}"))
}
