//! Values of parameters that are arrays: `symbol = ANY($1)`. They have one dimension.

use crate::postgres::failure::Failure;
use crate::postgres::parameter::{binary, data_type, text};
use crate::postgres::types::Type;
use datafusion::common::ScalarValue;
use tapedb_query::arrow::datatypes::DataType;

/// An array in PostgreSQL's text: `{a,"b,c",NULL}`. `None`: the text is none.
///
/// # Errors
/// An item that is no value of its type.
pub(crate) fn of_text(item: &Type, source: &str) -> Result<Option<ScalarValue>, Failure> {
    let Some(items) = items(source) else { return Ok(None) };
    let values = items.into_iter().map(|found| match found {
        Some(found) => text(item, found.as_bytes()),
        None => Ok(null(item)),
    });
    Ok(list(item, values.collect::<Result<_, _>>()?))
}

/// The items of an array; `None`: the text is not one of one dimension.
fn items(source: &str) -> Option<Vec<Option<String>>> {
    let inside = source.trim().strip_prefix('{')?.strip_suffix('}')?;
    let (mut items, mut rest) = (Vec::new(), inside.trim_start());
    if rest.is_empty() {
        return Some(items);
    }
    loop {
        let (mut text, mut is_quoted) = (String::new(), false);
        let mut letters = rest.char_indices();
        let mut is_inside = false;
        let end = loop {
            match letters.next() {
                None if is_inside => return None,
                None => break rest.len(),
                Some((_, '\\')) => text.push(letters.next()?.1),
                Some((_, '"')) if is_inside => is_inside = false,
                // Only a whole item is quoted.
                Some((_, '"')) if text.trim().is_empty() && !is_quoted => {
                    text.clear();
                    (is_inside, is_quoted) = (true, true);
                }
                Some((_, letter)) if is_inside => text.push(letter),
                Some((at, ',')) => break at,
                Some((_, '{' | '}' | '"')) => return None,
                Some((_, letter)) if is_quoted && !letter.is_whitespace() => return None,
                Some((_, _)) if is_quoted => {}
                Some((_, letter)) => text.push(letter),
            }
        };
        let plain = text.trim();
        items.push(match (is_quoted, plain) {
            (true, _) => Some(text),
            (false, "") => return None,
            (false, plain) if plain.eq_ignore_ascii_case("null") => None,
            (false, plain) => Some(plain.to_string()),
        });
        match rest[end..].strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return Some(items),
        }
    }
}

/// An array in PostgreSQL's bytes. `None`: they are none.
pub(crate) fn of_bytes(item: &Type, bytes: &[u8]) -> Option<ScalarValue> {
    let (dimensions, rest) = number(bytes)?;
    let (_has_nulls, rest) = number(rest)?;
    let (oid, mut rest) = number(rest)?;
    let is_its = Type::of_oid(oid.cast_unsigned()).is_some_and(|found| found == *item);
    let count = match dimensions {
        0 => 0,
        1 => {
            let (count, after) = number(rest)?;
            let (_first, after) = number(after)?;
            rest = after;
            usize::try_from(count).ok()?
        }
        _ => return None,
    };
    // Each item has four bytes at least: what is stated takes no memory that was not sent.
    if !is_its || count > rest.len() / 4 {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, after) = number(rest)?;
        if length == -1 {
            values.push(null(item));
            rest = after;
        } else {
            let (value, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
            values.push(binary(item, value)?);
            rest = after;
        }
    }
    if rest.is_empty() { list(item, values) } else { None }
}

fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*number), rest))
}

fn null(item: &Type) -> ScalarValue {
    ScalarValue::try_from(&data_type(item)).unwrap_or(ScalarValue::Null)
}

/// An array of numbers in the type that the query makes of its parameter, if it has all of them exactly: PostgreSQL has no unsigned integers, so
/// clients send those as decimals, and no list of these has an integer as an item.
pub(crate) fn as_inferred(value: ScalarValue, inferred: Option<&DataType>) -> ScalarValue {
    let (ScalarValue::List(_), Some(inferred)) = (&value, inferred) else { return value };
    let cast = value.cast_to(inferred);
    let is_exact = |cast: &ScalarValue| cast.cast_to(&value.data_type()).is_ok_and(|again| again == value);
    match cast {
        Ok(cast) if is_exact(&cast) => cast,
        _ => value,
    }
}

