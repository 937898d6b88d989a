//! `--param`: values for the placeholders of queries.

use tapedb_query::Parameters;
use tapedb_terminal::Failure;

/// The values that arguments give: `VALUE` for `$1`, `$2`, …, or `NAME=VALUE` for `$NAME`.
///
/// # Errors
/// When some have names and others have none, a name comes twice, or a number is left out.
pub fn of(arguments: &[String]) -> Result<Parameters, Failure> {
    let mut named: Vec<(&str, &str)> = Vec::new();
    let mut values: Vec<&str> = Vec::new();
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, value)) if is_name(name) => {
                if named.iter().any(|(other, _)| *other == name) {
                    return Err(Failure::usage(format!("--param {name} is given twice; leave one out")));
                }
                named.push((name, value));
            }
            _ => values.push(argument),
        }
    }
    if !named.is_empty() && !values.is_empty() {
        return Err(Failure::usage(format!(
            "--param {:?} has no name and others have one; give all of them names, or none",
            values[0]
        )));
    }
    if arguments.is_empty() {
        return Ok(Parameters::default());
    }
    if !named.iter().any(|(name, _)| name.starts_with(|first: char| first.is_ascii_digit())) {
        return Ok(match named.is_empty() {
            true => Parameters::numbered(values),
            false => Parameters::named(named),
        });
    }
    let number = |number: usize| {
        let text = number.to_string();
        named.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    };
    let values: Option<Vec<&str>> = (1..=named.len()).map(number).collect();
    let missing = || Failure::usage("--param with numbers are 1 and those that follow; none may be left out");
    Ok(Parameters::numbered(values.ok_or_else(missing)?))
}

/// Whether a text before an equals sign is the name of a placeholder, or its number.
fn is_name(text: &str) -> bool {
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_word || (!text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| text.to_string()).collect();
        of(&arguments).map(|parameters| format!("{parameters:?}")).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn values_have_numbers_or_names() {
        assert_eq!(text(&[]), Ok(format!("{:?}", Parameters::default())));
        let numbered = |values: &[&'static str]| Ok(format!("{:?}", Parameters::numbered(values.to_vec())));
        assert_eq!(text(&["AAPL", "2024-01-02"]), numbered(&["AAPL", "2024-01-02"]));
        assert_eq!(text(&["2=b=c", "1=a"]), numbered(&["a", "b=c"]));
        assert_eq!(text(&["a b=c", "=x"]), numbered(&["a b=c", "=x"]), "these are no names");
        assert_eq!(text(&["symbol=A=B"]), Ok(format!("{:?}", Parameters::named([("symbol", "A=B")]))));
        assert!(text(&["symbol=A", "7"]).unwrap_err().contains("has no name"));
        assert!(text(&["a=1", "a=2"]).unwrap_err().contains("twice"));
        assert!(text(&["1=a", "3=b"]).unwrap_err().contains("none may be left out"));
    }
}
