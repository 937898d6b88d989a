//! The line at the terminal: history, and completion of commands, streams and settings.

use super::line;
use super::settings::{NAMES, Settings};
use crate::program::Program;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::path::PathBuf;
use tapedb_terminal::Failure;

/// Lines of history that are stored.
const HISTORY_MAX: usize = 1_000;

/// Asks for lines.
pub struct Prompt {
    editor: Editor<Completion, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    /// A prompt with the history of earlier shells, from the home directory.
    pub fn new(program: &Program) -> Result<Self, Failure> {
        let config = rustyline::Config::builder()
            .max_history_size(HISTORY_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Completion { names: line::names(program), streams: Vec::new() }));
        let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".tapedb_history"));
        if let Some(path) = &history {
            // The file does not exist before the end of the first shell.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next line; `None` at the end of the input. Ctrl-C discards the typed text.
    pub fn ask(&mut self, settings: &Settings) -> Result<Option<String>, Failure> {
        if let Some(completion) = self.editor.helper_mut() {
            completion.streams = settings.database().and_then(|db| Ok(db.streams()?)).unwrap_or_default();
        }
        let prompt = match &settings.streams[..] {
            [] => "tapedb> ".to_string(),
            streams => format!("tapedb {}> ", streams.join(",")),
        };
        loop {
            match self.editor.readline(&prompt) {
                Ok(line) => {
                    let _ = self.editor.add_history_entry(&line);
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Stores the history for the next shell.
    pub fn keep_history(&mut self) {
        if let Some(path) = &self.history {
            // An unwritable home directory does not fail the shell.
            let _ = self.editor.save_history(path);
        }
    }
}

fn failed(error: ReadlineError) -> Failure {
    Failure::new(format!("the terminal: {error}; pipe a script into the shell instead"))
}

/// Completes the first word from commands, later ones from settings and streams.
struct Completion {
    names: Vec<String>,
    streams: Vec<String>,
}

impl Completion {
    /// The candidates at the end of `before`, and their position.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        let start = before.rfind([' ', ',']).map_or(0, |space| space + 1);
        let words: Vec<&str> = before[..start].split_whitespace().collect();
        let settings = || NAMES.iter().map(|(name, _)| (*name).to_string()).collect();
        let candidates = match &words[..] {
            [] => self.names.clone(),
            ["set"] => settings(),
            ["help"] => self.names.clone(),
            ["set", "db", ..] => Vec::new(),
            _ => self.streams.clone(),
        };
        let typed = &before[start..];
        (start, candidates.into_iter().filter(|candidate| candidate.starts_with(typed)).collect())
    }
}

impl Helper for Completion {}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Hinter for Completion {
    type Hint = String;
}

impl Completer for Completion {
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
        let names = line::names(&crate::PROGRAM);
        let completion = Completion { names, streams: vec!["bars".into(), "book".into(), "quotes".into()] };
        let found = |before| completion.candidates(before).1;
        assert_eq!(found("tptimea"), ["tptimea"]);
        assert_eq!(found("tpt"), ["tptime", "tptimea"]);
        assert_eq!(found("set sy"), ["symbols"]);
        assert_eq!(completion.candidates("set stream b"), (11, vec!["bars".into(), "book".into()]));
        assert_eq!(completion.candidates("set stream bars,q"), (16, vec!["quotes".into()]));
        assert!(found("set db ").is_empty());
    }
}
