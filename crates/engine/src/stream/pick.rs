//! Picks the messages that watches want out of batches of the log, for a server: each once, for all watches that want the same.

use crate::error::Error;
use crate::stream::Stream;
use crate::wanted::Wanted;
use std::collections::HashMap;
use tapedb_codec::batch::{self, BatchError, BatchHeader, MAX_BATCH_BYTES, PickedBuilder, Rows};
use tapedb_codec::dynamic::Layouts;

/// Picked rows of a group are closed at this many bytes.
const BYTES_MAX: usize = MAX_BATCH_BYTES / 16;

/// A group of watches that want the same messages: see [`Picker::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(u32);

/// Picks messages out of batches, for groups of watches. What a batch costs grows with its rows and with those that are picked, not
/// with the number of groups.
///
/// Always true: a symbol that the stream has is in `by_symbol` exactly if a group wants it by name, as of `renames`.
#[derive(Debug)]
pub struct Picker {
    stream: Stream,
    groups: Vec<Option<Group>>,
    /// Wanted names, and the groups that want them.
    by_name: HashMap<String, Vec<u32>>,
    /// For each symbol 0, or one more than the index of its list in `lists`.
    by_symbol: Vec<u32>,
    lists: Vec<Vec<u32>>,
    /// Groups that want all symbols.
    of_all: Vec<u32>,
    /// How often symbols had been renamed when `by_symbol` was made.
    renames: u64,
    /// Whether `by_symbol` has to be made again.
    is_outdated: bool,
    rows: Rows,
    unfolded: Vec<u8>,
    layouts: HashMap<u16, Option<Layouts>>,
    /// Groups with rows.
    touched: Vec<u32>,
}

#[derive(Debug)]
struct Group {
    wanted: Wanted,
    /// Which types are wanted, of the version that they are of.
    types: Option<Vec<bool>>,
    builder: PickedBuilder,
    /// The version of the rows in the builder.
    schema_version: u16,
    out: Vec<u8>,
    is_touched: bool,
}

impl Stream {
    /// A picker without groups.
    pub fn picker(&self) -> Picker {
        Picker {
            stream: self.clone(),
            groups: Vec::new(),
            by_name: HashMap::new(),
            by_symbol: Vec::new(),
            lists: Vec::new(),
            of_all: Vec::new(),
            renames: 0,
            is_outdated: true,
            rows: Rows::default(),
            unfolded: Vec::new(),
            layouts: HashMap::new(),
            touched: Vec::new(),
        }
    }
}

impl Picker {
    /// Adds a group.
    pub fn add(&mut self, wanted: &Wanted) -> GroupId {
        let most = wanted.types.iter().flatten().max().map_or(0, |most| usize::from(*most) + 1);
        let types = wanted.types.as_ref().map(|wanted| {
            let mut types = vec![false; most];
            wanted.iter().for_each(|id| types[usize::from(*id)] = true);
            types
        });
        let group = Group {
            wanted: wanted.clone(),
            types,
            builder: PickedBuilder::default(),
            schema_version: 0,
            out: Vec::new(),
            is_touched: false,
        };
        let free = self.groups.iter().position(Option::is_none);
        let id = free.unwrap_or(self.groups.len());
        if id == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[id] = Some(group);
        let id = id as u32;
        match &wanted.symbols {
            None => self.of_all.push(id),
            Some(names) => {
                for name in names {
                    let ids = self.by_name.entry(name.clone()).or_default();
                    ids.push(id);
                    ids.dedup();
                }
            }
        }
        self.is_outdated = true;
        GroupId(id)
    }

    /// Removes a group.
    pub fn remove(&mut self, GroupId(id): GroupId) {
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::take) else { return };
        self.of_all.retain(|other| *other != id);
        for name in group.wanted.symbols.iter().flatten() {
            if let Some(ids) = self.by_name.get_mut(name) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        self.is_outdated = true;
    }

    /// Picks out of whole batches, as they lie in the log, the messages from a sequence number on, and calls `take` for each group
    /// that wants some of them, with [picked rows](tapedb_codec::batch::PickedRows).
    ///
    /// # Errors
    /// When a batch is damaged, or its version of the schema cannot be read: then nothing is taken.
    pub fn pick(
        &mut self,
        batches: &[u8],
        from: u64,
        mut take: impl FnMut(GroupId, &[u8]),
    ) -> Result<(), Error> {
        self.look_up();
        let picked = self.pick_all(batches, from);
        for id in std::mem::take(&mut self.touched) {
            let Some(group) = &mut self.groups[id as usize] else { continue };
            group.close();
            group.is_touched = false;
            if picked.is_ok() {
                take(GroupId(id), &group.out);
            }
            group.out.clear();
            group.out.shrink_to(BYTES_MAX / 8);
        }
        picked
    }

