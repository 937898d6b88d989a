//! `tapedb shell`: commands on a database and streams that are selected once.
//!
//! A line becomes the words of a `tapedb` command, completed from the settings (`line.rs`), so every command of `tapedb` works here
//! in the same way. `rates.rs` measures reading, as TimeBase's studies do.

mod line;
mod prompt;
mod rates;
mod settings;

use crate::input::ScriptLines;
use crate::program::Program;
use line::Line;
use prompt::Prompt;
use settings::Settings;
use std::io::{self, IsTerminal};
use tapedb_engine::Database;
use tapedb_terminal::{Failure, Ui};

/// Type commands on a database and streams that are selected once.
///
/// `set db PLACE`, `open`, `set stream bars`, then `desc`, `entities`, `select 10`, `tptime`, `tail` …; `help` lists all.
/// Every command of `tapedb` works too, without --db. With a terminal there are history and completion; without one the
/// shell reads a script from standard input, and ends with the first command that fails.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The database: a directory, or the address of a server.
    #[arg(long, value_name = "PLACE")]
    db: Option<String>,

    /// A command to run, instead of standard input; may be given several times.
    #[arg(long, short, value_name = "COMMAND")]
    command: Vec<String>,

    /// Continue after a failed command, also in a script.
    #[arg(long)]
    keep_going: bool,
}

const EXAMPLES: &str = "\
Examples:
  tapedb shell --db demo.tape
  tapedb shell --db tape://localhost:7847 -c 'set stream bars' -c 'tptimea 4'
  tapedb shell < script.txt";

/// A running shell.
struct Shell<'a> {
    settings: Settings,
    program: &'static Program,
    ui: &'a Ui,
}

/// Whether the shell continues.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Quit,
}

/// Runs typed commands, or a script.
pub fn run(args: Args, program: &'static Program, ui: &Ui) -> Result<(), Failure> {
    let mut shell = Shell { settings: Settings::default(), program, ui };
    if let Some(place) = args.db {
        shell.settings.set("db", &place)?;
        shell.settings.open()?;
    }
    if !args.command.is_empty() {
        return shell.script(args.command.into_iter().map(Ok), args.keep_going);
    }
    if io::stdin().is_terminal() && !ui.json() {
        return shell.converse();
    }
    shell.script(ScriptLines::new(ui)?, args.keep_going)
}

impl Shell<'_> {
    fn converse(&mut self) -> Result<(), Failure> {
        let mut prompt = Prompt::new(self.program)?;
        self.ui.note("TapeDB shell; `help` lists the commands, `quit` ends it.");
        while let Some(line) = prompt.ask(&self.settings)? {
            match self.carry_out(&line) {
                Ok(Next::GoOn) => {}
                Ok(Next::Quit) => break,
                Err(Failure::OutputClosed) => return Err(Failure::OutputClosed),
                Err(failure) => {
                    failure.report(self.ui.json());
                    // Ctrl-C has ended the command, not the shell.
                    self.ui.forget_interrupt();
                }
            }
        }
        prompt.keep_history();
        Ok(())
    }

    /// Runs the lines of a script.
    fn script(
        &mut self,
        lines: impl Iterator<Item = io::Result<String>>,
        keep_going: bool,
    ) -> Result<(), Failure> {
        let mut failed = 0_u64;
        for (number, line) in lines.enumerate() {
            // A signal ended the wait for a line.
            self.ui.check_interrupt()?;
            let line =
                line.map_err(|error| Failure::new(format!("cannot read the script: {error}; check it")))?;
            match self.carry_out(&line) {
                Ok(Next::GoOn) => {}
                Ok(Next::Quit) => break,
                Err(failure @ (Failure::OutputClosed | Failure::Interrupted { .. })) => return Err(failure),
                Err(failure) if keep_going => {
                    failure.report(self.ui.json());
                    failed += 1;
                }
                Err(failure) => return Err(failure.in_line(number + 1)),
            }
        }
        match failed {
            0 => Ok(()),
            failed => Err(Failure::new(format!("{failed} commands failed; see the errors above"))),
        }
    }

    fn carry_out(&mut self, line: &str) -> Result<Next, Failure> {
        match Line::parse(line, &self.settings, self.program)? {
            Line::Nothing => {}
            Line::Quit => return Ok(Next::Quit),
            Line::Help(topic) => self.ui.print(&line::help(topic.as_deref(), self.program)?)?,
            Line::Set(what, value) => self.settings.set(&what, &value)?,
            Line::Show => self.ui.print(&self.settings.to_string())?,
            Line::Open => {
                self.settings.open()?;
                self.ui.note(&format!("open: {} streams", self.database()?.streams()?.len()));
            }
            Line::Close => self.settings.close(),
            Line::Rates(readers) => {
                let db = self.database()?;
                self.ui.print(&rates::measure(&db, &self.settings, readers, self.ui)?)?;
            }
            Line::Command(words) => (self.program.run)(words, self.ui)?,
        }
        Ok(Next::GoOn)
    }

    fn database(&self) -> Result<Database, Failure> {
        self.settings.database()
    }
}
