//! Any value, there and back; any bytes.

use crate::{bytes_of, value_of};
use proptest::prelude::*;
use tapedb_kdb_ipc::{
    Atom, Attribute, ByteOrder, Dictionary, Elements, Function, Limits, List, Symbols, Table, Type, Value,
    Vector, console, decode, decode_first,
};

fn atoms() -> impl Strategy<Value = Atom> {
    let names = prop_oneof![Just(String::new()), "[ -~]{1,8}", "\\PC{1,3}"];
    prop_oneof![
        any::<bool>().prop_map(Atom::Boolean),
        any::<[u8; 16]>().prop_map(Atom::Guid),
        any::<u8>().prop_map(Atom::Byte),
        any::<i16>().prop_map(Atom::Short),
        any::<i32>().prop_map(Atom::Int),
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)].prop_map(Atom::Long),
        any::<u32>().prop_map(|bits| Atom::Real(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Atom::Float(f64::from_bits(bits))),
        any::<u8>().prop_map(Atom::Char),
        names.prop_map(|name| Atom::Symbol(name.as_str().into())),
        any::<i64>().prop_map(Atom::Timestamp),
        any::<i32>().prop_map(Atom::Month),
        any::<i32>().prop_map(Atom::Date),
        any::<u64>().prop_map(|bits| Atom::Datetime(f64::from_bits(bits))),
        any::<i64>().prop_map(Atom::Timespan),
        any::<i32>().prop_map(Atom::Minute),
        any::<i32>().prop_map(Atom::Second),
        any::<i32>().prop_map(Atom::Time),
    ]
}

fn attributes() -> impl Strategy<Value = Attribute> {
    (0_u8..5).prop_map(|code| Attribute::from_code(code).expect("an attribute"))
}

/// A vector of so many elements: of the type of the first atom, its null in place of those of other types.
fn vectors(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Value> {
    (prop::collection::vec(atoms(), count), prop::sample::select(Type::ALL.to_vec()), attributes()).prop_map(
        |(atoms, ty, attribute)| {
            let mut elements = Elements::new(ty);
            for atom in atoms {
                elements.push(atom).or_else(|_| elements.push(ty.null())).expect("an atom of its type");
            }
            Value::Vector(Vector { attribute, elements })
        },
    )
}

fn functions(values: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Function> {
    prop_oneof![
        ("[a-z]{0,3}", values.clone())
            .prop_map(|(context, body)| Function::Lambda { context: context.as_str().into(), body }),
        (101_u8..104, any::<u8>()).prop_map(|(code, index)| Function::Primitive { code, index }),
        (104_u8..106, prop::collection::vec(values.clone(), 0..3))
            .prop_map(|(code, parts)| Function::Parts { code, parts }),
        (106_u8..113, values).prop_map(|(code, of)| Function::Derived { code, of }),
    ]
}

fn tables() -> impl Strategy<Value = Table> {
    (0_usize..4, attributes(), prop::collection::vec("[a-z]{1,4}", 1..4)).prop_flat_map(
        |(rows, attribute, names)| {
            let columns = prop::collection::vec(vectors(rows), names.len());
            (Just(names), columns).prop_map(move |(names, columns)| {
                let names: Symbols = names.iter().collect();
                Table::new(names, columns).expect("columns of one length").with_attribute(attribute)
            })
        },
    )
}

fn values() -> impl Strategy<Value = Value> {
    let leaves = prop_oneof![atoms().prop_map(Value::Atom), vectors(0..6), tables().prop_map(Value::from)];
    leaves.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (attributes(), prop::collection::vec(inner.clone(), 0..4))
                .prop_map(|(attribute, items)| Value::List(List { attribute, items })),
            functions(inner.clone()).prop_map(|function| Value::Function(Box::new(function))),
            (any::<bool>(), prop::collection::vec(inner, 0..4)).prop_map(|(is_sorted, items)| {
                let keys: Symbols = items.iter().map(|_| "k").collect();
                let (keys, values) = (keys.into(), Value::list(items));
                Value::Dictionary(Box::new(Dictionary { is_sorted, keys, values }))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_read_back(value in values()) {
        let bytes = bytes_of(&value, ByteOrder::Little);
        value_of(&bytes, &value.to_string());
        prop_assert!(console(&value, 3).ends_with('\n'));
    }

    /// A truncated value is distinguished from a wrong one, with the number of missing bytes.
    #[test]
    fn truncation_is_distinguished_from_errors(value in values(), cut in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&value, ByteOrder::Little);
        let cut = cut.index(bytes.len());
        let error = decode_first(&bytes[..cut], ByteOrder::Little, &Limits::default()).unwrap_err();
        prop_assert!(matches!(error, tapedb_kdb_ipc::KdbError::Truncated { .. }), "{}", error);
    }

    #[test]
    fn any_decoded_value_is_encoded_again(bytes in prop::collection::vec(prop_oneof![0_u8..20, 98_u8..128, any::<u8>()], 0..60)) {
        if let Ok(value) = decode(&bytes, ByteOrder::Little, &Limits::default()) {
            let again = bytes_of(&value, ByteOrder::Little);
            let value = decode(&again, ByteOrder::Little, &Limits::default()).unwrap();
            prop_assert_eq!(bytes_of(&value, ByteOrder::Little), again);
        }
    }
}
