//! Things by kernel id (thread or process): a hash table of fixed size that never allocates after it is made.

use crate::queue::{NONE, Slot};

/// Items in slots, found by a positive id. Open addressing with linear probing and backward-shift deletion, so that
/// there are no tombstones and the same events always give the same slots.
///
/// What works together is near together, since each page that a turn touches costs it: slots are given from the lowest
/// on, and ids that differ only in their last bits, as those of a service that was just started, are side by side in
/// the index.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// An id and its slot; [`NONE`] = an empty place.
    index: Vec<(i32, Slot)>,
    items: Vec<T>,
    free: Vec<Slot>,
}

/// Last bits of an id that the hash leaves alone: 16 places are two cache lines.
const NEAR: u32 = 4;

impl<T: Copy + Default> Table<T> {
    /// Room for `slots` items.
    pub fn new(slots: usize) -> Self {
        Table {
            index: vec![(0, NONE); (slots * 2).next_power_of_two().max(2)],
            items: vec![T::default(); slots],
            free: (0..slots as Slot).rev().collect(),
        }
    }

    /// Items present.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, id: i32) -> usize {
        let id = id as u32;
        let hash = (id >> NEAR).wrapping_mul(0x9e37_79b1) >> 8;
        ((hash << NEAR) | (id & ((1 << NEAR) - 1))) as usize & (self.index.len() - 1)
    }

    /// Position in the index of `id`, or of the empty place where it would go.
    fn find(&self, id: i32) -> usize {
        let mask = self.index.len() - 1;
        let mut at = self.place(id);
        while self.index[at].1 != NONE && self.index[at].0 != id {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slot of `id`.
    pub fn slot(&self, id: i32) -> Option<Slot> {
        Some(self.index[self.find(id)].1).filter(|s| *s != NONE)
    }

    /// The slot of `id`, made with `item` if it is new; `None` when the table is full.
    pub fn slot_or_insert(&mut self, id: i32, item: T) -> Option<Slot> {
        let at = self.find(id);
        if self.index[at].1 != NONE {
            return Some(self.index[at].1);
        }
        let slot = self.free.pop()?;
        self.index[at] = (id, slot);
        self.items[slot as usize] = item;
        Some(slot)
    }

    /// Forgets `id`; its slot may be given to another.
    pub fn remove(&mut self, id: i32) {
        let mut hole = self.find(id);
        let (_, slot) = std::mem::replace(&mut self.index[hole], (0, NONE));
        if slot == NONE {
            return;
        }
        self.free.push(slot);
        let mask = self.index.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.index[at].1 != NONE {
            let home = self.place(self.index[at].0);
            // Moves back unless its own place lies between the hole and where it is.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index.swap(hole, at);
                hole = at;
            }
            at = (at + 1) & mask;
        }
    }

    /// The item in a slot that [`Table::slot`] gave.
    pub fn get(&self, slot: Slot) -> &T {
        &self.items[slot as usize]
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.items[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Two runs of neighbours that meet in an index of 64 places.
    fn ids() -> impl Strategy<Value = i32> {
        prop_oneof![1..30i32, 64..94i32]
    }

    proptest! {
        #[test]
        fn a_table_agrees_with_a_map(ops in proptest::collection::vec((any::<bool>(), ids()), 0..400)) {
            let mut table = Table::new(32);
            let mut model = BTreeMap::new();
            for (add, id) in ops {
                if add {
                    let got = table.slot_or_insert(id, id);
                    prop_assert_eq!(got.is_some(), model.contains_key(&id) || model.len() < 32);
                    if got.is_some() {
                        model.insert(id, id);
                    }
                } else {
                    table.remove(id);
                    model.remove(&id);
                }
                for id in (1..30).chain(64..94) {
                    prop_assert_eq!(table.slot(id).map(|s| *table.get(s)), model.get(&id).copied());
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
