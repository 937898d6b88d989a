//! The codes that go over the wire are those on its page.

const PAGE: &str = include_str!("../../../../docs/format/wire.md");
const COMMANDS: &str = include_str!("../../src/upstream/command.rs");
const ERRORS: &str = include_str!("../../src/upstream/errors.rs");

/// The codes in a module of the source.
fn codes(source: &str, module: &str) -> Vec<u16> {
    let (_, after) = source.split_once(&format!("mod {module} {{")).expect("the module is there");
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
    for (source, module, section) in [
        (COMMANDS, "command_code", "Commands"),
        (COMMANDS, "outcome_code", "Outcomes"),
        (ERRORS, "code", "Failures"),
    ] {
        let codes = codes(source, module);
        assert!(codes.len() >= 4, "{section}: {codes:?}");
        assert_eq!(on_the_page(section), codes, "{section}");
    }
}
