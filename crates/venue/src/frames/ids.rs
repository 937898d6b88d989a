//! Identifiers of 128 bits.

/// The number of a UUID, `39744121-c20e-44ba-8cc8-a6b8cdf72885`; as high and low half.
pub(crate) fn uuid(text: &str) -> Option<(u64, u64)> {
    let bytes = text.as_bytes();
    let dashed = bytes.len() == 36 && [8, 13, 18, 23].into_iter().all(|place| bytes[place] == b'-');
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    // Written in another way, it would not be the same text again.
    let same = dashed && digits.len() == 32 && !digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| same)?;
    Some(halves(number))
}

/// A whole number; as high and low half.
pub(crate) fn decimal(text: &str) -> Option<(u64, u64)> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).map(halves)
}

fn halves(number: u128) -> (u64, u64) {
    ((number >> 64) as u64, number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_can_be_written_back_are_numbers() {
        assert_eq!(
            uuid("39744121-c20e-44ba-8cc8-a6b8cdf72885"),
            Some((0x3974_4121_c20e_44ba, 0x8cc8_a6b8_cdf7_2885))
        );
        for text in ["39744121-c20e-44ba-8cc8-a6b8cdf7288", "39744121-C20E-44ba-8cc8-a6b8cdf72885", "", "x"] {
            assert_eq!(uuid(text), None, "{text}");
        }
        assert_eq!(decimal("100182534526255757567432481"), Some((5_430_906, 1_455_882_111_438_788_385)));
        assert_eq!(decimal("7"), Some((0, 7)));
        for text in ["07", "+7", "-7", "", "7.0", "340282366920938463463374607431768211456"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
