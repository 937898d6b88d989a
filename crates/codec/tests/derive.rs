//! The derives: layout, schema, reading back in every way, and hostile bytes.

use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{
    ArrayView, Binary, DecodeErrorKind as Kind, Enumeration, Record, SchemaBuilder, Union, decode,
    decode_into, encode, view,
};
use tapedb_schema::{Ascii, Decimal64, Fixed, Schema, TimeOfDay, Timestamp};

#[derive(Enumeration, Debug, Clone, Copy, Default, PartialEq)]
enum Side {
    #[default]
    Bid,
    Ask = 5,
}

/// A leg.
#[derive(Record, Debug, Clone, Default, PartialEq)]
struct Leg {
    /// Ratio to the first leg.
    ratio: i8,
    price: Option<Decimal64>,
}

#[derive(Record, Debug, Clone, Default, PartialEq)]
struct Note {
    text: String,
    tags: Vec<Option<String>>,
}

#[derive(Record, Debug, Clone, Copy, Default, PartialEq)]
struct Nothing {}

#[derive(Union, Debug, Clone, PartialEq)]
enum Item {
    Leg(Leg),
    Note(Note),
    Nothing(Nothing),
}

impl Default for Item {
    fn default() -> Self {
        Self::Nothing(Nothing {})
    }
}

#[derive(Record, Debug, Clone, Default, PartialEq)]
struct Node {
    id: u16,
    children: Vec<Node>,
    parent: Option<Box<Node>>,
}

#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct Everything {
    flag: bool,
    a: i8,
    b: Option<i16>,
    c: i32,
    d: i64,
    e: u8,
    f: u16,
    g: Option<u32>,
    h: u64,
    i: f32,
    j: f64,
    price: Decimal64,
    cents: Fixed<2>,
    when: Timestamp,
    noon: Option<TimeOfDay>,
    letter: char,
    venue: Option<Ascii<8>>,
    name: Option<String>,
    raw: Binary,
    side: Side,
    numbers: Vec<u8>,
    maybe: Vec<Option<f64>>,
    sides: Vec<Side>,
    leg: Leg,
    best: Option<Leg>,
    items: Vec<Item>,
    empties: Vec<Option<Nothing>>,
    matrix: Vec<Vec<i32>>,
    tree: Node,
    one: Option<Item>,
}

fn sample() -> Everything {
    let leg = Leg { ratio: -2, price: Some("10.25".parse().unwrap()) };
    let note = Note { text: "héllo".into(), tags: vec![Some("x".into()), None, Some(String::new())] };
    let leaf = Node { id: 2, children: vec![], parent: None };
    Everything {
        flag: true,
        a: -1,
        b: None,
        c: -70_000,
        d: i64::MIN,
        e: 255,
        f: 65_535,
        g: Some(7),
        h: u64::MAX,
        i: -0.5,
        j: f64::MAX,
        price: "61837.63000000".parse().unwrap(),
        cents: Fixed(-1234),
        when: Timestamp(1_700_000_000_000_000_001),
        noon: TimeOfDay::from_nanos(43_200_000_000_000),
        letter: '€',
        venue: Some(Ascii::new("NYSE").unwrap()),
        name: Some("AIG".into()),
        raw: Binary(vec![0, 1, 2]),
        side: Side::Ask,
        numbers: vec![1, 2, 3],
        maybe: vec![None, Some(1.5), None],
        sides: vec![Side::Bid, Side::Ask],
        leg: leg.clone(),
        best: None,
        items: vec![
            Item::Leg(leg.clone()),
            Item::Nothing(Nothing {}),
            Item::Note(note.clone()),
            Item::Leg(leg),
        ],
        empties: vec![Some(Nothing {}), None],
        matrix: vec![vec![], vec![1, 2], vec![-3]],
        tree: Node { id: 1, children: vec![leaf.clone(), leaf.clone()], parent: Some(Box::new(leaf)) },
        one: Some(Item::Note(note)),
    }
}

fn body(value: &Everything) -> Vec<u8> {
    let mut body = Vec::new();
    encode(value, &mut body);
    body
}

#[test]
fn round_trips_and_reuses() {
    let value = sample();
    let bytes = body(&value);
    assert_eq!(decode::<Everything>(&bytes), Ok(value.clone()));
    let mut reused = Everything::default();
    decode_into(&body(&Everything::default()), &mut reused).unwrap();
    assert_eq!(reused, Everything::default());
    decode_into(&bytes, &mut reused).unwrap();
    assert_eq!(reused, value);
    decode_into(&body(&Everything::default()), &mut reused).unwrap();
    assert_eq!(reused, Everything::default());
}

