//! Every code is on the page of the protocol.

const PAGE: &str = include_str!("../../../docs/format/wire.md");
const COMMANDS: &str = include_str!("command.rs");
const OUTCOMES: &str = include_str!("outcome.rs");
const ERRORS: &str = include_str!("error.rs");

/// The codes in a source.
fn codes(source: &str) -> Vec<u16> {
    let (_, after) = source.split_once("mod code {").expect("the module is there");
    let (body, _) = after.split_once("\n}").expect("it ends");
    let number = |line: &str| line.split_once("u16 = ")?.1.trim_end_matches(';').parse().ok();
    body.lines().filter_map(number).collect()
}

/// The codes in the table of a section of the page.
fn on_the_page(section: &str) -> Vec<u16> {
    let (_, after) = PAGE.split_once(&format!("### {section}\n")).expect("the section is there");
    let rows = after.lines().take_while(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.strip_prefix("| ")?.split_once(' ')?.0.parse().ok()).collect()
}

#[test]
fn every_code_is_on_the_page() {
    for (source, section) in [(COMMANDS, "Commands"), (OUTCOMES, "Outcomes"), (ERRORS, "Failures")] {
        let codes = codes(source);
        assert!(codes.len() >= 4, "{section}: {codes:?}");
        assert_eq!(on_the_page(section), codes, "{section}");
    }
}
