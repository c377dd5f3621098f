//! Deadline-ordered queues over a fixed set of slots: no allocation after [`Queues::new`].
//!
//! Every slot (a task) is in at most one queue. A queue is two orders over the same slots: a treap by (deadline,
//! arrival), to find who goes first and to walk on from there; and a list by arrival, to find who waits longest.
//! The treap's priorities are a hash of slot number and arrival, so that the same events give the same tree.

/// Names a slot; [`NONE`] is no slot.
pub type Slot = u32;

/// No slot.
pub const NONE: Slot = u32::MAX;

/// A cache line: with thousands of tasks each access to one comes from memory.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
struct Node {
    queue: u32,
    deadline: u64,
    arrival: u64,
    priority: u32,
    up: Slot,
    left: Slot,
    right: Slot,
    older: Slot,
    newer: Slot,
    marked: bool,
}

const OUT: Node = Node {
    queue: u32::MAX,
    deadline: 0,
    arrival: 0,
    priority: 0,
    up: NONE,
    left: NONE,
    right: NONE,
    older: NONE,
    newer: NONE,
    marked: false,
};

#[derive(Clone, Copy, Debug)]
struct Queue {
    root: Slot,
    /// The leftmost of the tree: asked for far more often than it changes.
    first: Slot,
    oldest: Slot,
    newest: Slot,
    len: u32,
    /// How many of its slots are marked.
    marked: u32,
}

/// All queues of a policy and the slots that they order.
#[derive(Clone, Debug)]
pub struct Queues {
    nodes: Vec<Node>,
    queues: Vec<Queue>,
    arrivals: u64,
    len: usize,
}

impl Queues {
    /// `queues` empty queues over `slots` slots.
    pub fn new(queues: usize, slots: usize) -> Self {
        Queues {
            nodes: vec![OUT; slots],
            queues: vec![Queue { root: NONE, first: NONE, oldest: NONE, newest: NONE, len: 0, marked: 0 }; queues],
            arrivals: 0,
            len: 0,
        }
    }

    /// Slots in all queues together.
    #[inline]
    pub fn total(&self) -> usize {
        self.len
    }

    /// Slots in `queue`.
    #[inline]
    pub fn len(&self, queue: usize) -> usize {
        self.queues.get(queue).map_or(0, |q| q.len as usize)
    }

    /// Whether `queue` has no slot.
    #[inline]
    pub fn is_empty(&self, queue: usize) -> bool {
        self.len(queue) == 0
    }

    /// The queue that `slot` is in.
    #[inline]
    pub fn queue_of(&self, slot: Slot) -> Option<usize> {
        self.nodes.get(slot as usize).filter(|n| n.queue != u32::MAX).map(|n| n.queue as usize)
    }

    /// Its deadline, if it is queued.
    #[inline]
    pub fn deadline(&self, slot: Slot) -> Option<u64> {
        self.queue_of(slot).map(|_| self.nodes[slot as usize].deadline)
    }

    /// Puts `slot` into `queue`; a slot that is in some queue leaves that one first.
    pub fn insert(&mut self, queue: usize, slot: Slot, deadline: u64) {
        if queue >= self.queues.len() || slot as usize >= self.nodes.len() {
            return;
        }
        self.remove(slot);
        self.arrivals += 1;
        let arrival = self.arrivals;
        let mix = (arrival ^ u64::from(slot) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.nodes[slot as usize] =
            Node { queue: queue as u32, deadline, arrival, priority: (mix >> 32) as u32, ..OUT };
        let first = self.queues[queue].first;
        if first == NONE || self.before(slot, first) {
            self.queues[queue].first = slot;
        }
        self.attach(queue, slot);
        let q = &mut self.queues[queue];
        let newest = std::mem::replace(&mut q.newest, slot);
        q.len += 1;
        self.len += 1;
        if newest == NONE {
            q.oldest = slot;
        } else {
            self.nodes[newest as usize].newer = slot;
            self.nodes[slot as usize].older = newest;
        }
    }

    /// Marks a slot until it leaves its queue: what that means is the caller's.
    pub fn mark(&mut self, slot: Slot) {
        let Some(queue) = self.queue_of(slot) else { return };
        if !std::mem::replace(&mut self.nodes[slot as usize].marked, true) {
            self.queues[queue].marked += 1;
        }
    }

    /// Whether `slot` is queued and marked.
    #[inline]
    pub fn is_marked(&self, slot: Slot) -> bool {
        self.nodes.get(slot as usize).is_some_and(|n| n.marked)
    }

    /// How many slots of `queue` are marked.
    #[inline]
    pub fn marked(&self, queue: usize) -> usize {
        self.queues.get(queue).map_or(0, |q| q.marked as usize)
    }

    /// How often something was inserted: the number of the last arrival.
    #[inline]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The number of the arrival of the slot that has been in `queue` longest; `u64::MAX` if there is none.
    #[inline]
    pub fn oldest_arrival(&self, queue: usize) -> u64 {
        self.oldest(queue).map_or(u64::MAX, |s| self.nodes[s as usize].arrival)
    }

    /// Takes `slot` out of its queue, which it gives back; nothing happens if it is in none.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> Option<usize> {
        let queue = self.queue_of(slot)?;
        self.remove_from(queue, slot);
        Some(queue)
    }

