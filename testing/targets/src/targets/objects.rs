//! What is read from an object store besides segments: records of streams, and feet.

use crate::Target;
use crate::sample::SplitMix64;

/// See the module.
pub const TARGET: Target = Target { name: "objects", run, seed };

/// Nothing panics, and a record that is taken makes a stream or an error.
pub fn run(input: &[u8]) {
    tapedb_engine::read_hostile_object(input);
}

/// Facts of a stream, as the body of a record.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let mut below = |limit: u64| random.next_u64() % limit;
    let definition = "tapedb-stream 1\nchecksum 00000000\nid 0000000000000001\ncreated 2026-03-01T08:00:00Z\nrevision 3\n\
                      durability async\nlate accept\nfile_bytes_max 1048576\nspaces 1\nretention_age none\nretention_bytes none\n\
                      seal_after 1h\ncold_after none\noffload_to s3://bucket/prefix\noffload_after 7d\nschema 1\n\nmessage M {\n    n: u64,\n}\n";
    let (head, body) = definition.split_at(definition.find("id ").unwrap_or(0));
    let checksum = format!("{:08x}", tapedb_codec::bytes::crc32c(body.as_bytes()));
    let definition = head.replace("00000000", &checksum) + body;
    let mut text = "+name\tbars%0A\n".to_string();
    for (i, line) in definition.split('\n').enumerate() {
        text.push_str(&format!("+definition {i:06}\t{line}\n"));
    }
    let (first, messages) = (below(3) * 10, 1 + below(10));
    let end = first + messages;
    text.push_str(&format!(
        "+space 000 stream\t{:016x}\n+space 000 space\t0\n+space 000 generation\t{}\n",
        1,
        below(99)
    ));
    text.push_str(&format!("+space 000 sealed\t{end}\n+space 000 next\t9\n"));
    if first > 0 {
        text.push_str(&format!("+space 000 part {:020}\t0 {first}\n", 0));
    }
    text.push_str(&format!(
        "+space 000 part {first:020}\t{first} {end} 5 {messages} 17 99 4096 hot 4 object 2b6c9f30a1d4e857\n"
    ));
    text.push_str(&format!("+space 000 delete {:020}\t6 20 30 0 {end} *\n", 6));
    for id in 0..below(4) {
        text.push_str(&format!("+symbol {id:010}\tS{id}\n"));
    }
    text.push_str("-symbol 0000000009\n");
    text.into_bytes()
}
