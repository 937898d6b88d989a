//! The cases of `tapedb bench codec` under Divan, one lap over a message's variants an iteration:
//! `cargo bench -p tapedb-bench --bench codec -- book.compiled`. The items a second are operations.

use divan::Bencher;
use divan::counter::ItemsCount;
use tapedb_bench::codec::cases::{names, subjects, subjects_with};

fn main() {
    for subject in subjects() {
        subject.prove().unwrap_or_else(|what| panic!("{what}"));
        println!("{}: {} bytes, checksum {:#x}", subject.name, subject.bytes, subject.checksum);
    }
    divan::main();
}

#[divan::bench(args = names())]
fn codec(bencher: Bencher<'_, '_>, name: &str) {
    let mut cases = subjects_with(|case| case == name).into_iter().flat_map(|subject| subject.cases);
    let mut case = cases.next().expect("one of the names");
    let operations = ItemsCount::new(case.operations);
    bencher.counter(operations).bench_local(|| case.run(1).unwrap_or_else(|what| panic!("{what}")));
}
