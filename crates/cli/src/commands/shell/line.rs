//! Parses a line: a command of the shell, or the words of a `tapedb` command, completed from the settings.

use super::settings::{NAMES, Settings};
use crate::output::Format;
use crate::program::Program;
use std::path::Path;
use tapedb_terminal::{Failure, quantity};

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Empty, or a comment.
    Nothing,
    /// End the shell.
    Quit,
    /// Help for one command or all.
    Help(Option<String>),
    /// Change a setting.
    Set(String, String),
    /// Show the settings.
    Show,
    /// Open the database.
    Open,
    /// Close it.
    Close,
    /// Measure reading with this number of readers.
    Rates(u32),
    /// A command of `tapedb`.
    Command(Vec<String>),
}

/// The commands of the shell: syntax and meaning.
pub const COMMANDS: [(&str, &str); 19] = [
    ("set", "set NAME VALUE        change a setting for the next commands"),
    ("show", "show                  show the settings"),
    ("open", "open                  open the database for the next commands"),
    ("close", "close                 close it"),
    ("streams", "streams               streams, their sizes and times"),
    ("desc", "desc [STREAM]         options and schema"),
    ("entities", "entities [STREAM]     symbols (also: symbols)"),
    (
        "select",
        "select [N]            print the first N selected messages, 10 by default (all: `select all`)",
    ),
    ("reverse", "reverse [N]           print the last N selected messages, the latest first"),
    ("tail", "tail [OPTION…]        print messages as they arrive, until Ctrl-C"),
    ("tptime", "tptime                read all selected messages, and print the rate"),
    ("tptimea", "tptimea N             the same with N readers at once"),
    ("import", "import FORMAT FILE…   import files into the selected stream (`help import`)"),
    ("export", "export FILE           write the selected messages as .csv, .json or .txt"),
    ("purge", "purge TIME            delete all messages before a time, permanently"),
    ("truncate", "truncate TIME         delete all messages from a time on, permanently"),
    ("help", "help [COMMAND]        this list, or help for a command"),
    ("quit", "quit                  end the shell (also: exit, Ctrl-D)"),
    ("#", "# …                   a comment, to the end of the line"),
];

impl Line {
    /// Parses a line.
    pub fn parse(line: &str, settings: &Settings, program: &Program) -> Result<Self, Failure> {
        let line = line.trim();
        if line.starts_with('#') {
            return Ok(Self::Nothing);
        }
        let unclosed = || Failure::usage("a quotation mark is not closed; close it");
        let words = shlex::split(line).ok_or_else(unclosed)?;
        let Some((command, rest)) = words.split_first() else { return Ok(Self::Nothing) };
        let command = command.trim_start_matches('/').to_lowercase();
        Ok(match (command.as_str(), rest) {
            ("quit" | "exit" | "bye", []) => Self::Quit,
            ("help" | "?", []) => Self::Help(None),
            ("help" | "?", [topic, ..]) => Self::Help(Some(topic.clone())),
            ("show" | "set", []) => Self::Show,
            ("set", [what]) => {
                return Err(Failure::usage(format!("a value for {what} is missing; see `help set`")));
            }
            ("set", [what, value @ ..]) => Self::Set(what.to_lowercase(), value.join(" ")),
            ("open", []) => Self::Open,
            ("open", [place]) => {
                return Err(Failure::usage(format!("type `set db {place}`, then `open`")));
            }
            ("close", []) => Self::Close,
            ("tptime", []) => Self::Rates(1),
            ("tptimea", [readers]) => Self::Rates(readers_of(readers)?),
            ("tptimea", _) => return Err(Failure::usage("the number of readers is missing: tptimea N")),
            _ => Self::Command(words_of(&command, rest, settings, program)?),
        })
    }
}

fn readers_of(text: &str) -> Result<u32, Failure> {
    let readers = quantity::count(text).map_err(Failure::usage)?;
    let readers = u32::try_from(readers).ok().filter(|readers| (1..=256).contains(readers));
    readers.ok_or_else(|| Failure::usage(format!("{text} readers are outside 1 to 256")))
}

