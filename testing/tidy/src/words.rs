//! Words that comments, texts and pages do not use of programs, with those that say the same in the field's terms: `words.txt`.
//!
//! `budgets.txt` says how often each part of the tree still has them. The numbers only fall: with `TIDY_LOWER=1` the test
//! writes those of today where they are lower.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::source::{Kind, tokens};
use crate::tree;

/// A word to avoid, and what to say.
#[derive(Debug)]
pub struct Rule<'a> {
    word: &'a str,
    instead: &'a str,
}

/// The rules of `words.txt`: a word or several, a colon, what to say.
pub fn rules(list: &str) -> Vec<Rule<'_>> {
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let (word, instead) =
                line.split_once(':').unwrap_or_else(|| panic!("words.txt: no colon: {line}"));
            Rule { word: word.trim(), instead: instead.trim() }
        })
        .collect()
}

/// What a file has of prose, with line numbers: comments and texts of a program, all of a page but for its blocks of code.
fn prose(path: &Path, content: &str) -> Vec<(usize, String)> {
    let numbered = |first: usize, text: &str| {
        text.lines().enumerate().map(|(index, line)| (first + index, line.to_string())).collect::<Vec<_>>()
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => {
            // A text without a space is a name: of a metric, a command, a message of the protocol.
            let is_prose =
                |kind: Kind, text: &str| kind == Kind::Comment || kind == Kind::Text && text.contains(' ');
            let prose = tokens(content).into_iter().filter(|token| is_prose(token.kind, token.text));
            prose.flat_map(|token| numbered(token.line, token.text)).collect()
        }
        Some("py") => {
            let comments = content.lines().enumerate().filter(|(_, line)| line.contains(['#', '"']));
            comments.map(|(index, line)| (index + 1, line.to_string())).collect()
        }
        _ => numbered(1, content),
    }
}

/// Where the rules' words stand in a line, as whole words; what stands between backquotes is a name and does not count.
fn found<'a, 'b>(rules: &'a [Rule<'b>], line: &str) -> Vec<&'a Rule<'b>> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`").to_lowercase();
    let words: Vec<_> =
        prose.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let occurrences = |rule: &Rule<'_>| {
        let wanted: Vec<_> = rule.word.split(' ').collect();
        words.windows(wanted.len()).filter(|words| **words == wanted[..]).count()
    };
    rules.iter().flat_map(|rule| std::iter::repeat_n(rule, occurrences(rule))).collect()
}

/// The part of the tree that a file counts for: `crates/log`, `testing`, `docs`, …; none for what is history, or about words.
fn part(path: &str) -> Option<String> {
    let mut names = path.split('/');
    match names.next()? {
        "CHANGELOG.md" => None,
        "crates" => names.next().map(|name| format!("crates/{name}")),
        "testing" if names.next() == Some("tidy") => None,
        name if path.contains('/') => Some(name.to_string()),
        _ => Some("pages of the root".to_string()),
    }
}

/// A page of lines that name file, line, word and what to say, for each part.
pub fn occurrences(root: &Path, rules: &[Rule<'_>]) -> BTreeMap<String, Vec<String>> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in ["rs", "md", "py"].iter().flat_map(|extension| tree::files(root, extension)) {
        let name = tree::below(root, &path);
        let Some(part) = part(&name) else { continue };
        let lines = parts.entry(part).or_default();
        for (number, line) in prose(&path, &tree::read(&path)) {
            for rule in found(rules, &line) {
                lines.push(format!("{name}:{number}: {} → {}: {}", rule.word, rule.instead, line.trim()));
            }
        }
    }
    parts
}

/// The numbers of `budgets.txt`: a part, a colon, a number. A part that is not there has none to spend.
pub fn budgets(text: &str) -> BTreeMap<String, usize> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (part, number) =
                line.split_once(':').unwrap_or_else(|| panic!("budgets.txt: no colon: {line}"));
            (part.trim().to_string(), number.trim().parse().unwrap_or_else(|_| panic!("budgets.txt: {line}")))
        })
        .collect()
}

/// The text of `budgets.txt` with what each part has today, where that is lower.
pub fn lowered(text: &str, counts: &BTreeMap<String, usize>) -> String {
    let mut lower: String = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .fold(String::new(), |lines, line| lines + line + "\n");
    for (part, budget) in budgets(text) {
        let number = counts.get(&part).copied().unwrap_or(0).min(budget);
        if number > 0 {
            writeln!(lower, "{part}: {number}").expect("a string takes all");
        }
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# comment\nanew: again\nat a glance: plainly\n";

    #[test]
    fn whole_words_count_and_names_do_not() {
        let rules = rules(RULES);
        let count = |line: &str| found(&rules, line).len();
        assert_eq!(count("Anew, and anew."), 2);
        assert_eq!(count("renewed `anew` anewish"), 0);
        assert_eq!(count("seen at a glance"), 1);
        assert_eq!(count("at a loss"), 0);
    }

    #[test]
    fn prose_is_comments_and_texts() {
        let source = "// one\nfn two() { \"three four\"; \"a-name\" }\n/* five\nsix */";
        let lines: Vec<_> = prose(Path::new("a.rs"), source).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert_eq!(prose(Path::new("a.md"), "one\ntwo").len(), 2);
    }

    #[test]
    fn files_count_for_their_part() {
        assert_eq!(part("crates/log/src/lib.rs").as_deref(), Some("crates/log"));
        assert_eq!(part("testing/soak/src/lib.rs").as_deref(), Some("testing"));
        assert_eq!(part("testing/tidy/src/words.rs"), None);
        assert_eq!(part("README.md").as_deref(), Some("pages of the root"));
        assert_eq!(part("CHANGELOG.md"), None);
    }

    #[test]
    fn budgets_only_fall() {
        let counts = BTreeMap::from([("a".to_string(), 3), ("b".to_string(), 9)]);
        assert_eq!(lowered("# words\na: 5\nb: 5\nc: 5\n", &counts), "# words\na: 3\nb: 5\n");
    }

    #[test]
    fn no_part_has_more_of_the_words_than_its_budget() {
        let root = tree::root();
        let rules = rules(include_str!("../words.txt"));
        let occurrences = occurrences(&root, &rules);
        let file = root.join("testing/tidy/budgets.txt");
        let text = tree::read(&file);
        let counts = occurrences.iter().map(|(part, lines)| (part.clone(), lines.len())).collect();
        let mut wrong = String::new();
        for (part, lines) in &occurrences {
            let budget = budgets(&text).get(part).copied().unwrap_or(0);
            println!("{part}: {} of {budget}", lines.len());
            if lines.len() > budget {
                writeln!(
                    wrong,
                    "{part} has {} words to avoid, {budget} allowed:\n  {}",
                    lines.len(),
                    lines.join("\n  ")
                )
                .unwrap();
            }
        }
        if let Some(part) = std::env::var_os("TIDY_LIST") {
            let part = part.to_string_lossy();
            println!("{}", occurrences.get(part.as_ref()).map(|lines| lines.join("\n")).unwrap_or_default());
        }
        if std::env::var_os("TIDY_LOWER").is_some() {
            std::fs::write(&file, lowered(&text, &counts)).unwrap();
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
