//! Few texts that occur often: each row has the number of its text.

use crate::names::utf8;
use std::collections::HashMap;
use tapedb_ilp::{Refusal, Text};

/// Texts that are found with one comparison.
const RECENT: usize = 256;
/// A dictionary of fewer rows takes no memory for finding texts quickly.
const ROWS_MIN: usize = 16;

/// Distinct texts by how they are written, and the number of each row's own.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    by_text: HashMap<Box<str>, u32>,
    /// Raw bytes and number, in the slot that the bytes choose. Empty ones are empty slots. There are none before the texts are several.
    recent: Vec<(Vec<u8>, u32)>,
    pub keys: Vec<u32>,
}

impl Dictionary {
    /// The number of a text.
    #[inline]
    pub fn number_of(&mut self, text: Text<'_>) -> Result<u32, Refusal> {
        let raw = text.raw();
        if let Some((found, number)) = self.recent.get(slot(raw)) {
            // A quoted text may have the same bytes, and mean another text, only where there are escapes.
            if found == raw && !raw.is_empty() && !text.has_escapes() {
                return Ok(*number);
            }
        }
        self.look_up(text)
    }

    fn look_up(&mut self, text: Text<'_>) -> Result<u32, Refusal> {
        let bytes = text.bytes();
        let name = utf8(&bytes, "text")?;
        let number = self.number_of_name(name);
        if self.recent.is_empty() && self.keys.len() >= ROWS_MIN {
            self.recent.resize(RECENT, (Vec::new(), 0));
        }
        if let Some((raw, recent)) = self.recent.get_mut(slot(text.raw()))
            && !text.has_escapes()
        {
            raw.clear();
            raw.extend_from_slice(text.raw());
            *recent = number;
        }
        Ok(number)
    }

    pub fn number_of_name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.by_text.get(name) {
            return *number;
        }
        let number = self.by_text.len() as u32;
        self.by_text.insert(name.into(), number);
        number
    }

    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// The texts by their numbers.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = vec![""; self.by_text.len()];
        for (text, number) in &self.by_text {
            texts[*number as usize] = text;
        }
        texts
    }
}

#[inline]
fn slot(raw: &[u8]) -> usize {
    let byte = |at: usize| usize::from(raw.get(at).copied().unwrap_or(0));
    let length = raw.len();
    let ends = byte(0).wrapping_mul(31) ^ byte(length.wrapping_sub(1)) ^ byte(length / 2).wrapping_mul(7);
    (ends ^ byte(length.wrapping_sub(2)).wrapping_mul(13) ^ length.wrapping_mul(41)) % RECENT
}