/// The words of a `tapedb` command.
fn words_of(
    command: &str,
    rest: &[String],
    settings: &Settings,
    program: &Program,
) -> Result<Vec<String>, Failure> {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
    let named = |rest: &[String]| match rest {
        [] => one_stream(settings),
        [name, ..] => Ok(name.clone()),
    };
    let mut words = match (command, rest) {
        ("entities" | "symbols", _) => own(&["symbols", &named(rest)?]),
        ("desc", []) => own(&["desc", &one_stream(settings)?]),
        ("select", _) => selected("read", settings, limit_of(rest)?)?,
        ("reverse", _) => {
            let mut words = selected("read", settings, limit_of(rest)?)?;
            words.push("--reverse".into());
            words
        }
        ("tail", _) => {
            let mut words = own(&["tail"]);
            words.extend(settings.streams()?.iter().cloned());
            words.extend(settings.selection());
            words.extend(rest.iter().cloned());
            words
        }
        ("export", [file]) => {
            let mut words = selected("read", settings, None)?;
            words.extend(own(&["--out", file, "--output", &format_of(file)?]));
            words
        }
        ("export", words) if !words.iter().any(|word| word.starts_with("--")) => {
            return Err(Failure::usage("the file is missing: export FILE.csv"));
        }
        ("import", [format, files @ ..]) if !files.is_empty() && !format.starts_with('-') => {
            let mut words = own(&["import", "--stream", &one_stream(settings)?, "--format", format]);
            words.extend(files.iter().cloned());
            words
        }
        ("purge", [time]) => own(&["purge", &one_stream(settings)?, "--before", time]),
        ("truncate", [time]) => own(&["truncate", &one_stream(settings)?, "--from", time]),
        _ => std::iter::once(command.to_string()).chain(rest.iter().cloned()).collect(),
    };
    let has_db = words.iter().any(|word| word == "--db" || word.starts_with("--db="));
    if takes_db(&words[0], program) && !has_db {
        words.insert(1, format!("--db={}", settings.place()?));
    }
    Ok(words)
}

/// A command over the selected messages.
fn selected(command: &str, settings: &Settings, limit: Option<u64>) -> Result<Vec<String>, Failure> {
    let mut words = vec![command.to_string()];
    words.extend(settings.streams()?.iter().cloned());
    words.extend(settings.times());
    words.extend(settings.selection());
    words.extend(limit.map(|limit| format!("--limit={limit}")));
    Ok(words)
}

fn one_stream(settings: &Settings) -> Result<String, Failure> {
    match settings.streams()? {
        [stream] => Ok(stream.clone()),
        _ => Err(Failure::usage("several streams are selected; name one of them")),
    }
}

fn limit_of(rest: &[String]) -> Result<Option<u64>, Failure> {
    match rest {
        [] => Ok(Some(10)),
        [all] if all == "all" => Ok(None),
        [count] => quantity::count(count).map(Some).map_err(Failure::usage),
        _ => Err(Failure::usage("give one number, or `all`; `set` selects the messages")),
    }
}

fn format_of(file: &str) -> Result<String, Failure> {
    let unnamed = || {
        Failure::usage(format!("{file:?} must end in .csv, .json, .jsonl or .txt, which implies the format"))
    };
    Format::of_name(Path::new(file)).map(|format| format.to_string()).ok_or_else(unnamed)
}

/// Whether a command of `tapedb` works on a database named by `--db`.
fn takes_db(command: &str, program: &Program) -> bool {
    let cli = (program.definition)();
    let found = cli.find_subcommand(command);
    found.is_some_and(|command| command.get_arguments().any(|argument| argument.get_id() == "db"))
}

/// The names of all commands.
pub fn names(program: &Program) -> Vec<String> {
    let own = COMMANDS.iter().map(|(name, _)| (*name).to_string());
    let others = (program.definition)();
    let others = others.get_subcommands().filter(|command| !command.is_hide_set());
    let mut names: Vec<String> = own.chain(others.map(|command| command.get_name().to_string())).collect();
    names.retain(|name| name != "#" && name != "shell");
    names.sort();
    names.dedup();
    names
}