#[test]
fn reads_in_place() {
    let value = sample();
    let bytes = body(&value);
    let view = view::<Everything>(&bytes).unwrap();
    assert_eq!((view.flag(), view.b(), view.g(), view.price()), (true, None, Some(7), value.price));
    assert_eq!((view.name(), view.raw(), view.side()), (Some("AIG"), &[0u8, 1, 2][..], Side::Ask));
    assert_eq!(view.maybe().iter().collect::<Vec<_>>(), value.maybe);
    assert_eq!(view.matrix().iter().map(|row| row.iter().sum::<i32>()).collect::<Vec<_>>(), [0, 3, -3]);
    assert_eq!(view.leg().price(), value.leg.price);
    assert!(view.best().is_none());
    let kinds: Vec<u8> = view.items().iter().map(kind_of).collect();
    assert_eq!(kinds, [0, 2, 1, 0]);
    let children: ArrayView<'_, Node> = view.tree().children();
    assert_eq!(children.len(), 2);
    assert_eq!(view.tree().parent().map(|node| node.id()), Some(2));
    assert!(matches!(view.one(), Some(ItemView::Note(note)) if note.text() == "héllo"));
}

fn kind_of(item: ItemView<'_>) -> u8 {
    match item {
        ItemView::Leg(leg) => {
            assert_eq!(leg.ratio(), -2);
            0
        }
        ItemView::Note(note) => {
            assert_eq!(note.tags().iter().collect::<Vec<_>>(), [Some("x"), None, Some("")]);
            1
        }
        ItemView::Nothing(_) => 2,
    }
}