    fn remove_from(&mut self, queue: usize, slot: Slot) {
        if self.queues[queue].first == slot {
            self.queues[queue].first = self.next(slot).unwrap_or(NONE);
        }
        self.detach(queue, slot);
        let Node { older, newer, marked, .. } = self.nodes[slot as usize];
        let q = &mut self.queues[queue];
        q.len -= 1;
        q.marked -= u32::from(marked);
        self.len -= 1;
        if older == NONE {
            q.oldest = newer;
        }
        if newer == NONE {
            q.newest = older;
        }
        if older != NONE {
            self.nodes[older as usize].newer = newer;
        }
        if newer != NONE {
            self.nodes[newer as usize].older = older;
        }
        self.nodes[slot as usize] = OUT;
    }

    /// The slot with the earliest deadline.
    #[inline]
    pub fn first(&self, queue: usize) -> Option<Slot> {
        self.queues.get(queue).map(|q| q.first).filter(|s| *s != NONE)
    }

    /// The next slot of the same queue by deadline.
    #[inline]
    pub fn next(&self, slot: Slot) -> Option<Slot> {
        self.queue_of(slot)?;
        let right = self.nodes[slot as usize].right;
        if right != NONE {
            return Some(self.leftmost(right));
        }
        let (mut below, mut up) = (slot, self.nodes[slot as usize].up);
        while up != NONE && self.nodes[up as usize].right == below {
            (below, up) = (up, self.nodes[up as usize].up);
        }
        (up != NONE).then_some(up)
    }

    /// The slot that has been in `queue` longest.
    #[inline]
    pub fn oldest(&self, queue: usize) -> Option<Slot> {
        self.queues.get(queue).map(|q| q.oldest).filter(|s| *s != NONE)
    }

