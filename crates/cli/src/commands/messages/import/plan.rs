//! The plan of an import, from the files imported before: no file is imported twice by mistake.

use super::args::Again;
use super::identity::{Identity, same_files};
use super::ledger::{Import, Ledger, State};
use tapedb_terminal::Failure;

/// What to import.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// For each file, whether it is imported now.
    pub wanted: Vec<bool>,
    /// The import to resume; `None` for a new one.
    pub resumed: Option<Import>,
    /// Imports that are not resumed.
    pub abandoned: Vec<u64>,
    /// Imports that left nothing in the stream.
    pub withdrawn: Vec<u64>,
}

impl Plan {
    /// Decides. `next_sequence` is the number that the stream's next message gets.
    ///
    /// # Errors
    /// When a file would be imported twice without a request for it.
    pub fn new(
        files: &[Identity],
        format: &str,
        ledger: &Ledger,
        again: Again,
        next_sequence: u64,
    ) -> Result<Self, Failure> {
        let mut plan = Self { wanted: vec![true; files.len()], ..Self::default() };
        let unfinished = ledger.unfinished().filter(|import| {
            let empty = import.first_sequence >= next_sequence;
            if empty {
                plan.withdrawn.push(import.id);
            }
            !empty
        });
        if again == Again::Import {
            plan.abandoned.extend(unfinished.map(|import| import.id));
            return Ok(plan);
        }
        for (i, file) in files.iter().enumerate() {
            let finished = ledger.import_of(file).is_some_and(|import| import.state == State::Finished);
            let repeated = finished || files[..i].iter().any(|other| other.same_content(file));
            match again {
                Again::Skip => plan.wanted[i] = !repeated,
                _ if repeated => return Err(refusal(file, finished)),
                _ => {}
            }
        }
        let wanted: Vec<Identity> = files
            .iter()
            .zip(&plan.wanted)
            .filter(|(_, wanted)| **wanted)
            .map(|(file, _)| file.clone())
            .collect();
        if wanted.is_empty() {
            return Ok(plan);
        }
        match unfinished {
            Some(import) if import.format == format && same_files(&import.files, &wanted) => {
                plan.resumed = Some(import.clone());
            }
            Some(import) => return Err(unfinished_import(import)),
            None => refuse_parts(&wanted, ledger, &plan.withdrawn)?,
        }
        Ok(plan)
    }
}

impl Plan {
    /// Sorts the files of a resumed import into their first order, which decides the order of messages with equal times. Skipped
    /// files follow in their order.
    pub fn restore_order<T>(&mut self, files: &mut Vec<T>, identity: impl Fn(&T) -> &Identity) {
        let Some(import) = &self.resumed else { return };
        let index = |file: &T| import.files.iter().position(|known| known.same_content(identity(file)));
        let mut pairs: Vec<(T, bool)> = files.drain(..).zip(self.wanted.drain(..)).collect();
        pairs.sort_by_key(|(file, _)| index(file).unwrap_or(usize::MAX));
        (*files, self.wanted) = pairs.into_iter().unzip();
    }
}

fn refusal(file: &Identity, finished: bool) -> Failure {
    let name = &file.name;
    let what = if finished {
        "was imported into this stream before"
    } else {
        "is given twice, or has the same content as another file"
    };
    Failure::new(format!(
        "{name:?} {what}; skip such files with --again skip, or import it once more with --again import"
    ))
}

fn unfinished_import(import: &Import) -> Failure {
    let names: Vec<&str> = import.files.iter().take(3).map(|file| file.name.as_str()).collect();
    let more = if import.files.len() > 3 { ", …" } else { "" };
    Failure::new(format!(
        "an import of {} file(s) ({}{more}) into this stream was interrupted; import exactly those files again to finish \
         it, or delete the stream, or abandon it with --again import",
        import.files.len(),
        names.join(", ")
    ))
}

/// Refuses a file of which an unknown number of messages is in the stream.
fn refuse_parts(files: &[Identity], ledger: &Ledger, withdrawn: &[u64]) -> Result<(), Failure> {
    let part =
        |file: &&Identity| ledger.import_of(file).is_some_and(|import| !withdrawn.contains(&import.id));
    match files.iter().find(part) {
        Some(file) => Err(Failure::new(format!(
            "a part of {:?} is in this stream from an interrupted import; delete the stream and import again, \
             or import it once more with --again import",
            file.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Identity {
        Identity { name: name.into(), bytes: 1, crc64: name.into() }
    }

    fn plan(files: &[&str], ledger: &Ledger, again: Again) -> Result<Plan, Failure> {
        let files: Vec<Identity> = files.iter().map(|name| file(name)).collect();
        Plan::new(&files, "fx-ticks", ledger, again, 100)
    }

    #[test]
    fn no_file_is_imported_twice_by_mistake() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(directory.path()).unwrap();
        let id = ledger.begin(0, "fx-ticks", &[file("a")]).unwrap();
        ledger.end(id, 50).unwrap();
        assert!(plan(&["b", "a"], &ledger, Again::Refuse).is_err());
        assert!(plan(&["b", "b"], &ledger, Again::Refuse).is_err());
        assert_eq!(plan(&["b", "a", "b"], &ledger, Again::Skip).unwrap().wanted, [true, false, false]);
        assert_eq!(plan(&["b", "a"], &ledger, Again::Import).unwrap().wanted, [true, true]);
    }

    #[test]
    fn an_interrupted_import_is_resumed_or_abandoned() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(directory.path()).unwrap();
        let id = ledger.begin(50, "fx-ticks", &[file("b"), file("c")]).unwrap();
        assert_eq!(plan(&["c", "b"], &ledger, Again::Refuse).unwrap().resumed.unwrap().id, id);
        assert!(plan(&["b"], &ledger, Again::Refuse).is_err());
        assert!(plan(&["x"], &ledger, Again::Skip).is_err());
        assert_eq!(plan(&["b"], &ledger, Again::Import).unwrap().abandoned, [id]);
        ledger.abandon(id).unwrap();
        assert!(plan(&["b"], &ledger, Again::Skip).unwrap_err().to_string().contains("a part of"));
        assert!(plan(&["x"], &ledger, Again::Refuse).unwrap().resumed.is_none());
        let empty = ledger.begin(100, "fx-ticks", &[file("d")]).unwrap();
        assert_eq!(plan(&["x", "d"], &ledger, Again::Refuse).unwrap().withdrawn, [empty]);
    }
}