#[test]
fn describes_itself() {
    let schema = SchemaBuilder::new().with::<Everything>().finish();
    schema.validate().unwrap();
    let text = schema.to_string();
    assert_eq!(text.parse::<Schema>().unwrap(), schema, "{text}");
    assert!(text.contains("enum Side { BID = 0, ASK = 5 }"), "{text}");
    assert!(text.contains("items: array<record<Leg|Note|Nothing>>"), "{text}");
    assert!(text.contains("/// Ratio to the first leg.\n    ratio: i8,"), "{text}");
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = body(&sample());
    for length in 0..bytes.len() {
        assert!(decode::<Everything>(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
        assert!(view::<Everything>(&bytes[..length]).is_err());
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(decode::<Everything>(&longer).unwrap_err().kind, Kind::Trailing);
}

#[test]
fn every_changed_byte_is_an_error_or_another_value() {
    let bytes = body(&sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut hostile = bytes.clone();
            hostile[at] ^= 1 << bit;
            // What passes validation is canonical: decoding and encoding gives the same bytes back.
            if view::<Everything>(&hostile).is_ok() {
                assert_eq!(body(&decode::<Everything>(&hostile).unwrap()), hostile, "byte {at} bit {bit}");
            } else {
                let _ = decode::<Everything>(&hostile);
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let mut node = Node::default();
    for _ in 0..100 {
        node = Node { id: 0, children: vec![node], parent: None };
    }
    let mut bytes = Vec::new();
    encode(&node, &mut bytes);
    assert_eq!(decode::<Node>(&bytes).unwrap_err().kind, Kind::Depth);
    assert_eq!(view::<Node>(&bytes).unwrap_err().kind, Kind::Depth);
}

/// A body whose ends would not fit into a `u32` is refused before it takes memory. Records without fields take none as
/// values and a byte each in a body.
#[test]
#[cfg(target_pointer_width = "64")]
#[should_panic(expected = "a body of 5000000008 bytes is over the layout's 4294967295")]
fn a_body_of_more_than_four_gibibytes_is_refused() {
    #[derive(Record, Default)]
    struct Many {
        items: Vec<Nothing>,
    }
    encode(&Many { items: [Nothing {}; 5_000_000_000].to_vec() }, &mut Vec::new());
}

#[test]
fn empty_record_has_no_bytes() {
    let mut bytes = Vec::new();
    encode(&Nothing {}, &mut bytes);
    assert!(bytes.is_empty());
}

#[test]
fn the_interpreter_agrees() {
    let layouts = Layouts::new(SchemaBuilder::new().with::<Everything>().finish()).unwrap();
    let (type_id, _) = layouts.schema().record("Everything").unwrap();
    for value in [Everything::default(), sample()] {
        let bytes = body(&value);
        layouts.check(type_id, &bytes).unwrap();
        let dynamic = layouts.decode(type_id, &bytes).unwrap();
        let mut again = Vec::new();
        layouts.encode(&dynamic, &mut again).unwrap();
        assert_eq!(again, bytes);
        let mut json = Vec::new();
        layouts.view(type_id, &bytes).unwrap().write_json(&mut json);
        let json = String::from_utf8(json).unwrap();
        let parsed = layouts.from_json(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
        assert_eq!(parsed, dynamic, "{json}");
    }
}

#[test]
fn the_interpreter_refuses_what_the_derive_refuses() {
    let layouts = Layouts::new(SchemaBuilder::new().with::<Everything>().finish()).unwrap();
    let (type_id, _) = layouts.schema().record("Everything").unwrap();
    let bytes = body(&sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut hostile = bytes.clone();
            hostile[at] ^= 1 << bit;
            let compiled = view::<Everything>(&hostile).map(|_| ());
            assert_eq!(layouts.check(type_id, &hostile), compiled, "byte {at} bit {bit}");
            let compiled = decode::<Everything>(&hostile).map(|_| ());
            assert_eq!(layouts.decode(type_id, &hostile).map(|_| ()), compiled, "byte {at} bit {bit}");
        }
    }
}

/// Types of two versions of a program.
mod versions {
    use super::*;
    use tapedb_codec::evolve::{EvolveError, Reader};

    pub mod old {
        use super::*;

        #[derive(Record, Debug, Clone, Default, PartialEq)]
        #[record(message)]
        pub struct Order {
            pub id: u32,
            pub price: Fixed<2>,
            pub venue: Ascii<4>,
            pub side: Option<Side>,
            pub legs: Vec<Item>,
        }
    }

    pub mod new {
        use super::*;

        #[derive(Enumeration, Debug, Clone, Copy, Default, PartialEq)]
        pub enum Side {
            #[default]
            Undefined,
            Ask,
            Bid,
        }

        #[derive(Union, Debug, Clone, PartialEq)]
        pub enum Item {
            Nothing(Nothing),
            Leg(Leg),
        }

        impl Default for Item {
            fn default() -> Self {
                Self::Nothing(Nothing {})
            }
        }

        #[derive(Record, Debug, Clone, Default, PartialEq)]
        #[record(message)]
        pub struct Order {
            pub legs: Vec<Item>,
            #[record(alias = "price")]
            pub limit: Decimal64,
            pub id: u64,
            #[record(default = "BID")]
            pub side: Side,
            pub venue: String,
            #[record(default = "-1.5")]
            pub offset: Decimal64,
            #[record(default = "\"DAY\"")]
            pub force: Option<Ascii<8>>,
            pub note: Option<String>,
        }
    }

    fn order(legs: Vec<Item>) -> old::Order {
        old::Order { id: 7, price: Fixed(1050), venue: "XETR".parse().unwrap(), side: None, legs }
    }

    fn written() -> Layouts {
        Layouts::new(SchemaBuilder::new().with::<old::Order>().finish()).unwrap()
    }

    fn body(order: &old::Order) -> Vec<u8> {
        let mut body = Vec::new();
        encode(order, &mut body);
        body
    }

    #[test]
    fn a_newer_type_reads_old_messages() {
        let mut reader = Reader::<new::Order>::new(&written()).unwrap();
        assert!(!reader.is_identity());
        let leg = Leg { ratio: 2, price: None };
        let old = body(&order(vec![Item::Leg(leg.clone()), Item::Nothing(Nothing {})]));
        let expected = new::Order {
            legs: vec![new::Item::Leg(leg), new::Item::Nothing(Nothing {})],
            limit: "10.50".parse().unwrap(),
            id: 7,
            side: new::Side::Bid,
            venue: "XETR".into(),
            offset: "-1.5".parse().unwrap(),
            force: Some("DAY".parse().unwrap()),
            note: None,
        };
        assert_eq!(reader.decode(&old).unwrap(), expected);
        let mut reused = new::Order { note: Some("old".into()), ..Default::default() };
        reader.decode_into(&old, &mut reused).unwrap();
        assert_eq!(reused, expected);
        let view = reader.view(&old).unwrap();
        assert_eq!((view.venue(), view.side(), view.legs().len()), ("XETR", new::Side::Bid, 2));
    }

    #[test]
    fn fields_that_the_newer_type_refuses_are_named() {
        let mut reader = Reader::<new::Order>::new(&written()).unwrap();
        let old = body(&order(vec![Item::Note(Note::default())]));
        let error = reader.decode(&old).unwrap_err();
        assert_eq!(error, EvolveError::UnknownRecord { path: "Order.legs[0]".into(), record: "Note".into() });
        assert!(matches!(reader.decode(&old[..old.len() - 1]), Err(EvolveError::Decode(_))));
    }

    #[test]
    fn an_older_type_says_why_it_cannot_read_new_messages() {
        let newer = Layouts::new(SchemaBuilder::new().with::<new::Order>().finish()).unwrap();
        let error = Reader::<old::Order>::new(&newer).unwrap_err();
        assert_eq!((error.path.as_str(), error.read.as_str()), ("Order.id", "u32"));
        let error = Reader::<Everything>::new(&newer).unwrap_err();
        assert!(error.to_string().starts_with("Everything: written as nothing"), "{error}");
    }

    #[test]
    fn the_same_type_reads_its_messages_as_they_are() {
        let mut reader = Reader::<old::Order>::new(&written()).unwrap();
        assert!(reader.is_identity());
        let order = order(vec![Item::Note(Note { text: "x".into(), tags: vec![None] })]);
        assert_eq!(reader.decode(&body(&order)).unwrap(), order);
    }

    #[test]
    fn defaults_go_into_the_schema() {
        let text = SchemaBuilder::new().with::<new::Order>().finish().to_string();
        for field in ["side: Side = BID,", "offset: decimal64 = -1.5,", "force: ascii(8)? = \"DAY\","] {
            assert!(text.contains(field), "{text}");
        }
        assert!(text.parse::<Schema>().is_ok());
    }
}
