//! Symbol files, opened on a disk in memory.

use crate::Target;
use crate::sample::SplitMix64;
use std::path::Path;
use tapedb_log::sim::SimStorage;
use tapedb_log::{Durability, SymbolFile};

/// See the module.
pub const TARGET: Target = Target { name: "symbols_file", run, seed };

const STREAM: u64 = 7;
const PATH: &str = "/symbols";

/// A file that opens takes another name, and gives every name back.
pub fn run(input: &[u8]) {
    let disk = SimStorage::new(1);
    disk.set_content(Path::new(PATH), input);
    let Ok((mut file, recovery)) = SymbolFile::open_rw(&disk, Path::new(PATH), STREAM, Durability::Async)
    else {
        return;
    };
    assert_eq!(file.dictionary().len(), recovery.symbols);
    let known = file.append(&["a name that is new"]).is_err();
    let names: Vec<String> = file.dictionary().names_from(0).map(str::to_owned).collect();
    assert!(known || names.len() == recovery.symbols as usize + 1);
    let (again, found) = SymbolFile::open_read(&disk, Path::new(PATH), STREAM).expect("it was open");
    assert_eq!(found.damaged, recovery.damaged);
    assert!(again.dictionary().names_from(0).eq(names.iter().map(String::as_str)));
}

fn seed(number: u64) -> Vec<u8> {
    let disk = SimStorage::new(number);
    let opened = SymbolFile::open_rw(&disk, Path::new(PATH), STREAM, Durability::Async);
    let (mut file, _) = opened.expect("a new file opens");
    let mut random = SplitMix64::new(number);
    for i in 0..random.below(8) {
        let name = format!("{i}{}", "é".repeat(random.below(30)));
        file.append(&[name.as_str()]).expect("room enough");
    }
    disk.content(Path::new(PATH)).expect("the file is there")
}