/// Values of one type as a list. `None`: there is no type that has all of them exactly.
fn list(item: &Type, mut values: Vec<ScalarValue>) -> Option<ScalarValue> {
    let mut ty = data_type(item);
    if let Type::Numeric(_) = item {
        ty = common_decimal(&values)?;
        for value in &mut values {
            *value =
                if value.is_null() { ScalarValue::try_from(&ty).ok()? } else { value.cast_to(&ty).ok()? };
        }
    }
    Some(ScalarValue::List(ScalarValue::new_list(&values, &ty, true)))
}

/// The type of decimals with the most digits behind the point; of NaN and large exponents, doubles.
fn common_decimal(values: &[ScalarValue]) -> Option<DataType> {
    if values.iter().any(|value| matches!(value, ScalarValue::Float64(Some(_)))) {
        return Some(DataType::Float64);
    }
    let scale = |value: &ScalarValue| match value {
        ScalarValue::Decimal128(_, _, scale) => Some(*scale),
        _ => None,
    };
    Some(DataType::Decimal128(38, values.iter().filter_map(scale).max().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::parameter::value;

    fn texts(values: &[Option<&str>]) -> ScalarValue {
        let values: Vec<ScalarValue> =
            values.iter().map(|text| ScalarValue::Utf8(text.map(String::from))).collect();
        ScalarValue::List(ScalarValue::new_list(&values, &DataType::Utf8, true))
    }

    #[test]
    fn texts_are_read() {
        for (source, expected) in [
            ("{}", vec![]),
            (" { } ", vec![]),
            ("{a,b}", vec![Some("a"), Some("b")]),
            ("{ a , NULL,null}", vec![Some("a"), None, None]),
            (r#"{"a,b","NULL","","q\"\\ü"}"#, vec![Some("a,b"), Some("NULL"), Some(""), Some("q\"\\ü")]),
            (r"{a\,b}", vec![Some("a,b")]),
        ] {
            assert_eq!(value(1009, false, Some(source.as_bytes())), Ok(texts(&expected)), "{source}");
        }
        for wrong in [
            "",
            "{",
            "}",
            "{a",
            "{a,}",
            "{,a}",
            "{{a}}",
            "{\"a}",
            "{\"a\"b}",
            "{a\"b\"}",
            "{a\\",
            "[0:1]={a}",
        ] {
            assert!(value(1009, false, Some(wrong.as_bytes())).is_err(), "{wrong}");
        }
        assert!(value(1016, false, Some(b"{1,x}")).is_err());
        assert_eq!(value(1009, false, None).unwrap().data_type(), DataType::new_list(DataType::Utf8, true));
    }

    #[test]
    fn decimals_have_one_scale() {
        let found = value(1231, false, Some(b"{1.5,2,NULL,0.125}")).unwrap();
        assert_eq!(found.data_type(), DataType::new_list(DataType::Decimal128(38, 3), true));
        assert!(found.to_string().contains("0.125"), "{found}");
    }

    #[test]
    fn decimals_become_integers_where_they_are_compared_with_them() {
        let integers = DataType::new_list(DataType::UInt64, true);
        let of = |source: &[u8]| as_inferred(value(1231, false, Some(source)).unwrap(), Some(&integers));
        assert_eq!(of(b"{18446744073709551615,1,NULL}").data_type(), integers);
        for source in [&b"{1.5}"[..], b"{-1}", b"{18446744073709551616}"] {
            assert_ne!(of(source).data_type(), integers, "{source:?}");
        }
    }

    #[test]
    fn bytes_are_read() {
        let head = |dimensions: i32, oid: i32, counts: &[i32]| {
            let mut bytes = Vec::new();
            [dimensions, 1, oid].iter().chain(counts).for_each(|part| bytes.extend(part.to_be_bytes()));
            bytes
        };
        let mut good = head(1, 20, &[2, 1]);
        good.extend([0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 255, 255, 255, 255]);
        let expected = [ScalarValue::Int64(Some(7)), ScalarValue::Int64(None)];
        let expected = ScalarValue::List(ScalarValue::new_list(&expected, &DataType::Int64, true));
        assert_eq!(value(1016, true, Some(&good)), Ok(expected));
        assert_eq!(of_bytes(&Type::Text, &head(0, 25, &[])), Some(texts(&[])));
        for end in 0..good.len() {
            assert!(value(1016, true, Some(&good[..end])).is_err(), "{end}");
        }
        for wrong in [
            head(2, 20, &[1, 1, 1, 1]),
            head(1, 25, &[0, 1]),
            head(1, 20, &[i32::MAX, 1]),
            head(1, 20, &[-1, 1]),
            [good.as_slice(), &[0]].concat(),
        ] {
            assert!(value(1016, true, Some(&wrong)).is_err(), "{wrong:?}");
        }
    }
}
