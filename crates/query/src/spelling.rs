//! Names found without regard to case where that is clear, and suggested where they are wrong.

/// The name among others that is meant: the same, or the only one that differs by case alone.
pub(crate) fn find<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if let Some(same) = names.clone().find(|other| *other == name) {
        return Some(same);
    }
    let mut like = names.filter(|other| other.to_lowercase() == name.to_lowercase());
    match (like.next(), like.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// The names near a wrong one, as the end of a message; empty: none is near.
pub(crate) fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let wanted = name.to_lowercase();
    let limit = (wanted.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = names
        .map(|other| (distance(&wanted, &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    match &found[..] {
        [] => String::new(),
        [(_, only)] => format!("; did you mean {only:?}?"),
        [(_, first), (_, second), ..] => format!("; did you mean {first:?} or {second:?}?"),
    }
}

/// Number of letters to be added, removed, replaced or exchanged with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            next[j + 1] = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                next[j + 1] = next[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_case_where_that_is_clear() {
        let names = ["Bar", "bar", "Tick"];
        let found = |name| find(name, names.iter().copied());
        assert_eq!(found("bar"), Some("bar"));
        assert_eq!(found("tick"), Some("Tick"));
        assert_eq!(found("BAR"), None);
        assert_eq!(found("x"), None);
    }

    #[test]
    fn near_names_are_suggested() {
        let names = ["price", "size", "symbol"];
        let near = |name| near(name, names.iter().copied());
        assert_eq!(near("prcie"), "; did you mean \"price\"?");
        assert_eq!(near("perci"), "");
        assert_eq!(near("pric"), "; did you mean \"price\"?");
        assert_eq!(near("Symbl"), "; did you mean \"symbol\"?");
        assert_eq!(near("volume"), "");
        assert_eq!([distance("", "abc"), distance("kitten", "sitting"), distance("a", "a")], [3, 3, 0]);
    }
}
