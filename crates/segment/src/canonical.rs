//! How bodies are found to be canonical: what encoding would have written. Only these become columns; others stay whole.

/// What finds bodies that are not canonical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Canonicity {
    /// Each body is checked before it is taken apart.
    Checked,
    /// Of records that differ in length, each column is checked: whether its values are what they may be. That costs a quarter as
    /// much as to check bodies. Whatever else is wrong with a body, such as a length, or a null that is not zero, is not in its
    /// columns: so it differs from what they are decoded to, and the proof of the block finds it.
    Proved,
}

/// Bodies are not canonical.
#[derive(Debug)]
pub(crate) struct NotCanonical;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;
    use crate::builder::{BlockBuilder, BlockOptions};
    use crate::decoder::{Decoder, Selection};
    use crate::format::SegmentHeader;
    use crate::plan::Plan;
    use crate::row::RowHeader;
    use crate::rows::Rows;
    use crate::segment::Segment;
    use crate::trials::Random;
    use crate::writer::SegmentWriter;
    use tapedb_codec::dynamic::Layouts;

    const SCHEMA: &str = "enum E { A, B, C }
        record P { flag: bool, price: decimal64, e: E?, code: ascii(3), note: string? }
        record Q { }
        record R { code: ascii(8)?, size: decimal64?, count: u32 }
        message M {
            n: i64?, at: time_of_day, c: char, label: ascii(12), one: record<P>?, some: array<record<P|Q|R>?>,
            grid: array<array<u8>>, names: array<string?>, flags: array<bool?>, last: string
        }";
    const ROWS: usize = 40;

    fn body(layouts: &Layouts, random: &mut Random) -> Vec<u8> {
        let p = |random: &mut Random| {
            let e = random.pick(&["null", r#""A""#, r#""C""#]);
            let note = random.pick(&["null", r#""""#, r#""a note, ä""#]);
            let (flag, cents) = (random.below(2) == 1, random.below(100_000) as i64 - 500);
            let code = random.pick(&["", "x", "xyz"]);
            format!(
                r#"{{"$type": "P", "flag": {flag}, "price": "{cents}.25", "e": {e}, "code": "{code}", "note": {note}}}"#
            )
        };
        let list = |random: &mut Random, most: usize, item: &dyn Fn(&mut Random) -> String| {
            let items: Vec<String> = (0..random.below(most + 1)).map(|_| item(random)).collect();
            format!("[{}]", items.join(", "))
        };
        let some = list(random, 4, &|random| match random.below(4) {
            0 => "null".into(),
            1 => r#"{"$type": "Q"}"#.into(),
            2 => {
                let code = random.pick(&["null", r#""""#, r#""ARCA""#, r#""12345678""#]);
                let size = random.pick(&["null", r#""100""#, r#""0.5""#]);
                format!(r#"{{"$type": "R", "code": {code}, "size": {size}, "count": {}}}"#, random.below(9))
            }
            _ => p(random),
        });
        let grid = list(random, 3, &|random| list(random, 3, &|random| random.below(256).to_string()));
        let names = list(random, 9, &|random| random.pick(&["null", r#""""#, r#""ABC""#]).into());
        let flags = list(random, 12, &|random| random.pick(&["null", "true", "false"]).into());
        let one = if random.below(3) == 0 { "null".into() } else { p(random) };
        let n = random.pick(&["null", "7", "-1"]);
        let text = format!(
            r#"{{"$type": "M", "n": {n}, "at": "09:30:{:02}", "c": "ä", "label": "{}", "one": {one}, "some": {some},
            "grid": {grid}, "names": {names}, "flags": {flags}, "last": "{}"}}"#,
            random.below(60),
            random.pick(&["", "label", "twelve bytes"]),
            random.pick(&["", "the end"]),
        );
        let mut body = Vec::new();
        layouts.encode(&layouts.from_json(&text).unwrap(), &mut body).unwrap();
        body
    }

    /// Changes a body, most often into one that is not canonical.
    fn change(body: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(body.len());
        match random.below(7) {
            _ if body.is_empty() => body.push(0),
            0 => body[at] ^= 1 << random.below(8),
            1 => body[at] = random.pick(&[0, 1, 2, 3, 0x7f, 0x80, 0xff]),
            2 => body.truncate(at),
            3 => body.extend_from_slice(&[0, 0, 0, 0, 1][random.below(5)..]),
            4 => body.insert(at, random.number() as u8),
            5 => drop(body.remove(at)),
            _ => {
                let number = random.pick(&[0, 1, 200, 1 << 20, u32::MAX / 2, u32::MAX - 3, u32::MAX]);
                let end = body.len().min(at + 4);
                body[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
            }
        }
    }

    fn decode(plan: &Plan, bytes: &[u8]) -> Option<(bool, Vec<Vec<u8>>)> {
        let (mut block, mut rows) = (Block::new(), Rows::new());
        block.load(bytes).ok()?;
        let is_whole = block.head().groups[0].is_whole;
        let decoded = Decoder::new().rows(plan, &block, &Selection::default(), &mut rows);
        let bodies = decoded.map(|()| (0..rows.len()).map(|row| rows.body(row).to_vec()).collect());
        Some((is_whole, bodies.unwrap_or_default()))
    }

    #[test]
    fn bodies_that_are_not_canonical_are_found_and_stay_whole() {
        let layouts = Layouts::new(SCHEMA.parse().unwrap()).unwrap();
        let (type_id, _) = layouts.schema().record("M").unwrap();
        let plan = Plan::new(layouts.clone());
        assert!(plan.group(type_id).unwrap().rules_that_are_enough().is_some());
        let (mut found_in_columns, mut found_by_proof, mut canonical) = (0, 0, 0);
        for seed in 0..1_500 {
            let mut random = Random::new(seed);
            let mut bodies: Vec<Vec<u8>> = (0..ROWS).map(|_| body(&layouts, &mut random)).collect();
            for _ in 0..random.pick(&[0, 1, 1, 1, 30]) {
                change(&mut bodies[random.below(ROWS)], &mut random);
            }
            let header =
                |i: usize| RowHeader { time: i as i64, sequence: i as u64, symbol: (i % 3) as u32, type_id };
            let write = |canonicity| {
                let (mut builder, mut bytes) = (BlockBuilder::new(BlockOptions::default()), Vec::new());
                (0..ROWS).for_each(|i| builder.push(header(i), &bodies[i]).unwrap());
                builder.write(&plan, None, canonicity, &mut bytes);
                bytes
            };
            let are_canonical = bodies.iter().all(|body| layouts.check(type_id, body).is_ok());
            let proved = write(Canonicity::Proved);
            match decode(&plan, &proved) {
                Some((false, decoded)) if !are_canonical => {
                    assert!(decoded != bodies, "seed {seed}: nothing is found");
                    found_by_proof += 1;
                }
                Some((is_whole, decoded)) => {
                    assert!(decoded == bodies && is_whole != are_canonical, "seed {seed}");
                    assert!(!are_canonical || proved == write(Canonicity::Checked), "seed {seed}");
                    found_in_columns += u32::from(is_whole);
                    canonical += u32::from(!is_whole);
                }
                None => panic!("seed {seed}: the block has no head"),
            }
            let options = BlockOptions::default();
            let mut writer =
                SegmentWriter::new(Vec::new(), plan.clone(), &SegmentHeader::default(), options).unwrap();
            (0..ROWS).for_each(|i| writer.push(header(i), &bodies[i]).unwrap());
            let (bytes, written) = writer.finish().unwrap();
            assert_eq!((written.blocks, written.mismatches), (1, 0), "seed {seed}");
            let (segment, mut block) = (Segment::open(&bytes[..]).unwrap(), Block::new());
            segment.read_block(0, &mut block).unwrap();
            let (is_whole, decoded) = decode(&plan, block.bytes()).unwrap();
            assert!(decoded == bodies && is_whole != are_canonical, "seed {seed}");
        }
        let found = (found_in_columns, found_by_proof, canonical);
        assert!(found_in_columns > 100 && found_by_proof > 100 && canonical > 100, "{found:?}");
    }
}
