//! Lines as messages.

use crate::support::place;
use tapedb_access::{May, Right, User};
use tapedb_engine::StreamOptions;
use tapedb_ilp_load::{LineLoader, LoadOptions, Precision, WriteError};

fn refused(result: Result<usize, WriteError>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. } | WriteError::Denied { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_stream_is_created_from_its_first_lines() {
    let place = place();
    let lines = "trades,symbol=AIG,ex=N price=48.5,size=3i,u=7u,note=\"a b\",live=t,at=5t 20\n\
                 trades,symbol=BAC price=1.5 10\n";
    assert_eq!(place.write(lines).unwrap(), 2);
    let fields = [
        "ex: string?",
        "price: f64?",
        "size: i64?",
        "u: u64?",
        "note: string?",
        "live: bool?",
        "at: timestamp?",
    ];
    let schema = place.schema("trades");
    assert!(schema.starts_with("message trades {"), "{schema}");
    for field in fields {
        assert!(schema.contains(field), "{schema} lacks {field}");
    }
    let read = place.read("trades");
    let (first, second) = read.split_once('\n').unwrap();
    assert!(first.starts_with("10 BAC ") && first.contains("\"price\":1.5"), "{read}");
    assert!(
        second.starts_with("20 AIG ")
            && second.contains("\"ex\":\"N\"")
            && second.contains("\"note\":\"a b\""),
        "{read}"
    );
}

#[test]
fn new_tags_and_fields_widen_the_schema() {
    let place = place();
    place.write("t,symbol=A a=1 1\n").unwrap();
    place.write("t,symbol=A b=2i 2\nt,symbol=A,c=x a=3 3\n").unwrap();
    assert_eq!(place.schema("t"), "message t {\n    a: f64?,\n    b: i64?,\n    c: string?,\n}\n");
    let read = place.read("t");
    assert_eq!(read.lines().count(), 3);
    assert!(read.contains("\"b\":2") && read.contains("\"c\":\"x\""), "{read}");
}

#[test]
fn a_request_is_stored_whole_or_not_at_all() {
    let place = place();
    place.write("t,symbol=A a=1 1\n").unwrap();
    for (lines, expected) in [
        ("t,symbol=A a=2 2\nt,symbol=A a=x 3\n", "error in line 2: column 14: \"x\" is not a number"),
        (
            "t,symbol=A a=2 2\n\nt,symbol=A a=\"x\" 3\n",
            "error in line 3: column 12: the field a is f64, and the line has a string",
        ),
        (
            "new,symbol=A b=1 2\nt,symbol=A a=1i,b=2,b=3 3\n",
            "error in line 2: column 21: the field b is twice in the line",
        ),
        (
            "t,symbol=A b=1 2\nt,symbol=A b=2i,c=9007199254740993i,b=1 3\n",
            "error in line 2: column 37: the field b is twice in the line",
        ),
        (
            "t,symbol=A a=9007199254740993i 2\n",
            "error in line 1: column 12: the field a is f64, and the line has an integer 9007199254740993i",
        ),
        (
            "t,symbol=A a-b=1,a_b=2 2\n",
            "error in line 1: column 18: \"a-b\" and \"a_b\" are both the field a_b; rename one of them",
        ),
    ] {
        assert_eq!(refused(place.write(lines)), expected);
    }
    assert!(place.db.stream("new").is_err(), "no stream is created");
    assert_eq!(place.schema("t"), "message t {\n    a: f64?,\n}\n");
    assert_eq!(place.read("t").lines().count(), 1);
}

#[test]
fn values_become_the_types_that_a_stream_has() {
    let place = place();
    let schema = "enum Side { Buy, Sell }\n\
                  message Trade { price: decimal64, exact: decimal(18,4)?, size: u32, small: i8?, f: f32?, side: Side?, code: ascii(4)?, time_of: time_of_day? }";
    place.db.create_stream("t", schema.parse().unwrap(), StreamOptions::default()).unwrap();
    place
        .write("t,symbol=A,side=Sell price=0.1,exact=12.3456,size=7i,small=-3u,f=0.5,code=\"XY\" 1\n")
        .unwrap_err();
    place
        .write("t,symbol=A,side=Sell price=0.1,exact=12.3456,size=7i,small=3u,f=0.5,code=\"XY\" 1\n")
        .unwrap();
    place.write("t,symbol=A price==\x17\x04\x02\x30\x04,size=7i 2\n").unwrap();
    let read = place.read("t");
    for part in [
        "\"price\":\"0.1\",",
        "\"exact\":\"12.3456\"",
        "\"size\":7",
        "\"small\":3",
        "\"side\":\"Sell\"",
        "\"code\":\"XY\"",
        "1.2292",
    ] {
        assert!(read.contains(part), "{read} lacks {part}");
    }
    for (line, expected) in [
        (
            "t,symbol=A price=1,size=-1i 3",
            "error in line 1: column 20: -1 does not fit the field size, which is u32",
        ),
        ("t,symbol=A price=1 3", "stream \"t\", field size: "),
        (
            "t,symbol=A price=1,size=1i 3\nt,symbol=A size=1i 3",
            "error in line 2: the line has no value for the field price, which cannot be null",
        ),
        ("t,symbol=A,side=Hold price=1,size=1i 3", "stream \"t\", field side: "),
        (
            "t,symbol=A price=1,size=1i,f=0.1 3",
            "error in line 1: column 28: the field f is f32, and the line has a float 0.1",
        ),
        (
            "t,symbol=A price=12345678901234567.5,size=1i 3",
            "error in line 1: column 12: \"12345678901234567.5\": ",
        ),
        (
            "t,symbol=A price=1,size=1i,time_of=5n 3",
            "error in line 1: column 28: the field time_of is time_of_day, and the line has a timestamp",
        ),
    ] {
        let error = refused(place.write(line));
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
    assert_eq!(place.read("t").lines().count(), 2);
}

#[test]
fn the_symbol_comes_from_the_first_name_that_a_line_has() {
    let place = place();
    place
        .write(
            "t,ticker=C,sym=B a=1 1\nt,sym=B,symbol=A a=2 2\nt,other=x a=3 4\nt a=3,sym=\"S\\\"T\" 5\nt,symbol= a=4 6\n\
             t,symbol=A\\ B a=5 7\n",
        )
        .unwrap();
    let read = place.read("t");
    let symbols: Vec<&str> = read.lines().map(|line| line.split_once(" {").unwrap().0).collect();
    assert_eq!(symbols, ["1 B", "2 A", "4 -", "5 S\"T", "6 -", "7 A B"]);
    assert!(read.contains("\"ticker\":\"C\"") && read.contains("\"sym\":\"B\""), "{read}");
    let options =
        LoadOptions { symbols: vec!["other".into()], missing_symbol: None, ..LoadOptions::default() };
    let loader = LineLoader::new(place.db.clone(), options);
    let write = |lines: &str| loader.write(lines.as_bytes(), Precision::Nanoseconds, &User::unrestricted());
    write("u,other=X a=1 1\n").unwrap();
    assert_eq!(refused(write("u,symbol=X a=1 1\n")), "error in line 1: column 1: the line has no symbol");
    assert!(place.read("u").starts_with("1 X "));
}

#[test]
fn names_that_fields_cannot_have_are_changed() {
    let place = place();
    place.write("cpu.load,host-name=a usage\\ idle=1,type=\"x\",5m=2 1\n").unwrap();
    let schema = place.schema("cpu.load");
    for part in [
        "message cpu.load {",
        "host_name: string?",
        "usage_idle: f64?",
        "type_: string?",
        "_5m: f64?",
        "\"host-name\" in the line protocol",
    ] {
        assert!(schema.contains(part), "{schema} lacks {part}");
    }
    place.write("cpu.load,host-name=b usage\\ idle=2 2\n").unwrap();
    assert_eq!(place.read("cpu.load").lines().count(), 2);
}

#[test]
fn arrays_keep_their_shape() {
    let place = place();
    let mut line = b"t,symbol=A a==\x0e\x0a\x02\x02\0\0\0\x01\0\0\0".to_vec();
    line.extend(1.5f64.to_le_bytes());
    line.extend(2.5f64.to_le_bytes());
    line.extend(b",b==\x0e\x0a\x01\x01\0\0\0");
    line.extend(f64::MAX.to_le_bytes());
    line.extend(b" 1n\nt,symbol=A b==\x0e\x21 2\nt,symbol=A a==\x0e\x0a\x02\xff\xff\xff\xff\0\0\0\0 3\n");
    place.loader().write(&line, Precision::Nanoseconds, &User::unrestricted()).unwrap();
    assert_eq!(place.schema("t"), "message t {\n    a: array<array<f64>>?,\n    b: array<f64>?,\n}\n");
    let read = place.read("t");
    assert!(
        read.contains("\"a\":[[1.5],[2.5]]") && read.contains("3 A") && read.contains("\"a\":[]"),
        "{read}"
    );
    let wrong = b"t,symbol=A a==\x0e\x0a\x01\0\0\0\0 4\n";
    let error = refused(place.loader().write(wrong, Precision::Nanoseconds, &User::unrestricted()));
    assert_eq!(
        error,
        "error in line 1: column 12: the field a is array<array<f64>>, and the line has an array of 1 dimensions"
    );
}

#[test]
fn rights_decide() {
    let place = place();
    place.write("t,symbol=A a=1 1\n").unwrap();
    let user = |may: &[May]| User {
        name: "ann".into(),
        rights: vec![Right { streams: "t*".into(), may: may.into() }],
        ..User::default()
    };
    let loader = place.loader();
    let write = |lines: &str, may: &[May]| loader.write(lines.as_bytes(), Precision::Nanoseconds, &user(may));
    write("t,symbol=A a=1 2\n", &[May::Write]).unwrap();
    let error = refused(write("t,symbol=A b=1 2\n", &[May::Write]));
    assert_eq!(error, "user \"ann\" may not add fields to stream \"t\", which lacks b");
    write("t,symbol=A b=1 3\n", &[May::Write, May::Create]).unwrap();
    let none = "user \"ann\" may not write stream";
    assert!(refused(write("t2,symbol=A b=1 2\n", &[May::Write])).starts_with(none));
    assert!(refused(write("u,symbol=A b=1 2\n", &[May::Write, May::Create])).starts_with(none));
    assert!(refused(write("t,symbol=A b=1 2\n", &[May::Read, May::Create])).starts_with(none));
    write("t2,symbol=A b=1 2\n", &[May::Create]).unwrap();
    let closed = LineLoader::new(place.db.clone(), LoadOptions { create: false, ..LoadOptions::default() });
    let error = closed.write(b"t3,symbol=A b=1 2\n", Precision::Nanoseconds, &User::unrestricted());
    assert!(refused(error).contains("may not write stream \"t3\""));
}

#[test]
fn writers_that_add_fields_at_the_same_time_lose_nothing() {
    let place = place();
    let loader = place.loader();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let loader = &loader;
            scope.spawn(move || {
                for number in 0..5 {
                    let line = format!("t,symbol=W{writer} f{writer}_{number}=1,common=2i {number}\n");
                    // A stream whose schema always changes may ask to try again.
                    while let Err(error) =
                        loader.write(line.as_bytes(), Precision::Nanoseconds, &User::unrestricted())
                    {
                        assert!(matches!(error, WriteError::Busy { .. }), "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(place.read("t").lines().count(), 20);
    assert_eq!(place.db.stream("t").unwrap().schema().records[0].fields.len(), 21);
}

#[test]
fn lines_without_a_timestamp_get_the_time() {
    let place = place();
    place.write("t,symbol=A a=1\n").unwrap();
    let time: i64 = place.read("t").split(' ').next().unwrap().parse().unwrap();
    assert!(time > 1_700_000_000_000_000_000);
    place.loader().write(b"u a=1 5", Precision::Milliseconds, &User::unrestricted()).unwrap();
    assert!(place.read("u").starts_with("5000000 - "));
}

#[test]
fn long_requests_are_the_same_in_two_parts() {
    let place = place();
    // The stream is there with all fields, so that the request can be gathered in parts.
    place.write("t,symbol=S s=\"\",a=0 1\nu,symbol=S a=0 1\n").unwrap();
    let (mut lines, mut expected) = (Vec::new(), 2);
    for number in 0..20_000 {
        // Texts and binary values in which a line seems to begin.
        lines.extend(format!("t,symbol=S{} s=\"\nt,symbol=X s=1 1\n\",a==\x10", number % 7).bytes());
        lines.extend(b"\nt,s=A \n");
        lines.extend(format!(" {number}\n").bytes());
        if number % 3 == 0 {
            lines.extend(format!("u,symbol=S a={number} {number}\n").bytes());
            expected += 1;
        }
        expected += 1;
    }
    let stored = place.loader().write(&lines, Precision::Nanoseconds, &User::unrestricted()).unwrap();
    assert_eq!(stored, expected - 2);
    assert_eq!(place.read("t").lines().count() + place.read("u").lines().count(), expected);
    // A wrong line near the end has its number, and nothing is stored.
    lines.extend(b"t,symbol=S a=x 1\n");
    let error = place.loader().write(&lines, Precision::Nanoseconds, &User::unrestricted()).unwrap_err();
    assert_eq!(error.line(), Some(expected as u64 - 1));
    let plain: String =
        (0..20_000).map(|number| format!("t,symbol=S{} a={number} {number}\n", number % 5)).collect();
    assert_eq!(place.write(&plain).unwrap(), 20_000);
    assert_eq!(place.read("t").lines().count(), 40_001);
}
