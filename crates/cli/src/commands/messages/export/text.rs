//! Files of lines: csv and JSON.

use super::Advance;
use super::part::Part;
use crate::output::{Damage, Writer};
use std::io::Write;
use std::path::Path;
use tapedb_engine::Cursor;
use tapedb_terminal::{Failure, Ui};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 4096;

/// Writes one file; its messages and bytes.
pub fn write(
    (mut cursor, mut writer): (Cursor, Writer),
    path: &Path,
    mut advance: Advance,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<(u64, u64), Failure> {
    let mut part = Part::create(path)?;
    let mut buffer = Vec::new();
    writer.header(&mut buffer);
    let (mut messages, mut noted) = (0, 0);
    loop {
        let written = match cursor.next() {
            Ok(Some(message)) => writer.write(&message, &mut buffer).map(|()| message.time()),
            Ok(None) => break,
            Err(error) => Err(error),
        };
        match written {
            Ok(time) => {
                messages += 1;
                if messages % CHECK_INTERVAL == 0 {
                    ui.check_interrupt()?;
                    advance.note(messages - noted, time);
                    noted = messages;
                }
            }
            Err(error) => damage.note(&error, ui)?,
        }
        if buffer.len() >= BUFFER_BYTES {
            part.write_all(&buffer).map_err(|error| part.refused(&error))?;
            buffer.clear();
        }
    }
    part.write_all(&buffer).map_err(|error| part.refused(&error))?;
    Ok((messages, part.finish()?))
}
