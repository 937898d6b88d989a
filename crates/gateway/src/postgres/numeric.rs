//! Decimals as PostgreSQL's `numeric`.

/// Writes units of a scale as text.
pub(crate) fn text(units: i128, scale: u8, out: &mut Vec<u8>) {
    if units < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(units.unsigned_abs()).as_bytes();
    let scale = usize::from(scale);
    if scale == 0 {
        out.extend(digits);
        return;
    }
    let whole = digits.len().saturating_sub(scale);
    match whole {
        0 => out.push(b'0'),
        _ => out.extend(&digits[..whole]),
    }
    out.push(b'.');
    out.extend(std::iter::repeat_n(b'0', scale.saturating_sub(digits.len())));
    out.extend(&digits[whole..]);
}

/// Writes units of a scale behind their length: digits of base 10,000.
pub(crate) fn binary(units: i128, scale: u8, out: &mut Vec<u8>) {
    let scale = u32::from(scale);
    // Digits after the point are filled to groups of four.
    let fill = (4 - scale % 4) % 4;
    let magnitude = units.unsigned_abs();
    let mut groups = [0u16; 16];
    let mut count = 0;
    let mut rest = magnitude;
    if fill > 0 {
        let low = 10u128.pow(4 - fill);
        groups[0] = (rest % low) as u16 * 10u16.pow(fill);
        rest /= low;
        count = 1;
    }
    while rest > 0 && count < groups.len() {
        groups[count] = (rest % 10_000) as u16;
        rest /= 10_000;
        count += 1;
    }
    let fractions = scale.div_ceil(4) as i32;
    let mut weight = count as i32 - fractions - 1;
    // Neither zeros before the first group nor behind the last one.
    let mut end = count;
    while end > 0 && groups[end - 1] == 0 {
        end -= 1;
        weight -= 1;
    }
    let start = groups[..end].iter().position(|group| *group != 0).unwrap_or(end);
    if end == start {
        weight = 0;
    }
    let sent = &groups[start..end];
    out.extend((8 + 2 * sent.len() as u32).to_be_bytes());
    out.extend((sent.len() as u16).to_be_bytes());
    out.extend((weight as i16).to_be_bytes());
    out.extend(if units < 0 { 0x4000u16 } else { 0 }.to_be_bytes());
    out.extend((scale as u16).to_be_bytes());
    sent.iter().rev().for_each(|group| out.extend(group.to_be_bytes()));
}

/// Units and scale of PostgreSQL's binary form; `None`: it is none, or does not fit.
pub(crate) fn read(bytes: &[u8]) -> Option<(i128, u8)> {
    let word =
        |index: usize| bytes.get(2 * index..2 * index + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let (count, weight, sign, scale) = (word(0)? as usize, word(1)? as i16, word(2)?, word(3)?);
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    if bytes.len() != 8 + 2 * count || !matches!(sign, 0 | 0x4000) {
        return None;
    }
    let mut units = 0i128;
    for index in 0..count {
        let group = word(4 + index).filter(|group| *group < 10_000)?;
        // The group's place: it counts ten thousands to this power.
        let power = 4 * (i32::from(weight) - index as i32) + i32::from(scale);
        let part = match u32::try_from(power) {
            Ok(power) => i128::from(group).checked_mul(10i128.checked_pow(power)?)?,
            Err(_) => i128::from(group) / 10i128.checked_pow(power.unsigned_abs())?,
        };
        units = units.checked_add(part)?;
    }
    Some((if sign == 0 { units } else { -units }, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_both_forms() {
        for (units, scale, expected) in [
            (0, 0, "0"),
            (0, 4, "0.0000"),
            (1, 0, "1"),
            (-1, 1, "-0.1"),
            (10_250, 3, "10.250"),
            (123_456_789_012, 5, "1234567.89012"),
            (10_000, 0, "10000"),
            (u64::MAX.into(), 0, "18446744073709551615"),
            (i128::from(i64::MIN), 9, "-9223372036.854775808"),
            (5, 7, "0.0000005"),
        ] {
            let mut out = Vec::new();
            text(units, scale, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            out.clear();
            binary(units, scale, &mut out);
            assert_eq!(read(&out[4..]), Some((units, scale)), "{expected}");
        }
    }

    #[test]
    fn bytes_that_are_no_number_are_refused() {
        for bytes in [
            &b""[..],
            &[0; 7],
            &[0, 9, 0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0xc0, 0, 0, 0, 0, 1],
            &[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1],
        ] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }
}
