//! Values at small numbers that are used again.

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// The values. A number is valid from `insert` to `remove`; [`super::orders::MAX_ORDERS`] bounds how many there are.
#[derive(Debug, Clone)]
pub(super) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.values[at as usize] = value;
                at
            }
            None => {
                self.values.push(value);
                self.values.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        &self.values[at as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.values[at as usize]
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.free.clear();
    }
}
