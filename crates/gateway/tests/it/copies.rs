//! Rows that are copied in.

use crate::fixture::{Gateway, ROWS, Raw, Setup, message};
use tapedb_log::sim::SimStorage;

const COLUMNS: &str = "time_ns, symbol, price, size, side, id";

impl Raw {
    /// Begins a copy; the code of its error.
    fn begin_copy(&mut self, text: &str) -> Result<(), String> {
        self.send(&message(b'Q', &[text.as_bytes(), b"\0"].concat()));
        loop {
            match self.next() {
                Some((b'G', _)) => return Ok(()),
                Some((b'E', body)) => {
                    self.until(b'Z');
                    return Err(String::from_utf8_lossy(&body).into());
                }
                Some(_) => {}
                None => return Err("closed".into()),
            }
        }
    }

    /// Sends rows in pieces and ends them; the tag of what was done, or the fields of the error.
    fn copy(&mut self, text: &str, rows: &[u8], piece: usize) -> Result<String, String> {
        self.begin_copy(text)?;
        rows.chunks(piece).for_each(|piece| self.send(&message(b'd', piece)));
        self.send(&message(b'c', b""));
        self.done()
    }

    fn done(&mut self) -> Result<String, String> {
        let answers = self.until(b'Z');
        let of = |kind: u8| answers.iter().find(|(found, _)| *found == kind).map(|(_, body)| body);
        let text = |body: &Vec<u8>| String::from_utf8_lossy(body).replace('\0', " ").trim().to_string();
        match of(b'E') {
            Some(error) => Err(text(error)),
            None => Ok(text(of(b'C').expect("a tag"))),
        }
    }
}

#[test]
fn rows_are_copied_in_each_format() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    let text = format!("COPY ticks.Trade ({COLUMNS}) FROM STDIN");
    let rows = b"1704300000000000001\tNEW\t1.25\t7\tBuy\t18446744073709551615\n1704300000000000002\tNEW\t1.5\t8\t\\N\t1\n";
    for piece in [1, 7, 1000] {
        assert_eq!(raw.copy(&text, rows, piece), Ok("COPY 2".into()));
    }
    let csv = b"time,symbol,price,size,id\n2024-01-03 16:40:00.000000003+00,\"N\"\"EW\",2.5,9,3\n";
    let text = "COPY ticks (time, symbol, price, size, id) FROM STDIN WITH (FORMAT csv, HEADER true)";
    assert_eq!(raw.copy(text, csv, 5), Ok("COPY 1".into()));
    assert_eq!(raw.query("SELECT * FROM ticks WHERE symbol = 'NEW' AND price < 2"), Ok(6));
    assert_eq!(
        raw.query("SELECT * FROM ticks WHERE symbol = 'N\"EW' AND time_ns = 1704300000000000003"),
        Ok(1)
    );
    assert_eq!(raw.query("SELECT * FROM ticks WHERE id = 18446744073709551615 AND symbol = 'NEW'"), Ok(3));
    // What COPY writes in binary, it reads.
    raw.send(&message(b'Q', b"COPY (SELECT time_ns, symbol, price, size, side, id FROM ticks WHERE symbol = 'NEW') TO STDOUT (FORMAT binary)\0"));
    let binary: Vec<u8> =
        raw.until(b'Z').into_iter().filter(|(kind, _)| *kind == b'd').flat_map(|(_, body)| body).collect();
    let text = format!("COPY ticks ({COLUMNS}) FROM STDIN (FORMAT binary)");
    for piece in [3, 100_000] {
        assert_eq!(raw.copy(&text, &binary, piece), Ok("COPY 6".into()));
    }
    assert_eq!(raw.query("SELECT * FROM ticks WHERE symbol = 'NEW'"), Ok(18));
}

