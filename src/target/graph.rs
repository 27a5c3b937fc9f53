//! Which bytes of which devices and files are the same bytes. Pure.
//!
//! Names relate devices that share no byte, and leave apart those that do: two maps over the same sectors,
//! partitions that overlap, two paths to one drive. So each device's bytes are followed down to what
//! they lie on in the end, and compared there.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::loops::FileId;
use crate::model::devid::DevId;

/// What holds bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// A block device.
    Device(DevId),
    /// A regular file that devices lie on.
    File(FileId),
    /// A drive by its world-wide identity, whichever path leads to it.
    Drive(String),
}

/// All bytes of a node.
pub(super) const ALL: Range<u64> = 0..u64::MAX;

/// Bytes of one node that lie in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// Of the upper node.
    pub(super) upper: Range<u64>,
    /// What they lie in.
    pub(super) lower: Node,
    /// Which bytes of that.
    pub(super) place: Range<u64>,
    /// In the same order: byte n of `upper` is byte n of `place`. Else each may be anywhere in it.
    pub(super) in_order: bool,
    /// The lower node's driver keeps apart what it gives to this share and to others.
    pub(super) share: Option<u64>,
}

impl Map {
    /// `length_bytes` from `start_bytes` on, as they follow from `at_bytes` on in `lower`.
    pub(super) fn run(start_bytes: u64, length_bytes: u64, lower: Node, at_bytes: u64) -> Map {
        Map {
            upper: start_bytes..start_bytes.saturating_add(length_bytes),
            lower,
            place: at_bytes..at_bytes.saturating_add(length_bytes),
            in_order: true,
            share: None,
        }
    }

    /// `upper` anywhere in `place` of `lower`.
    pub(super) fn anywhere(upper: Range<u64>, lower: Node, place: Range<u64>) -> Map {
        Map {
            upper,
            lower,
            place,
            in_order: false,
            share: None,
        }
    }

    /// Where these bytes of the upper node lie; none if they don't.
    fn below(&self, bytes: &Range<u64>) -> Option<Range<u64>> {
        let upper = intersection(&self.upper, bytes)?;
        if !self.in_order {
            return Some(self.place.clone());
        }
        let down = |byte: u64| (byte - self.upper.start).saturating_add(self.place.start);
        Some(down(upper.start)..down(upper.end).min(self.place.end))
    }
}

/// Bytes of a node that a device's bytes lie in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Piece {
    pub(super) node: Node,
    pub(super) bytes: Range<u64>,
    /// By which bytes, or which share, of which nodes they were reached that keep such ones apart below: no
    /// device gives one place to two of its own bytes.
    shares: Vec<(Node, Range<u64>)>,
}

impl Piece {
    /// The bytes that both have; none if they have none, or their nodes' driver keeps them apart.
    fn meets(&self, other: &Piece) -> Option<Range<u64>> {
        if self.node != other.node {
            return None;
        }
        let apart = self.shares.iter().any(|(node, own)| {
            let others = other.shares.iter().filter(|(known, _)| known == node);
            others
                .map(|(_, share)| intersection(own, share))
                .any(|both| both.is_none())
        });
        match apart {
            true => None,
            false => intersection(&self.bytes, &other.bytes),
        }
    }
}

fn intersection(one: &Range<u64>, other: &Range<u64>) -> Option<Range<u64>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

/// All maps of a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    maps: HashMap<Node, Vec<Map>>,
}

impl Graph {
    pub(super) fn add(&mut self, upper: Node, map: Map) {
        self.maps.entry(upper).or_default().push(map);
    }

    /// What a node lies in directly.
    pub(super) fn lower(&self, node: &Node) -> impl Iterator<Item = &Map> {
        self.maps.get(node).into_iter().flatten()
    }

    /// The node's bytes, then all that they lie in, from the top down.
    pub(super) fn project(&self, node: &Node) -> Vec<Piece> {
        self.project_part(node, ALL)
    }

    /// Some of the node's bytes, and what they lie in.
    pub(super) fn project_part(&self, node: &Node, bytes: Range<u64>) -> Vec<Piece> {
        let top = Piece {
            node: node.clone(),
            bytes,
            shares: Vec::new(),
        };
        let mut seen = HashSet::from([top.clone()]);
        let mut found = vec![top];
        let mut at = 0;
        while let Some(piece) = found.get(at).cloned() {
            at += 1;
            for map in self.lower(&piece.node) {
                let Some(bytes) = map.below(&piece.bytes) else {
                    continue;
                };
                let mut shares = piece.shares.clone();
                shares.extend(
                    map.share
                        .map(|id| (map.lower.clone(), id..id.saturating_add(1))),
                );
                if !map.in_order {
                    let own = intersection(&map.upper, &piece.bytes);
                    shares.extend(own.map(|own| (piece.node.clone(), own)));
                }
                let lower = Piece {
                    node: map.lower.clone(),
                    bytes,
                    shares,
                };
                // In a ring of maps that shift, each round would give another piece.
                let is_deep = found.len() > MOST_PIECES;
                if !is_deep && seen.insert(lower.clone()) {
                    found.push(lower);
                }
            }
        }
        found
    }
}

/// No real stack comes near it: a volume of a thousand segments on a striped array of ten drives has 20,000.
const MOST_PIECES: usize = 1 << 18;

/// The first place, from the top of `one` down, that both have bytes in.
pub(super) fn meeting(one: &[Piece], other: &[Piece]) -> Option<(Node, Range<u64>)> {
    let mut by_node: HashMap<&Node, Vec<&Piece>> = HashMap::new();
    for piece in other {
        by_node.entry(&piece.node).or_default().push(piece);
    }
    one.iter().find_map(|piece| {
        let others = by_node.get(&piece.node)?;
        let both = others.iter().find_map(|other| piece.meets(other))?;
        Some((piece.node.clone(), both))
    })
}

#[cfg(test)]
mod tests;