    /// The slot that came after `slot` into the same queue.
    #[inline]
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        self.nodes.get(slot as usize).map(|n| n.newer).filter(|s| *s != NONE)
    }

    fn leftmost(&self, mut slot: Slot) -> Slot {
        while self.nodes[slot as usize].left != NONE {
            slot = self.nodes[slot as usize].left;
        }
        slot
    }

    fn before(&self, a: Slot, b: Slot) -> bool {
        let (a, b) = (&self.nodes[a as usize], &self.nodes[b as usize]);
        (a.deadline, a.arrival) < (b.deadline, b.arrival)
    }

    /// Hangs a new leaf and rotates it up while its priority is higher than its parent's.
    fn attach(&mut self, queue: usize, slot: Slot) {
        let mut up = self.queues[queue].root;
        if up == NONE {
            self.queues[queue].root = slot;
            return;
        }
        loop {
            let left = self.before(slot, up);
            let below = if left { self.nodes[up as usize].left } else { self.nodes[up as usize].right };
            if below == NONE {
                if left {
                    self.nodes[up as usize].left = slot;
                } else {
                    self.nodes[up as usize].right = slot;
                }
                self.nodes[slot as usize].up = up;
                break;
            }
            up = below;
        }
        while self.nodes[slot as usize].up != NONE {
            let up = self.nodes[slot as usize].up;
            if self.nodes[up as usize].priority >= self.nodes[slot as usize].priority {
                break;
            }
            self.raise(queue, slot);
        }
    }

    /// Sinks the slot to a leaf and cuts it off.
    fn detach(&mut self, queue: usize, slot: Slot) {
        loop {
            let Node { left, right, up, .. } = self.nodes[slot as usize];
            let child = match (left, right) {
                (NONE, NONE) => {
                    self.replace(queue, up, slot, NONE);
                    return;
                }
                (NONE, child) | (child, NONE) => child,
                (l, r) if self.nodes[l as usize].priority > self.nodes[r as usize].priority => l,
                (_, r) => r,
            };
            self.raise(queue, child);
        }
    }

    /// Rotates `slot` above its parent.
    fn raise(&mut self, queue: usize, slot: Slot) {
        let up = self.nodes[slot as usize].up;
        let above = self.nodes[up as usize].up;
        let inner = if self.nodes[up as usize].left == slot {
            let inner = std::mem::replace(&mut self.nodes[slot as usize].right, up);
            self.nodes[up as usize].left = inner;
            inner
        } else {
            let inner = std::mem::replace(&mut self.nodes[slot as usize].left, up);
            self.nodes[up as usize].right = inner;
            inner
        };
        if inner != NONE {
            self.nodes[inner as usize].up = up;
        }
        self.nodes[up as usize].up = slot;
        self.replace(queue, above, up, slot);
    }

    /// Makes `new` the child of `up` (or the root) that `old` was.
    fn replace(&mut self, queue: usize, up: Slot, old: Slot, new: Slot) {
        if up == NONE {
            self.queues[queue].root = new;
        } else if self.nodes[up as usize].left == old {
            self.nodes[up as usize].left = new;
        } else {
            self.nodes[up as usize].right = new;
        }
        if new != NONE {
            self.nodes[new as usize].up = up;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Clone, Debug)]
    enum Op {
        Insert(usize, Slot, u64),
        Remove(Slot),
        Mark(Slot),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..3usize, 0..40u32, 0..20u64).prop_map(|(q, s, d)| Op::Insert(q, s, d)),
            (0..40u32).prop_map(Op::Remove),
            (0..40u32).prop_map(Op::Mark),
        ]
    }

    proptest! {
        #[test]
        fn queues_agree_with_sorted_maps(ops in proptest::collection::vec(op(), 0..300)) {
            let mut queues = Queues::new(3, 40);
            let mut model: [BTreeMap<(u64, u64), Slot>; 3] = Default::default();
            let mut marks = BTreeSet::new();
            let mut arrival = 0;
            for op in ops {
                let (slot, add) = match op {
                    Op::Insert(q, s, d) => (s, Some((q, d))),
                    Op::Remove(s) => (s, None),
                    Op::Mark(s) => {
                        if model.iter().any(|m| m.values().any(|v| *v == s)) {
                            marks.insert(s);
                        }
                        queues.mark(s);
                        continue;
                    }
                };
                marks.remove(&slot);
                model.iter_mut().for_each(|m| m.retain(|_, s| *s != slot));
                if let Some((q, d)) = add {
                    arrival += 1;
                    model[q].insert((d, arrival), slot);
                    queues.insert(q, slot, d);
                } else {
                    queues.remove(slot);
                }
                for (q, m) in model.iter().enumerate() {
                    let walked: Vec<_> = std::iter::successors(queues.first(q), |s| queues.next(*s)).collect();
                    prop_assert_eq!(&walked, &m.values().copied().collect::<Vec<_>>());
                    prop_assert_eq!(queues.len(q), m.len());
                    let mut by_age: Vec<_> = m.iter().map(|((_, a), s)| (*a, *s)).collect();
                    by_age.sort_unstable();
                    prop_assert_eq!(queues.oldest_arrival(q), by_age.first().map_or(u64::MAX, |(a, _)| *a));
                    prop_assert_eq!(queues.marked(q), m.values().filter(|s| marks.contains(s)).count());
                    prop_assert!(m.values().all(|s| queues.is_marked(*s) == marks.contains(s)));
                    let aged: Vec<_> = std::iter::successors(queues.oldest(q), |s| queues.newer(*s)).collect();
                    prop_assert_eq!(aged, by_age.into_iter().map(|(_, s)| s).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(queues.arrivals(), arrival);
            prop_assert_eq!(queues.total(), model.iter().map(BTreeMap::len).sum::<usize>());
        }
    }

    #[test]
    fn a_slot_or_queue_out_of_range_is_ignored() {
        let mut q = Queues::new(1, 1);
        q.insert(1, 0, 5);
        q.insert(0, 7, 5);
        q.remove(9);
        assert_eq!((q.total(), q.first(0), q.first(3), q.next(8)), (0, None, None, None));
    }
}
