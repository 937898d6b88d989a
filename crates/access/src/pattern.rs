//! Patterns of stream names: `*` matches any text, `?` one character, all others themselves.

/// Whether `pattern` matches `name`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The position of the last star, and the part of the name before its match ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                // The last star takes one more character; an earlier star never needs to.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_shells() {
        for (pattern, names, others) in [
            ("*", vec!["", "a", "a/b"], vec![]),
            ("ticks", vec!["ticks"], vec!["tick", "ticks2", ""]),
            ("us.*", vec!["us.", "us.a.b"], vec!["us", "eu.us."]),
            ("*.raw", vec!["a.raw", ".raw.raw"], vec!["a.raws"]),
            ("a*b*c", vec!["abc", "aXbYbZc"], vec!["ab", "acb"]),
            ("a?c", vec!["abc", "aéc"], vec!["ac", "abbc"]),
            ("", vec![""], vec!["a"]),
        ] {
            for name in names {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in others {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn many_stars_are_matched_quickly() {
        assert!(!matches(&"*a".repeat(40), &"a".repeat(39).repeat(2).replace("aa", "ab")));
    }
}
