//! A new schema for a stream: its changes, their losses, and the confirmation.

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

/// The new schema, and the losses that are allowed.
#[derive(clap::Args, Debug)]
pub struct SchemaArgs {
    /// File with the new schema, as `tapedb desc` prints it; - reads standard input.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// Show the changes and losses of the new schema, and change nothing.
    #[arg(long, requires = "schema")]
    dry_run: bool,

    /// Values of stored messages that may be lost: fields (dropped fields), types (dropped types that are only nested in others),
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
        false => {
            Err(format!("{text:?} is not a kind of loss; the kinds are {} and all", Loss::KINDS.join(", ")))
        }
    }
}

impl SchemaArgs {
    /// Whether a schema is given.
    pub fn is_chosen(&self) -> bool {
        self.schema.is_some()
    }

    /// Whether this is a dry run.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// The changes of the schema; `None` if none is given.
    pub fn compare(&self, stream: &Stream, ui: &Ui) -> Result<Option<Altering>, Failure> {
        let Some(path) = &self.schema else { return Ok(None) };
        let schema = read_schema(path, ui)?;
        let failed = |error: tapedb_engine::Error| Failure::new(format!("{error}; nothing was changed"));
        let changes = stream.compare_schema(&schema).map_err(failed)?;
        Ok(Some(Altering { schema, changes }))
    }

    fn allows(&self, loss: &Loss) -> bool {
        self.allow_loss.iter().any(|kind| kind == "all" || kind == loss.kind())
    }
}

/// A new schema with its changes.
#[derive(Debug)]
pub struct Altering {
    schema: Schema,
    changes: Vec<Change>,
}

/// The changes in JSON output.
#[derive(Serialize, Debug)]
pub struct Alteration {
    dry_run: bool,
    changes: Vec<DescribedChange>,
}

#[derive(Serialize, Debug)]
struct DescribedChange {
    change: &'static str,
    record: String,
    field: Option<String>,
    text: String,
    losses: Vec<DescribedLoss>,
}

#[derive(Serialize, Debug)]
struct DescribedLoss {
    kind: &'static str,
    text: String,
}

impl Altering {
    /// Prints the changes, unless the output is JSON.
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

    /// Prints the result of a dry run.
    pub fn end_dry(&self, stream: &str, ui: &Ui) -> Result<(), Failure> {
        if ui.json() {
            return ui.print_json(&self.described(true));
        }
        let kinds = self.kinds(|_| true);
        let loss = match kinds.is_empty() {
            true => String::new(),
            false => format!("; it would need --allow-loss {}", kinds.join(",")),
        };
        ui.print(&format!("nothing was changed in stream {stream:?}{loss}\n"))
    }

    /// Refuses losses of stored values that are not allowed.
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
            "the new schema loses values of stored messages: {}; keep them in the schema, or add --allow-loss {}; nothing was \
             changed",
            lost.join(", "),
            kinds.join(",")
        )))
    }

    /// Asks for confirmation on a terminal.
    pub fn ask(&self, args: &SchemaArgs, stream: &str, ui: &Ui) -> Result<(), Failure> {
        let may_ask = !args.yes && io::stdin().is_terminal();
        if may_ask && !input::is_yes(&format!("Change the schema of stream {stream:?}"), ui)? {
            return Err(Failure::new("nothing was changed; answer yes to change it"));
        }
        Ok(())
    }

    /// Changes the schema.
    pub fn make(&self, db: &Database, stream: &str) -> Result<(), Failure> {
        db.change_schema(stream, self.schema.clone())?;
        Ok(())
    }

    /// The changes for JSON output.
    pub fn described(&self, dry_run: bool) -> Alteration {
        let described = |change: &Change| DescribedChange {
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
                .map(|loss| DescribedLoss { kind: loss.kind(), text: loss.to_string() })
                .collect(),
        };
        Alteration { dry_run, changes: self.changes.iter().map(described).collect() }
    }

    /// The distinct kinds of losses.
    fn kinds(&self, includes: impl Fn(&Loss) -> bool) -> Vec<&'static str> {
        let losses = self.changes.iter().flat_map(|change| &change.losses).filter(|loss| includes(loss));
        losses.map(Loss::kind).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn name(change: &Change) -> String {
    let Change { record, field, .. } = change;
    field.as_ref().map_or(record.clone(), |field| format!("{record}.{field}"))
}
