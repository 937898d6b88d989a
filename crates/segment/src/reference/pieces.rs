//! Byte strings, one after the other.

/// Some byte strings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces {
    content: Vec<u8>,
    ends: Vec<usize>,
}

impl Pieces {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.content.len()
    }

    /// The one of that number.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.content[start..self.ends[index]]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Adds one that is made of `parts`.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.content.extend_from_slice(part));
        self.ends.push(self.content.len());
    }
}
