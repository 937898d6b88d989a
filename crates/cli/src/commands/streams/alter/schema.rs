//! Another schema for a stream: what it changes, what that loses, and whether it is meant.

use crate::commands::streams::create::read_schema;
use crate::input;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use tapedb_codec::evolve::{Change, ChangeKind, Loss};
use tapedb_engine::{Database, Stream};
use tapedb_schema::Schema;
use tapedb_terminal::{Failure, Ui};

/// Which schema, and what it may cost.
#[derive(clap::Args, Debug)]
pub struct SchemaArgs {
    /// File with the new schema, as `tapedb desc` prints it; - reads standard input.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// Show what the new schema changes and loses, and do nothing else.
    #[arg(long, requires = "schema")]
    dry_run: bool,

    /// Values of stored messages that may be lost: fields (those that are dropped), types (dropped, and only nested in others),
    /// nulls (they become a default), symbols (of enums), records (alternatives of a field), ranges (numbers that do not fit the
    /// new type exactly), or all. Several with commas.
    #[arg(long, value_name = "KIND", value_delimiter = ',', requires = "schema", value_parser = kind)]
    allow_loss: Vec<String>,

    /// Do not ask before the schema is changed, on a terminal.
    #[arg(long, requires = "schema")]
    yes: bool,
}

fn kind(text: &str) -> Result<String, String> {
    match text == "all" || Loss::KINDS.contains(&text) {
        true => Ok(text.into()),
        false => Err(format!("{text:?} is no kind of loss; there is {} and all", Loss::KINDS.join(", "))),
    }
}

impl SchemaArgs {
    /// Whether there is a schema.
    pub fn is_chosen(&self) -> bool {
        self.schema.is_some()
    }

    /// Whether nothing is to be done.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// What the schema changes; `None`: none was chosen.
    pub fn compare(&self, stream: &Stream, ui: &Ui) -> Result<Option<Altering>, Failure> {
        let Some(path) = &self.schema else { return Ok(None) };
        let schema = read_schema(path, ui)?;
        let told = |error: tapedb_engine::Error| Failure::new(format!("{error}; nothing was changed"));
        let changes = stream.compare_schema(&schema).map_err(told)?;
        Ok(Some(Altering { schema, changes }))
    }

    fn allows(&self, loss: &Loss) -> bool {
        self.allow_loss.iter().any(|kind| kind == "all" || kind == loss.kind())
    }
}

/// A new schema, and what it changes.
#[derive(Debug)]
pub struct Altering {
    schema: Schema,
    changes: Vec<Change>,
}

/// A change as programs see it.
#[derive(Serialize, Debug)]
pub struct Told {
    dry_run: bool,
    changes: Vec<ToldChange>,
}

#[derive(Serialize, Debug)]
struct ToldChange {
    change: &'static str,
    record: String,
    field: Option<String>,
    text: String,
    losses: Vec<ToldLoss>,
}

#[derive(Serialize, Debug)]
struct ToldLoss {
    kind: &'static str,
    text: String,
}

impl Altering {
    /// Shows people what changes.
    pub fn show(&self, ui: &Ui) -> Result<(), Failure> {
        if ui.json() {
            return Ok(());
        }
        if self.changes.is_empty() {
            return ui.print("no field and no record type changes\n");
        }
        let line = |change: &Change| {
            let losses = change.losses.iter().map(|loss| format!("  lost ({}): {loss}\n", loss.kind()));
            format!("{change}\n{}", losses.collect::<String>())
        };
        ui.print(&self.changes.iter().map(line).collect::<String>())
    }

    /// What there is to say of a change that is not made.
    pub fn end_dry(&self, stream: &str, ui: &Ui) -> Result<(), Failure> {
        if ui.json() {
            return ui.print_json(&self.told(true));
        }
        let kinds = self.kinds(|_| true);
        let loss = match kinds.is_empty() {
            true => String::new(),
            false => format!("; it would take --allow-loss {}", kinds.join(",")),
        };
        ui.print(&format!("nothing was changed in stream {stream:?}{loss}\n"))
    }

    /// Refuses what would lose values of stored messages and was not allowed.
    pub fn check_losses(&self, args: &SchemaArgs, stream: &Stream) -> Result<(), Failure> {
        let kinds = self.kinds(|loss| !args.allows(loss));
        if kinds.is_empty() || stream.stats()?.next_sequence == 0 {
            return Ok(());
        }
        let lost = |change: &Change| {
            let losses = change.losses.iter().filter(|loss| !args.allows(loss)).map(ToString::to_string);
            let losses: Vec<String> = losses.collect();
            (!losses.is_empty()).then(|| format!("{} ({})", name(change), losses.join("; ")))
        };
        let lost: Vec<String> = self.changes.iter().filter_map(lost).collect();
        Err(Failure::new(format!(
            "the new schema loses values of stored messages: {}; keep them in the schema, or say --allow-loss {}; nothing was \
             changed",
            lost.join(", "),
            kinds.join(",")
        )))
    }

    /// Asks whoever sits at the terminal.
    pub fn ask(&self, args: &SchemaArgs, stream: &str, ui: &Ui) -> Result<(), Failure> {
        let may_ask = !args.yes && io::stdin().is_terminal();
        if may_ask && !input::is_yes(&format!("Change the schema of stream {stream:?}"), ui)? {
            return Err(Failure::new("nothing was changed; answer yes if you mean it"));
        }
        Ok(())
    }

    /// Makes the change.
    pub fn make(&self, db: &Database, stream: &str) -> Result<(), Failure> {
        db.change_schema(stream, self.schema.clone())?;
        Ok(())
    }

    /// What changes, as programs see it.
    pub fn told(&self, dry_run: bool) -> Told {
        let told = |change: &Change| ToldChange {
            change: match change.kind {
                ChangeKind::Added { .. } => "added",
                ChangeKind::Dropped { .. } => "dropped",
                ChangeKind::Converted { .. } => "converted",
            },
            record: change.record.clone(),
            field: change.field.clone(),
            text: change.to_string(),
            losses: change
                .losses
                .iter()
                .map(|loss| ToldLoss { kind: loss.kind(), text: loss.to_string() })
                .collect(),
        };
        Told { dry_run, changes: self.changes.iter().map(told).collect() }
    }

    /// Kinds of losses, each once.
    fn kinds(&self, is_meant: impl Fn(&Loss) -> bool) -> Vec<&'static str> {
        let losses = self.changes.iter().flat_map(|change| &change.losses).filter(|loss| is_meant(loss));
        losses.map(Loss::kind).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn name(change: &Change) -> String {
    let Change { record, field, .. } = change;
    field.as_ref().map_or(record.clone(), |field| format!("{record}.{field}"))
}
