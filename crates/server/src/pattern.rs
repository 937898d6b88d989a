//! Patterns of stream names: `*` stands for any text, `?` for one character, all else for itself.

/// Whether `name` is one of those that `pattern` means.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and how much of the name it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                // The last star takes one character more; an earlier one never needs to.
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
    fn patterns_mean_what_shells_mean() {
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
    fn many_stars_do_not_take_long() {
        assert!(!matches(&"*a".repeat(40), &"a".repeat(39).repeat(2).replace("aa", "ab")));
    }
}
