//! The prompt: statements of several lines, history, and completion of words, tables and columns.

use super::statements::is_ended;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tapedb_engine::Database;
use tapedb_terminal::Failure;

/// Statements of history that are stored.
const HISTORY_MAX: usize = 1_000;

/// The commands of the prompt.
pub const HELP: &str = "\
  SELECT …;         run a query; it may have several lines
  SHOW TABLES;      the tables
  DESCRIBE t;       the columns of a table
  EXPLAIN …;        how a query is run
  \\tables           the tables (also: \\d)
  \\d TABLE          the columns of a table
  \\timing           print how long each query took, or do not
  \\help             this list
  \\quit             end the prompt (also: Ctrl-D)
";

/// Words that are completed.
const WORDS: [&str; 44] = [
    "ASC",
    "ASOF",
    "AND",
    "AS",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COUNT",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERVAL",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MATCH_CONDITION",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "SELECT",
    "SHOW",
    "TABLES",
    "THEN",
    "UNION",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Asks for statements.
pub struct Prompt {
    editor: Editor<Words, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// A prompt with the history of earlier ones, from the home directory.
    pub fn new(db: &Database) -> Result<Self, Failure> {
        let config = rustyline::Config::builder()
            .max_history_size(HISTORY_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Words { known: words(db)? }));
        let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".tapedb_sql_history"));
        if let Some(path) = &history {
            // The file does not exist before the end of the first prompt.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next statements, or a command; `None` at the end of the input. Ctrl-C discards the typed text.
    pub fn ask(&mut self) -> Result<Option<String>, Failure> {
        loop {
            match self.editor.readline("sql> ") {
                Ok(text) => {
                    let _ = self.editor.add_history_entry(&text);
                    return Ok(Some(text));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Stores the history for the next prompt.
    pub fn keep_history(&mut self) {
        if let Some(path) = &self.history {
            // An unwritable home directory does not fail the prompt.
            let _ = self.editor.save_history(path);
        }
    }
}

fn failed(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}; pipe the statements into the command instead"))
}

/// The words of SQL, and the names of the database.
fn words(db: &Database) -> Result<BTreeSet<String>, Failure> {
    let mut words: BTreeSet<String> = WORDS.iter().map(|word| (*word).to_string()).collect();
    words.extend(["time", "symbol", "sequence"].map(String::from));
    for name in db.streams()? {
        let stream = db.stream(&name)?;
        for record in &stream.schema().records {
            words.extend(record.fields.iter().map(|field| field.name.clone()));
            if record.message {
                words.insert(format!("{name}.{}", record.name));
            }
        }
        words.insert(name);
    }
    Ok(words)
}

/// Completes words.
struct Words {
    known: BTreeSet<String>,
}

impl Words {
    /// The candidates at the end of `before`, and their position. Words of SQL are completed in the case of what is typed.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        let is_outside = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '.' | '\\'));
        let start = before
            .rfind(is_outside)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let typed = &before[start..];
        if typed.is_empty() {
            return (start, Vec::new());
        }
        let is_lower = typed.chars().all(|letter| !letter.is_uppercase());
        let candidate = |word: &String| match WORDS.contains(&word.as_str()) {
            true if is_lower => word.to_lowercase(),
            _ => word.clone(),
        };
        let lower = typed.to_lowercase();
        let found = self.known.iter().filter(|word| word.to_lowercase().starts_with(&lower));
        (start, found.map(candidate).collect())
    }
}

impl Helper for Words {}

impl Highlighter for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input().trim();
        let is_command = text.starts_with('\\') || matches!(text, "quit" | "exit" | "help");
        let is_done = is_command || is_ended(text);
        Ok(if is_done { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, candidates) = self.candidates(&line[..at]);
        let pair = |candidate: String| Pair { display: candidate.clone(), replacement: candidate };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed() {
        let names = ["bars", "bars.Bar", "close", "SELECT", "SHOW"];
        let words = Words { known: names.map(String::from).into() };
        let found = |before| words.candidates(before).1;
        assert_eq!(found("sel"), ["select"]);
        assert_eq!(found("S"), ["SELECT", "SHOW"]);
        assert_eq!(found("SELECT sum(CLO"), ["close"]);
        assert_eq!(found("SELECT * FROM bars.b"), ["bars.Bar"]);
        assert_eq!(words.candidates("SELECT * FROM ba").0, 14);
        assert!(found("SELECT ").is_empty());
    }
}
