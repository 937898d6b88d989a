//! `tapedb tick query`: query a running RDB or HDB.

use super::ask::{Request, Rows, ask};
use super::socket;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tapedb_terminal::{Failure, Ui, ui};

/// Query a running RDB or HDB, or the status of a role.
///
/// Examples:
///   tapedb tick query trade --symbols AIG,BAC --limit -10
///   tapedb tick query trade --last
///   tapedb tick query trade --at hdb.sock --date 2026-11-20 --count
///   tapedb tick query --status
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The table.
    #[arg(value_name = "TABLE", required_unless_present = "status")]
    table: Option<String>,

    /// Socket of the role, which it prints when it starts [default: that of this user's RDB, else of `tick all`, the HDB, the plant].
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,

    /// Only these columns, for example time,price.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    columns: Option<Vec<String>>,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    symbols: Option<Vec<String>>,

    /// Only rows at or after this time, for example 2026-11-21T14:30.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,

    /// Only rows before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,

    /// Only the last row of each symbol.
    #[arg(long)]
    last: bool,

    /// At most N rows: the first ones, or with a minus the last ones.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    limit: Option<i64>,

    /// Of this date [default: today in an RDB, all dates in an HDB].
    #[arg(long, value_name = "DATE")]
    date: Option<String>,

    /// The plant, in an HDB of several.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,

    /// Only the number of rows.
    #[arg(long)]
    count: bool,

    /// The status instead of rows.
    #[arg(long)]
    status: bool,
}

/// Asks, and prints the answer.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let at = args.at.map_or_else(|| socket::of_some_role(&["rdb", "all", "hdb", "plant"]), Ok)?;
    let Some(table) = args.table.filter(|_| !args.status) else {
        return ask(&at, &Request::Status, |line| ui.print(&format!("{line}\n")).map(|()| false));
    };
    let rows = Rows {
        table,
        plant: args.plant,
        columns: args.columns,
        symbols: args.symbols,
        from: args.from,
        to: args.to,
        last: args.last,
        limit: args.limit,
        date: args.date,
        count: args.count,
    };
    if args.count {
        let show = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(object) if !ui.json() => ui.print(&format!("{}\n", object["rows"])).map(|()| false),
            _ => ui.print(&format!("{line}\n")).map(|()| false),
        };
        return ask(&at, &Request::Query(Box::new(rows)), show);
    }
    print_rows(&at, rows, ui)
}

/// Prints rows: as objects, or as a table.
fn print_rows(at: &Path, rows: Rows, ui: &Ui) -> Result<(), Failure> {
    let mut head: Option<(Vec<String>, u64)> = None;
    let mut table = Vec::new();
    let mut seen = 0;
    ask(at, &Request::Query(Box::new(rows)), |line| {
        let value: Value = serde_json::from_str(line).map_err(|error| Failure::new(error.to_string()))?;
        let Some((names, count)) = &head else {
            let columns = value["columns"].as_array().cloned().unwrap_or_default();
            let names = columns.iter().map(|column| text(&column["name"])).collect();
            let count = value["rows"].as_u64().unwrap_or(0);
            head = Some((names, count));
            return Ok(count > 0);
        };
        seen += 1;
        if ui.json() {
            ui.print(&format!("{line}\n"))?;
        } else {
            table.push(names.iter().map(|name| text(&value[name])).collect());
        }
        Ok(seen < *count)
    })?;
    match head {
        Some((names, _)) if !ui.json() => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            ui.print(&ui::table(&names, &[], &table))
        }
        _ => Ok(()),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