#[test]
fn a_wrong_row_leaves_nothing_and_is_named() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    let text = format!("COPY ticks ({COLUMNS}) FROM STDIN");
    let good = "1704300000000000001\tNEW\t1.25\t7\tBuy\t1\n";
    for (wrong, part) in [
        ("1\tNEW\tx\t7\tBuy\t1", "line 3: column \"price\""),
        ("1\tNEW\t1\t-7\tBuy\t1", "line 3: column \"size\""),
        ("1\tNEW\t1\t7\tHold\t1", "line 3: column \"side\""),
        ("1\tNEW\t1\t7\tBuy\t1.5", "line 3: column \"id\""),
        ("1\tNEW\t\\N\t7\tBuy\t1", "line 3: column \"price\""),
        ("1\tNEW\t1", "line 3: 3 values"),
        ("\\N\tNEW\t1\t7\tBuy\t1", "line 3: column \"time\""),
    ] {
        let rows = format!("{good}{good}{wrong}\n{good}");
        let error = raw.copy(&text, rows.as_bytes(), 64).unwrap_err();
        assert!(error.contains(part) && error.contains("no row was stored"), "{wrong}: {error}");
        assert_eq!(raw.query("SELECT 1"), Ok(1), "the session goes on");
    }
    for (text, part) in [
        ("COPY ticks (symbol, price) FROM STDIN", "time"),
        ("COPY ticks (time, symbol, nothing) FROM STDIN", "nothing"),
        ("COPY nothing FROM STDIN", "nothing"),
        ("COPY kinds FROM STDIN", "list"),
        ("COPY ticks FROM '/etc/passwd'", "STDIN"),
    ] {
        let error = raw.begin_copy(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    // A client that gives up, and one that leaves.
    raw.begin_copy(&text).unwrap();
    raw.send(&message(b'd', good.as_bytes()));
    raw.send(&message(b'f', b"enough\0"));
    assert!(raw.done().unwrap_err().contains("enough"));
    let mut other = gateway.session("anyone");
    other.begin_copy(&text).unwrap();
    other.send(&message(b'd', good.as_bytes()));
    drop(other);
    assert_eq!(raw.query("SELECT * FROM ticks WHERE symbol = 'NEW'"), Ok(0));
}

#[test]
fn writing_needs_its_right() {
    let gateway = Gateway::with(Setup { has_users: true, ..Setup::default() });
    let mut raw = gateway.session("anonymous");
    let error = raw.begin_copy("COPY ticks FROM STDIN").unwrap_err();
    assert!(error.contains("42501") && error.contains("no right to write"), "{error}");
    let error = raw.begin_copy("COPY hidden FROM STDIN").unwrap_err();
    let none = raw.begin_copy("COPY hiddem FROM STDIN").unwrap_err();
    assert_eq!(error.replace("hidden", "hiddem"), none, "a hidden stream is as one that does not exist");
}

#[test]
fn what_is_stored_when_the_disk_is_full_is_stated() {
    let disk = SimStorage::new(1);
    let gateway = Gateway::with(Setup { disk: Some(disk.clone()), ..Setup::default() });
    let bytes: usize =
        disk.paths().iter().filter_map(|path| disk.content(path)).map(|content| content.len()).sum();
    let mut raw = gateway.session("anyone");
    let text = format!("COPY ticks ({COLUMNS}) FROM STDIN");
    let rows: String = (0..200_000).map(|row| format!("{row}\tNEW\t1.25\t7\tBuy\t{row}\n")).collect();
    for more in [1, 2_000_000] {
        let before = raw.query("SELECT * FROM ticks").unwrap();
        disk.set_capacity(Some((bytes + more) as u64));
        let error = raw.copy(&text, rows.as_bytes(), 1 << 20).unwrap_err();
        assert!(error.contains("the disk is full"), "{error}");
        disk.set_capacity(None);
        let stored = raw.query("SELECT * FROM ticks").unwrap() - before;
        let stated = match stored {
            0 => "no row was stored".to_string(),
            stored => format!("; {stored} rows before it are stored"),
        };
        assert!(error.contains(&stated), "{error}: {stated}");
        assert_eq!(stored > 0, more > 1, "{stored}");
    }
    assert_eq!(raw.copy(&text, rows.as_bytes(), 1 << 20), Ok("COPY 200000".into()));
    assert!(raw.query("SELECT * FROM ticks").unwrap() > ROWS as usize + 200_000);
}
