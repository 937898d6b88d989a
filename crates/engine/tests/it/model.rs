//! Random operations on a database, and the same on a list: both must give the same answers.

use super::place::{Home, WORLDS, new_database};
use crate::support::*;
use std::time::Duration;
use tapedb_engine::{
    Cursor, CursorBuilder, Database, Error, Invalid, Loader, Position, StreamOptions, forced,
};
use tapedb_schema::Timestamp;

const STREAMS: [&str; 3] = ["s0", "s1", "s2"];
const SYMBOLS: [&str; 5] = ["A", "B", "C", "D", "É"];
const TYPES: [&str; 2] = ["Tick", "Quote"];

#[derive(Debug, Clone, Copy)]
struct Row {
    time: i64,
    symbol: usize,
    number: u64,
    /// Deleted rows stay in the list, so that it is as long as the log.
    deleted: bool,
}

impl Row {
    fn type_of(self) -> usize {
        usize::from(self.number.is_multiple_of(3))
    }
}

/// A loader, and the messages that it has not flushed yet.
struct Writer {
    stream: usize,
    loader: Loader,
    pending: Vec<Row>,
}

/// A live cursor and what it is still to return, by stream.
struct Live {
    query: Query,
    cursor: Cursor,
    /// By stream of the query: what is left of history, and the sequence number from which it is live.
    left: Vec<(Vec<u64>, usize)>,
}

#[derive(Debug, Clone)]
struct Query {
    streams: Vec<usize>,
    from: i64,
    to: i64,
    symbols: Option<Vec<usize>>,
    types: Option<usize>,
    reversed: bool,
}

struct World {
    random: Random,
    home: Home,
    db: Option<Database>,
    writers: Vec<Writer>,
    /// By stream, in order of arrival: what has been flushed.
    stored: Vec<Vec<Row>>,
    live: Vec<Live>,
    next_number: u64,
    time: i64,
    /// The current names of symbols, in all streams.
    names: Vec<String>,
}

impl Query {
    fn random(random: &mut Random, now: i64) -> Self {
        let mut streams: Vec<usize> = (0..STREAMS.len()).filter(|_| random.chance(2)).collect();
        if streams.is_empty() {
            streams.push(random.below(STREAMS.len()));
        }
        let mut time =
            |open: i64| if random.chance(2) { open } else { (random.next() % now.max(1) as u64) as i64 };
        let (from, to) = (time(i64::MIN), time(i64::MAX));
        let symbols = random.chance(3).then(|| vec![random.below(5), random.below(5)]);
        let types = random.chance(3).then(|| random.below(2));
        Self { streams, from, to, symbols, types, reversed: random.chance(3) }
    }

    fn on(&self, world: &World) -> CursorBuilder {
        self.in_db(world.db(), &world.names)
    }

    fn in_db(&self, db: &Database, names: &[String]) -> CursorBuilder {
        let mut builder = db.cursor(self.streams.iter().map(|&s| STREAMS[s])).unwrap();
        if self.from > i64::MIN {
            builder = builder.from(Timestamp(self.from));
        }
        if self.to < i64::MAX {
            builder = builder.to(Timestamp(self.to));
        }
        if let Some(symbols) = &self.symbols {
            builder = builder.symbols(symbols.iter().map(|&s| &*names[s]));
        }
        if let Some(types) = self.types {
            builder = builder.types([TYPES[types]]);
        }
        if self.reversed { builder.reverse() } else { builder }
    }

    fn wants(&self, row: &Row) -> bool {
        let in_time = row.time >= self.from && (self.to == i64::MAX || row.time < self.to);
        let symbol = self.symbols.as_ref().is_none_or(|symbols| symbols.contains(&row.symbol));
        in_time && symbol && !row.deleted && self.types.is_none_or(|types| types == row.type_of())
    }

