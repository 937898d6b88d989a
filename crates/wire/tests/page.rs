//! Compares `docs/format/wire.md` with the source.

const PAGE: &str = include_str!("../../../docs/format/wire.md");
const SOURCE: &str = include_str!("../src/message.rs");

/// The messages in the source: kind, name, names of fields.
fn messages() -> Vec<(u8, &'static str, Vec<&'static str>)> {
    let mut messages = Vec::new();
    for line in SOURCE.lines() {
        if let Some((name, rest)) = line.trim().split_once(" = ")
            && let Some((kind, _)) = rest.split_once(" {")
            && let Ok(kind) = kind.parse()
        {
            messages.push((kind, name, Vec::new()));
        } else if let Some(rest) = line.strip_prefix("            ")
            && let Some((field, _)) = rest.split_once(": ")
            && field.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && rest.ends_with(',')
            && let Some((_, _, fields)) = messages.last_mut()
            && !SOURCE[..SOURCE.find(line).unwrap_or(0)].contains("split_append(payload")
        {
            fields.push(field);
        }
    }
    messages
}

#[test]
fn every_message_and_field_is_on_the_page() {
    let messages = messages();
    assert!(messages.len() >= 35, "{}", messages.len());
    for (kind, name, fields) in messages {
        let row = PAGE.lines().filter(|line| line.starts_with(&format!("| {kind} | `{name}` |")));
        let rows: Vec<_> = row.collect();
        let has_all = |row: &&str| fields.iter().all(|field| row.contains(&format!("`{field}`")));
        assert!(rows.iter().any(has_all), "{kind} {name} {fields:?}: {rows:?}");
    }
}