    fn pick_all(&mut self, mut batches: &[u8], from: u64) -> Result<(), Error> {
        while !batches.is_empty() {
            let header = BatchHeader::parse_stored(batches).map_err(damaged)?;
            let end = header.batch_bytes().min(batches.len());
            let (batch, rest) = batches.split_at(end);
            batch::check_stored(batch).map_err(damaged)?;
            self.pick_batch(&header, batch, from)?;
            batches = rest;
        }
        Ok(())
    }

    fn pick_batch(&mut self, header: &BatchHeader, batch: &[u8], from: u64) -> Result<(), Error> {
        if header.next_sequence() <= from {
            return Ok(());
        }
        // Most batches have many symbols; one with a single one is not opened where nothing wants that.
        if header.symbol_width == 0 && self.of_all.is_empty() && self.list_of(header.symbol_const) == 0 {
            return Ok(());
        }
        let mut unfolded = std::mem::take(&mut self.unfolded);
        unfolded.clear();
        let bytes = match header.is_columnar() {
            false => {
                self.rows.load_parsed(header, batch).map_err(damaged)?;
                batch
            }
            true => {
                let layouts = self.layouts_of(header.schema_version)?;
                let header = batch::to_rows(header, batch, layouts, &mut unfolded).map_err(damaged)?;
                self.rows.load_parsed(&header, &unfolded).map_err(damaged)?;
                &unfolded
            }
        };
        let Self { groups, rows, by_symbol, lists, of_all, touched, .. } = self;
        let before = from.saturating_sub(header.first_sequence) as usize;
        for (row, symbol) in rows.symbols().iter().enumerate().skip(before) {
            let list = match by_symbol.get(*symbol as usize) {
                None | Some(0) => &[][..],
                Some(list) => &lists[*list as usize - 1],
            };
            for id in list.iter().chain(of_all.iter()) {
                let Some(group) = &mut groups[*id as usize] else { continue };
                let type_id = rows.types()[row];
                if !group.wants_type(header.schema_version, type_id) {
                    continue;
                }
                if !group.is_touched {
                    group.is_touched = true;
                    touched.push(*id);
                }
                let (sequence, place) =
                    (header.first_sequence + row as u64, (rows.times()[row], *symbol, type_id));
                group.push(header.schema_version, sequence, place, &bytes[rows.body(row)]);
            }
        }
        self.unfolded = unfolded;
        self.unfolded.shrink_to(BYTES_MAX);
        Ok(())
    }

    fn list_of(&self, symbol: u32) -> u32 {
        self.by_symbol.get(symbol as usize).copied().unwrap_or(0)
    }

    /// Looks up the ids of wanted names: of new symbols, or all again after renames and changes of the groups.
    fn look_up(&mut self) {
        let dictionary = &self.stream.state.dictionary;
        let (count, renames) = (dictionary.len(), dictionary.renames());
        if self.is_outdated || self.renames != renames {
            (self.is_outdated, self.renames) = (false, renames);
            self.by_symbol.clear();
            self.lists.clear();
        }
        let known = self.by_symbol.len() as u32;
        if known >= count {
            return;
        }
        self.by_symbol.resize(count as usize, 0);
        // Names are fewer than new symbols where one watch of few symbols begins, and more where a symbol is added.
        if self.by_name.len() < (count - known) as usize {
            for (name, ids) in &self.by_name {
                if let Some(id) = dictionary.id(name).filter(|id| (known..count).contains(id)) {
                    self.lists.push(ids.clone());
                    self.by_symbol[id as usize] = self.lists.len() as u32;
                }
            }
        } else {
            for (id, name) in (known..count).zip(dictionary.names_from(known)) {
                if let Some(ids) = self.by_name.get(name) {
                    self.lists.push(ids.clone());
                    self.by_symbol[id as usize] = self.lists.len() as u32;
                }
            }
        }
    }

    /// The layouts of a version of the schema.
    fn layouts_of(&mut self, version: u16) -> Result<&Layouts, Error> {
        let state = &self.stream.state;
        if version == state.definition.schema_version {
            return Ok(&state.layouts);
        }
        let entry = self.layouts.entry(version).or_insert(None);
        if entry.is_none() {
            let current = state.current();
            *entry = Some(match current.schema_version == version {
                true => Layouts::new(current.schema)?,
                false => state.as_of(version)?.layouts,
            });
        }
        entry.as_ref().ok_or_else(|| damaged(BatchError::Magic { have: 0 }))
    }
}

impl Group {
    fn wants_type(&self, schema_version: u16, type_id: u16) -> bool {
        match &self.types {
            Some(types) if self.wanted.schema_version == schema_version => {
                types.get(usize::from(type_id)).copied().unwrap_or(false)
            }
            _ => true,
        }
    }

