//! Bytes that no client sends.

use crate::fixture::{Gateway, Raw, message, startup};

/// A message `Parse` of the unnamed statement.
fn parse(text: &str) -> Vec<u8> {
    message(b'P', &[b"\0", text.as_bytes(), b"\0\0\0"].concat())
}

/// A message `Bind` with values, without formats.
fn bind(values: &[&[u8]], formats: &[u16]) -> Vec<u8> {
    let mut body = b"\0\0".to_vec();
    body.extend((formats.len() as u16).to_be_bytes());
    formats.iter().for_each(|format| body.extend(format.to_be_bytes()));
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(*value);
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

const SYNC: &[u8] = b"S\0\0\0\x04";

#[test]
fn bytes_that_are_no_start_are_refused() {
    let gateway = Gateway::start();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &(-1i32).to_be_bytes(),
        &0i32.to_be_bytes(),
        &10_001i32.to_be_bytes(),
        b"\0\0\0\x08\0\x02\0\0",
        b"\0\0\0\x0c\0\x03\0\0use\0",
        b"\0\0\0\x10\0\x03\0\0user\0\xff\0\0",
        b"\0\0\0\x09\0\x03\0\0\0",
    ] {
        let mut raw = Raw::connect(gateway.address());
        raw.send(bytes);
        assert!(["08P01", "28000"].contains(&raw.error().as_str()), "{bytes:?}");
    }
    // TLS is asked for, and the start is there in plain text: it could be another's.
    let mut raw = Raw::connect(gateway.address());
    raw.send(&[&b"\0\0\0\x08\x04\xd2\x16\x2f"[..], &startup("anyone")].concat());
    assert_eq!(raw.error(), "08P01");
}

#[test]
fn messages_that_are_none_end_the_session() {
    let gateway = Gateway::start();
    for bytes in [
        &b"Q\xff\xff\xff\xff"[..],
        b"Q\0\0\0\x03",
        b"Q\x7f\xff\xff\xff",
        b"Q\x04\0\0\x01",
        b"Q\0\0\0\x06a\xff",
        b"Q\0\0\0\x06\xff\0",
        b"P\0\0\0\x0a\0a\0\x7f\xff\0",
        b"B\0\0\0\x0a\0\0\0\0\xff\xff",
        b"D\0\0\0\x06X\0",
        b"E\0\0\0\x05\0",
        b"!\0\0\0\x04",
        b"p\0\0\0\x05\0",
        b"F\0\0\0\x04",
    ] {
        let mut raw = gateway.session("anyone");
        raw.send(bytes);
        assert!(["08P01", "0A000"].contains(&raw.error().as_str()), "{bytes:?}");
        assert!(raw.next().is_none(), "{bytes:?} closes the connection");
    }
    assert_eq!(gateway.session("anyone").query("SELECT 1"), Ok(1), "others are served");
}

#[test]
fn values_that_do_not_fit_their_statement_are_refused() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    let statement = "SELECT count(*) FROM ticks WHERE size = $1 AND price = $2";
    for (bound, code) in [
        (bind(&[b"1"], &[]), "08P01"),
        (bind(&[b"1", b"2", b"3"], &[]), "08P01"),
        (bind(&[b"1", b"2"], &[0, 0, 0]), "08P01"),
        (bind(&[b"x", b"2"], &[]), "22P02"),
        (bind(&[b"1", b"2"], &[1]), "22P03"),
        (bind(&[b"\xff", b"2"], &[]), "22021"),
    ] {
        raw.send(&[&parse(statement)[..], &bound, b"E\0\0\0\x09\0\0\0\0\0", SYNC].concat());
        assert_eq!(raw.error(), code, "{bound:?}");
        raw.until(b'Z');
    }
    raw.send(&[&parse(statement)[..], &bind(&[b"1", b"NaN"], &[]), b"E\0\0\0\x09\0\0\0\0\0", SYNC].concat());
    assert!(raw.until(b'Z').iter().any(|(kind, _)| *kind == b'D'));
    raw.send(&[&message(b'E', b"none\0\0\0\0\0")[..], &parse("SELECT 1"), SYNC].concat());
    let kinds: Vec<u8> = raw.until(b'Z').iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, b"EZ", "after an error, messages are skipped until Sync");
}

#[test]
fn what_a_session_holds_is_limited() {
    let gateway = Gateway::start();
    let mut raw = gateway.session("anyone");
    let named = |number: usize| message(b'P', format!("s{number}\0SELECT 1\0\0\0").as_bytes());
    let all: Vec<u8> = (0..1001).flat_map(named).collect();
    raw.send(&[&all[..], SYNC].concat());
    assert_eq!(raw.error(), "53400");
    raw.until(b'Z');
    assert_eq!(raw.query("DEALLOCATE ALL"), Ok(0));
}