/// The list of commands, or the help for one.
pub fn help(topic: Option<&str>, program: &Program) -> Result<String, Failure> {
    let Some(topic) = topic else { return Ok(overview(program)) };
    if topic == "set" {
        let names = NAMES.iter().map(|(name, value)| format!("  set {name} {value}\n"));
        return Ok(names.collect());
    }
    let own = COMMANDS.iter().find(|(name, _)| *name == topic).map(|(_, usage)| format!("  {usage}\n"));
    let mut cli = (program.definition)();
    let general = cli.find_subcommand_mut(topic).map(|command| command.render_long_help().to_string());
    match (own, general) {
        (None, None) => Err(Failure::usage(format!("there is no command {topic:?}; `help` lists them"))),
        (own, general) => Ok([own, general].into_iter().flatten().collect::<Vec<_>>().join("\n")),
    }
}

fn overview(program: &Program) -> String {
    let mut text: String = COMMANDS.iter().map(|(_, usage)| format!("  {usage}\n")).collect();
    text.push_str("\n  Settings:\n");
    text.extend(NAMES.iter().map(|(name, value)| format!("  set {name:8} {value}\n")));
    let own: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    let others: Vec<String> =
        names(program).into_iter().filter(|name| !own.contains(&name.as_str())).collect();
    text.push_str(&format!("\n  Commands as on the command line, without --db: {}\n", others.join(", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        for (what, value) in [("db", "x.tape"), ("stream", "bars"), ("symbols", "AIG")] {
            settings.set(what, value).unwrap();
        }
        settings
    }

    fn words(line: &str) -> String {
        match Line::parse(line, &settings(), &crate::PROGRAM).unwrap() {
            Line::Command(words) => words.join(" "),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_become_commands() {
        for (line, command) in [
            ("streams", "streams --db=x.tape"),
            ("desc", "desc --db=x.tape bars"),
            ("entities quotes", "symbols --db=x.tape quotes"),
            ("select 5", "read --db=x.tape bars --symbols AIG --limit=5"),
            ("select all", "read --db=x.tape bars --symbols AIG"),
            ("export 'a b.csv'", "read --db=x.tape bars --symbols AIG --out a b.csv --output csv"),
            ("purge 2024-01-02", "purge --db=x.tape bars --before 2024-01-02"),
            ("seal bars", "seal --db=x.tape bars"),
            ("streams --db y", "streams --db y"),
        ] {
            assert_eq!(words(line), command, "{line}");
        }
    }

    #[test]
    fn lines_of_the_shell_itself() {
        let parse = |line| Line::parse(line, &settings(), &crate::PROGRAM).unwrap();
        assert_eq!(parse("  "), Line::Nothing);
        assert_eq!(parse("# set db y"), Line::Nothing);
        assert_eq!(parse("SET Stream a, b"), Line::Set("stream".into(), "a, b".into()));
        assert_eq!(parse("tptimea 4"), Line::Rates(4));
        assert_eq!(parse("exit"), Line::Quit);
        assert_eq!(parse("set"), Line::Show);
    }

    #[test]
    fn invalid_lines_are_refused() {
        for line in
            ["tptimea", "tptimea 0", "set stream", "export", "export a.xml", "select x", "'", "open here"]
        {
            assert!(Line::parse(line, &settings(), &crate::PROGRAM).is_err(), "{line}");
        }
        assert!(Line::parse("select", &Settings::default(), &crate::PROGRAM).is_err());
    }

    #[test]
    fn every_command_has_help() {
        let overview = help(None, &crate::PROGRAM).unwrap();
        for name in names(&crate::PROGRAM) {
            assert!(
                overview.contains(&name) && !help(Some(&name), &crate::PROGRAM).unwrap().is_empty(),
                "{name}"
            );
        }
        assert!(help(Some("fly"), &crate::PROGRAM).is_err());
    }
}
