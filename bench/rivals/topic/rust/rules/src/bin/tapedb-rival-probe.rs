//! Measures the round trip of a word between the two cores, in nanoseconds, once for each line of stdin.

#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    for _ in std::io::stdin().lines() {
        match tapedb_rival_rules::round_trip_ns() {
            Ok(nanos) => println!("{{\"nanoseconds\": {nanos}}}"),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