    fn push(&mut self, schema_version: u16, sequence: u64, place: (i64, u32, u16), body: &[u8]) {
        let is_full = self.builder.payload_bytes() >= BYTES_MAX;
        if (is_full || self.schema_version != schema_version) && !self.builder.is_empty() {
            self.close();
        }
        self.schema_version = schema_version;
        if self.builder.push(sequence, place, body).is_err() {
            self.close();
            // A body that fitted one batch fits another.
            let _ = self.builder.push(sequence, place, body);
        }
    }

    fn close(&mut self) {
        self.builder.finish(self.schema_version, &mut self.out);
    }
}

fn damaged(error: BatchError) -> Error {
    tapedb_log::LogError::Batch(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, StreamOptions};
    use tapedb_codec::batch::PickedRows;
    use tapedb_log::TailPosition;
    use tapedb_schema::Timestamp;

    fn wanted(symbols: &[&str]) -> Wanted {
        Wanted { symbols: Some(symbols.iter().map(ToString::to_string).collect()), ..Wanted::default() }
    }

    /// Sequence numbers and bodies, for each group.
    fn picked(picker: &mut Picker, bytes: &[u8]) -> HashMap<GroupId, Vec<(u64, Vec<u8>)>> {
        let mut found: HashMap<GroupId, Vec<(u64, Vec<u8>)>> = HashMap::new();
        let take = |group, rows: &[u8]| {
            for piece in PickedRows::all(rows).map(Result::unwrap) {
                let mut rows = Rows::default();
                rows.load_parsed(&piece.header, piece.batch).unwrap();
                let of =
                    (0..rows.len()).map(|row| (piece.sequence(row), piece.batch[rows.body(row)].to_vec()));
                found.entry(group).or_default().extend(of);
            }
        };
        picker.pick(bytes, 0, take).unwrap();
        found
    }

    #[test]
    fn each_group_gets_its_messages_once() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("db")).unwrap();
        let schema = "message Tick { price: i64 } message Quote { bid: i64 }".parse().unwrap();
        let stream = db.create_stream("ticks", schema, StreamOptions::default()).unwrap();
        let mut picker = stream.picker();
        let (a, late) = (picker.add(&wanted(&["A"])), picker.add(&wanted(&["Z", "B"])));
        let version = stream.state.definition.schema_version;
        let quotes = picker.add(&Wanted { symbols: None, schema_version: version, types: Some(vec![1]) });
        let gone = picker.add(&wanted(&["A"]));
        picker.remove(gone);
        let mut loader = stream.loader().unwrap();
        let mut position = TailPosition::at(0);
        let mut append = |messages: &[(&str, u16, i64)]| {
            for (symbol, type_id, value) in messages {
                loader.append_body(symbol, Timestamp(*value), *type_id, &value.to_le_bytes()).unwrap();
            }
            loader.flush().unwrap();
            let mut bytes = Vec::new();
            stream.read_tail(0, &mut position, 1 << 20, &mut bytes).unwrap();
            bytes
        };
        let body = |value: i64| value.to_le_bytes().to_vec();
        let first = picked(&mut picker, &append(&[("A", 0, 7), ("C", 0, 8), ("A", 1, 9)]));
        assert_eq!(first[&a], [(0, body(7)), (2, body(9))]);
        assert_eq!((first.get(&late), &first[&quotes][..]), (None, &[(2, body(9))][..]));
        // Symbols that are new after the group was made.
        let second = picked(&mut picker, &append(&[("Z", 0, 1), ("C", 0, 2), ("B", 0, 3)]));
        assert_eq!((second.get(&a), &second[&late][..]), (None, &[(3, body(1)), (5, body(3))][..]));
        stream.rename_symbol("C", "D").unwrap();
        let renamed = picker.add(&wanted(&["D"]));
        let bytes = append(&[("D", 0, 5)]);
        assert_eq!(picked(&mut picker, &bytes)[&renamed], [(6, body(5))]);
        // A damaged batch is no batch without messages.
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        assert!(picker.pick(&flipped, 0, |_, _| panic!("nothing is taken")).is_err());
        assert_eq!(picked(&mut picker, &bytes)[&renamed].len(), 1);
        // A watch may begin within a batch.
        let bytes = append(&[("A", 0, 1), ("D", 0, 2), ("A", 0, 3)]);
        let mut counts = Vec::new();
        let take = |group, rows: &[u8]| counts.extend(PickedRows::headers(rows).map(|it| (group, it.count)));
        picker.pick(&bytes, 8, take).unwrap();
        assert_eq!(counts, [(renamed, 1), (a, 1)]);
        picker.pick(&bytes, 10, |_, _| panic!("all are before it")).unwrap();
    }
}
