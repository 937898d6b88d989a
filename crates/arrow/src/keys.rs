//! Keys of dictionaries. Arrays of other programs come unchecked: a key may have no value.

use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, downcast_integer_array};
use arrow_buffer::ArrowNativeType;

/// The keys of a dictionary with so many values; 0 where they are null.
///
/// # Errors
/// Says which key has no value.
pub(crate) fn keys_of(keys: &dyn Array, values: usize) -> Result<Vec<usize>, String> {
    downcast_integer_array!(
        keys => of(keys, values),
        other => Err(format!("{other} cannot be the keys of a dictionary"))
    )
}

fn of<T: ArrowPrimitiveType>(keys: &PrimitiveArray<T>, values: usize) -> Result<Vec<usize>, String> {
    let key = |index: usize| match keys.value(index).to_usize() {
        _ if keys.is_null(index) => Ok(0),
        Some(key) if key < values => Ok(key),
        _ => Err(format!(
            "value {index} has the key {:?}, and its dictionary has {values} values",
            keys.value(index)
        )),
    };
    (0..keys.len()).map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::keys_of;
    use arrow_array::{Float64Array, Int8Array, UInt64Array};

    #[test]
    fn keys_without_a_value_are_refused() {
        assert_eq!(keys_of(&Int8Array::from(vec![2, 0, 1]), 3), Ok(vec![2, 0, 1]));
        assert_eq!(keys_of(&UInt64Array::from(vec![None, None]), 0), Ok(vec![0, 0]));
        let wrong = keys_of(&Int8Array::from(vec![0, -1]), 3).unwrap_err();
        assert_eq!(wrong, "value 1 has the key -1, and its dictionary has 3 values");
        for (keys, values) in [(vec![u64::MAX], 3), (vec![3], 3), (vec![0], 0)] {
            keys_of(&UInt64Array::from(keys), values).unwrap_err();
        }
        keys_of(&Float64Array::from(vec![0.0]), 1).unwrap_err();
    }

    #[test]
    fn what_lies_under_a_null_is_not_a_key() {
        let keys = Int8Array::new(vec![0, 9].into(), Some(vec![true, false].into()));
        assert_eq!(keys_of(&keys, 1), Ok(vec![0, 0]));
    }
}