    /// What is wanted of one stream's history, in order, with its times.
    fn history_of(&self, rows: &[Row]) -> Vec<(i64, u64)> {
        let mut wanted: Vec<_> = rows.iter().filter(|row| self.wants(row)).collect();
        wanted.sort_by_key(|row| row.time);
        if self.reversed {
            wanted.reverse();
        }
        wanted.iter().map(|row| (row.time, row.number)).collect()
    }

    fn history(&self, stored: &[Vec<Row>]) -> Vec<u64> {
        let mut all = Vec::new();
        for (place, &stream) in self.streams.iter().enumerate() {
            for (nth, (time, number)) in self.history_of(&stored[stream]).into_iter().enumerate() {
                all.push(((if self.reversed { !time } else { time }, place, nth), number));
            }
        }
        // Backwards, equal times come in the reverse order of the streams.
        all.sort_by_key(|((time, place, nth), _)| {
            (*time, if self.reversed { STREAMS.len() - place } else { *place }, *nth)
        });
        all.into_iter().map(|(_, number)| number).collect()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut home = Home::new();
        let db = home.open();
        let mut random = Random::from_seed(seed);
        for name in STREAMS {
            let file_bytes_max = [2 << 10, 40 << 10, 1 << 30][random.below(3)];
            let options = StreamOptions { file_bytes_max, ..StreamOptions::default() };
            db.create_stream(name, schema(), options).unwrap();
        }
        let stored = vec![Vec::new(); STREAMS.len()];
        Self {
            random,
            home,
            db: Some(db),
            writers: Vec::new(),
            stored,
            live: Vec::new(),
            next_number: 0,
            time: 0,
            names: SYMBOLS.map(String::from).into(),
        }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    fn step(&mut self) {
        match self.random.below(27) {
            0..8 => self.append(),
            8..11 => self.flush(),
            11..14 => self.check_query(),
            14..16 => self.open_live(),
            16..19 => self.read_live(),
            19..21 => self.seal(),
            21 => self.delete(),
            22 => self.purge(),
            23 => self.alter(),
            24 => self.rename_symbol(),
            25 => self.rewrite(),
            _ => self.reopen(),
        }
    }

    fn append(&mut self) {
        if self.writers.len() < 4 {
            let stream = self.random.below(STREAMS.len());
            let mut loader = self.db().stream(STREAMS[stream]).unwrap().loader().unwrap();
            if self.random.chance(2) {
                loader.set_batch_bytes(1 << 10);
            }
            self.writers.push(Writer { stream, loader, pending: Vec::new() });
        }
        let at = self.random.below(self.writers.len());
        let count = *self.random.pick(&[1, 3, 20, 200]);
        if self.random.chance(3) {
            return self.append_columns(at, count);
        }
        for _ in 0..count {
            self.append_one(at);
        }
    }

    /// Appends messages of one type at once.
    fn append_columns(&mut self, at: usize, count: usize) {
        let (type_of, mut rows) = (self.random.below(2), Vec::new());
        while rows.len() < count {
            let row = self.new_row();
            if row.type_of() == type_of {
                rows.push(row);
            }
        }
        let named = rows.iter().map(|row| (row.time, &*self.names[row.symbol], row.number));
        let columns = Columns::of(named);
        let writer = &mut self.writers[at];
        let appended = match type_of {
            0 => columns.append_ticks(&mut writer.loader),
            _ => columns.append_quotes(&mut writer.loader),
        };
        assert_eq!(appended.unwrap(), count);
        writer.pending.append(&mut rows);
        let written = writer.pending.len() - writer.loader.unsent();
        self.stored[writer.stream].extend(writer.pending.drain(..written));
    }

    fn new_row(&mut self) -> Row {
        self.time += (self.random.next() % 3) as i64;
        let late = if self.random.chance(50) { self.random.next() as i64 % 200 } else { 0 };
        let row = Row {
            time: self.time - late.abs(),
            symbol: self.random.below(SYMBOLS.len()),
            number: self.next_number,
            deleted: false,
        };
        self.next_number += 1;
        row
    }

    fn append_one(&mut self, at: usize) {
        let row = self.new_row();
        let (symbol, time) = (&*self.names[row.symbol], Timestamp(row.time));
        let writer = &mut self.writers[at];
        match row.type_of() {
            0 => writer.loader.append(symbol, time, &Tick::of(row.number)).unwrap(),
            _ => writer.loader.append(symbol, time, &Quote::of(row.number)).unwrap(),
        }
        if writer.loader.unsent() <= writer.pending.len() {
            self.stored[writer.stream].append(&mut writer.pending);
        }
        writer.pending.push(row);
        assert_eq!(writer.loader.unsent(), writer.pending.len());
    }

    fn flush(&mut self) {
        if self.writers.is_empty() {
            return;
        }
        let at = self.random.below(self.writers.len());
        let writer = &mut self.writers[at];
        let had = writer.pending.len();
        self.stored[writer.stream].append(&mut writer.pending);
        let next = writer.loader.flush().unwrap();
        assert!(had == 0 || next == self.stored[writer.stream].len() as u64);
        if self.random.chance(3) {
            self.writers.swap_remove(at);
        }
    }

    fn seal(&mut self) {
        let stream = self.random.below(STREAMS.len());
        let stream = self.db().stream(STREAMS[stream]).unwrap();
        match self.random.chance(2) {
            true => forced::in_strands(strands(&mut self.random), || stream.seal()),
            false => stream.seal(),
        }
        .unwrap();
    }

    /// Deletes a range of times of some symbols. Running cursors need not notice.
    fn delete(&mut self) {
        let stream = self.random.below(STREAMS.len());
        let from = (self.random.next() % self.time.max(1) as u64) as i64;
        let to = from + (self.random.next() % 40) as i64;
        let symbols: Vec<usize> = (0..SYMBOLS.len()).filter(|_| self.random.chance(2)).collect();
        let names: Vec<String> = symbols.iter().map(|&symbol| self.names[symbol].clone()).collect();
        let deleted = self.db().stream(STREAMS[stream]).unwrap();
        deleted.delete(Timestamp(from)..Timestamp(to), Some(names)).unwrap();
        for row in &mut self.stored[stream] {
            row.deleted |= (from..to).contains(&row.time) && symbols.contains(&row.symbol);
        }
    }

    /// Deletes messages before a time, mostly a small part.
    fn purge(&mut self) {
        let stream = self.random.below(STREAMS.len());
        let times = self.stored[stream].iter().filter(|row| !row.deleted).map(|row| row.time);
        let Some(first) = times.min() else { return };
        let before = first + (self.random.next() % 20) as i64;
        self.db().stream(STREAMS[stream]).unwrap().purge(Timestamp(before)).unwrap();
        for row in &mut self.stored[stream] {
            row.deleted |= row.time < before;
        }
    }

    /// Changes options of files, without purging messages.
    fn alter(&mut self) {
        let name = STREAMS[self.random.below(STREAMS.len())];
        let stream = self.db().stream(name).unwrap();
        let mut age = || self.random.chance(2).then(|| Duration::from_nanos(self.random.next() % 100));
        let (seal_after, cold_after) = (age(), age());
        let file_bytes_max = *self.random.pick(&[2 << 10, 40 << 10]);
        stream.alter(StreamOptions { seal_after, cold_after, file_bytes_max, ..stream.options() }).unwrap();
    }

    /// Replaces a range of times of some symbols, or of all, by other messages.
    fn rewrite(&mut self) {
        let stream = self.random.below(STREAMS.len());
        let from = (self.random.next() % self.time.max(1) as u64) as i64;
        let to = from + (self.random.next() % 40) as i64;
        let all: Vec<usize> = (0..SYMBOLS.len()).collect();
        let some: Vec<usize> = all.iter().copied().filter(|_| self.random.chance(2)).collect();
        let is_some = self.random.chance(2) && !some.is_empty();
        let symbols = if is_some { some } else { all };
        let names: Vec<String> = symbols.iter().map(|&symbol| self.names[symbol].clone()).collect();
        let handle = self.db().stream(STREAMS[stream]).unwrap();
        let times = Timestamp(from)..Timestamp(to);
        let mut rewriter = match handle.rewrite(times, is_some.then_some(names)) {
            // Remote: the process with the files rewrites.
            Err(Error::Invalid(Invalid::Options { what })) if what.contains("through a server") => return,
            rewriter => rewriter.unwrap(),
        };
        let count = if from < to { self.random.below(30) } else { 0 };
        let mut new = Vec::new();
        for _ in 0..count {
            let time = from + (self.random.next() % (to - from) as u64) as i64;
            let row =
                Row { time, symbol: *self.random.pick(&symbols), number: self.next_number, deleted: false };
            self.next_number += 1;
            let (symbol, time) = (&*self.names[row.symbol], Timestamp(time));
            match row.type_of() {
                0 => rewriter.append(symbol, time, &Tick::of(row.number)).unwrap(),
                _ => rewriter.append(symbol, time, &Quote::of(row.number)).unwrap(),
            }
            new.push(row);
        }
        let first = self.stored[stream].len() as u64;
        assert_eq!(rewriter.commit().unwrap(), first..first + new.len() as u64);
        for row in &mut self.stored[stream] {
            row.deleted |= (from..to).contains(&row.time) && symbols.contains(&row.symbol);
        }
        self.stored[stream].append(&mut new);
    }

    /// Gives a symbol another name, in all streams that have it, sometimes one that it had before.
    fn rename_symbol(&mut self) {
        let symbol = self.random.below(SYMBOLS.len());
        let new = format!("{}{}", SYMBOLS[symbol], self.random.below(3));
        let probe =
            self.db().stream(STREAMS[0]).unwrap().rename_symbol(&self.names[symbol], &self.names[symbol]);
        if matches!(probe, Err(Error::Invalid(Invalid::Options { what })) if what.contains("through a server"))
        {
            // Remote: the process with the files renames.
            return;
        }
        let old = std::mem::replace(&mut self.names[symbol], new);
        for name in STREAMS {
            let stream = self.db().stream(name).unwrap();
            match stream.symbols().contains(&old) {
                true => stream.rename_symbol(&old, &self.names[symbol]).unwrap(),
                false => assert!(stream.rename_symbol(&old, &self.names[symbol]).is_err()),
            }
        }
        // Other cursors may use the old names for messages that they have in memory.
        self.live.retain(|live| live.query.symbols.is_none());
    }

    /// A query over history, all at once and in two parts with a position between.
    fn check_query(&mut self) {
        let query = Query::random(&mut self.random, self.time);
        let expected = query.history(&self.stored);
        let mut cursor = query.on(self).open().unwrap();
        let cut = self.random.below(expected.len() + 1);
        let mut found: Vec<u64> = (0..cut).map(|_| number_of(&cursor.next().unwrap().unwrap())).collect();
        let position: Position = cursor.position().to_string().parse().unwrap();
        let mut resumed = query.on(self).resume(&position).open().unwrap();
        let rest = drain(&mut resumed);
        assert_eq!(rest, drain(&mut cursor), "{query:?} resumed at {position}");
        found.extend(rest);
        assert_eq!(found, expected, "{query:?}");
        assert!(cursor.next().unwrap().is_none());
        crate::last::check(|| query.on(self), query.reversed, cut);
        self.check_starts(&query, &expected, &mut cursor);
        let record = TYPES[query.types.unwrap_or(expected.len() % 2)];
        super::columns::check(record, query.reversed, cut, || query.on(self));
    }

    /// The same query from another start, by the same cursor after a seek and by new ones.
    fn check_starts(&mut self, query: &Query, expected: &[u64], cursor: &mut Cursor) {
        let time = (self.random.next() % self.time.max(1) as u64) as i64;
        let behind = match query.reversed {
            true => Query { to: query.to.min(time + 1), ..query.clone() },
            false => Query { from: query.from.max(time), ..query.clone() },
        };
        cursor.seek(Timestamp(time)).unwrap();
        assert_eq!(drain(cursor), behind.history(&self.stored), "{query:?} from {time}");
        if query.reversed {
            return;
        }
        let count = self.random.below(expected.len() + 2);
        let last = drain(&mut query.on(self).last(count as u64).open().unwrap());
        assert_eq!(last, expected[expected.len().saturating_sub(count)..], "{query:?}, last {count}");
        if let [stream] = query.streams[..] {
            let rows = &self.stored[stream];
            let first = self.random.below(rows.len() + 1);
            let begun = drain(&mut query.on(self).from_sequence(first as u64).open().unwrap());
            let wanted = rows[first..].iter().filter(|row| query.wants(row)).map(|row| row.number);
            assert_eq!(begun, wanted.collect::<Vec<_>>(), "{query:?} from message {first}");
        }
    }

    fn open_live(&mut self) {
        let mut query = Query::random(&mut self.random, self.time);
        query.reversed = false;
        let skips = self.random.chance(3);
        let builder = query.on(self);
        if self.random.chance(3) {
            let (mut cursor, left) = self.live_from_last(&query);
            // Later deletions do not change what follows them.
            let found: Vec<u64> = left.iter().map(|_| number_of(&cursor.next().unwrap().unwrap())).collect();
            assert_eq!(found, left, "{query:?}");
            assert!(cursor.next().unwrap().is_none() && cursor.is_live());
            let left = query.streams.iter().map(|&stream| (Vec::new(), self.stored[stream].len())).collect();
            self.keep_live(Live { query, cursor, left });
            return;
        }
        let cursor = if skips { builder.skip_history() } else { builder.live() }.open().unwrap();
        let left = query.streams.iter().map(|&stream| {
            let rows = &self.stored[stream];
            let history = if skips { Vec::new() } else { query.history_of(rows) };
            (history.into_iter().map(|(_, number)| number).rev().collect(), rows.len())
        });
        let left = left.collect();
        self.keep_live(Live { query, cursor, left });
    }

    fn keep_live(&mut self, live: Live) {
        self.live.push(live);
        if self.live.len() > 3 {
            self.live.remove(0);
        }
    }

    /// A live cursor that begins with the last messages, and what these are.
    fn live_from_last(&self, query: &Query) -> (Cursor, Vec<u64>) {
        let cursor = query.on(self).last_values().live().open().unwrap();
        (cursor, drain(&mut query.on(self).last_values().open().unwrap()))
    }

    /// Reads some or all of a live cursor; sometimes replaces it by one that resumes it.
    fn read_live(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let at = self.random.below(self.live.len());
        let mut live = self.live.swap_remove(at);
        let all = self.random.chance(2);
        let mut budget = if all { usize::MAX } else { self.random.below(300) };
        let coming = live.left.iter().zip(&live.query.streams).map(|((history, next), &stream)| {
            let rows = &self.stored[stream];
            let in_history = history.iter().filter(|&&number| !is_deleted(rows, number)).count();
            in_history + rows[*next..].iter().filter(|row| live.query.wants(row)).count()
        });
        let mut coming = coming.sum::<usize>();
        while budget > 0 {
            budget -= 1;
            // Pushed messages arrive soon, and not at once.
            let wait = if coming > 0 { Duration::from_secs(60) } else { Duration::ZERO };
            let Some(message) = live.cursor.next_within(wait).unwrap() else { break };
            let name = message.stream_name();
            let place = live.query.streams.iter().position(|&s| STREAMS[s] == name).unwrap();
            let number = number_of(&message);
            let (history, next) = &mut live.left[place];
            let rows = &self.stored[live.query.streams[place]];
            coming -= usize::from(!is_deleted(rows, number));
            let mut expect = || {
                history.pop().or_else(|| {
                    let wants = |row: &Row| live.query.wants(&Row { deleted: false, ..*row });
                    let found = rows[*next..].iter().position(wants)?;
                    *next += found + 1;
                    Some(rows[*next - 1].number)
                })
            };
            // What was deleted while the cursor was open may be left out.
            let expected = loop {
                match expect() {
                    Some(other) if other != number && is_deleted(rows, other) => {}
                    expected => break expected,
                }
            };
            assert_eq!(Some(number), expected, "{:?}, stream {name}", live.query);
        }
        if all {
            for ((history, next), &stream) in live.left.iter_mut().zip(&live.query.streams) {
                history.retain(|&number| !is_deleted(&self.stored[stream], number));
                assert!(history.is_empty(), "{:?}", live.query);
                assert!(!self.stored[stream][*next..].iter().any(|row| live.query.wants(row)));
            }
            assert!(live.cursor.is_live());
        }
        if self.random.chance(2) {
            let position: Position = live.cursor.position().to_string().parse().unwrap();
            live.cursor = live.query.on(self).live().resume(&position).open().unwrap();
        }
        self.live.push(live);
    }

    /// Closes and opens the database; loaders flush when they are dropped, live cursors resume.
    fn reopen(&mut self) {
        for mut writer in self.writers.drain(..) {
            self.stored[writer.stream].append(&mut writer.pending);
        }
        let kept: Vec<_> =
            self.live.drain(..).map(|live| (live.query, live.cursor.position(), live.left)).collect();
        self.db = None;
        let db = self.home.open();
        for (query, position, left) in kept {
            let cursor = query.in_db(&db, &self.names).live().resume(&position).open().unwrap();
            self.live.push(Live { query, cursor, left });
        }
        for (name, rows) in STREAMS.iter().zip(&self.stored) {
            let stream = db.stream(name).unwrap();
            assert!(stream.recovery().is_clean(), "{}", stream.recovery());
            let left = rows.iter().filter(|row| !row.deleted).count() as u64;
            assert!((left..=rows.len() as u64).contains(&stream.stats().unwrap().messages));
            assert_eq!(stream.stats().unwrap().next_sequence, rows.len() as u64);
        }
        self.db = Some(db);
    }
}

fn is_deleted(rows: &[Row], number: u64) -> bool {
    rows.iter().any(|row| row.number == number && row.deleted)
}

#[test]
fn a_database_answers_like_a_list() {
    let mut seeds = Random::new();
    let trials = std::env::var("TAPEDB_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(1);
    for _ in 0..WORLDS * trials {
        let mut world = World::new(seeds.next());
        for _ in 0..250 {
            world.step();
        }
    }
}

#[test]
fn a_cursor_resumes_at_every_message() {
    let (_directory, db) = new_database();
    for (i, name) in STREAMS.iter().enumerate() {
        let stream = db.create_stream(name, schema(), small_files()).unwrap();
        let mut loader = stream.loader().unwrap();
        for number in 0..150 {
            // Equal times, within a stream and among them, and late ones.
            let time = Timestamp((mix(number) % 60) as i64 + (number as i64 / 50) * 40);
            loader.append("A", time, &Tick::of(number * 3 + i as u64)).unwrap();
            if number % 7 == 0 {
                loader.flush().unwrap();
            }
        }
    }
    for reversed in [false, true] {
        let open = || {
            let builder = db.cursor(STREAMS).unwrap();
            if reversed { builder.reverse() } else { builder }
        };
        let all = drain(&mut open().open().unwrap());
        assert_eq!(all.len(), 450);
        let mut cursor = open().open().unwrap();
        for at in 0..=all.len() {
            let position: Position = cursor.position().to_string().parse().unwrap();
            assert_eq!(
                drain(&mut open().resume(&position).open().unwrap()),
                all[at..],
                "at {at}: {position}"
            );
            cursor.next().unwrap();
        }
    }
}
