//! From what a device's places hold to what became of the records that were promised: pure.
//!
//! One record is in flight at a time. So the records up to the last acknowledged one must be there,
//! but where a later one was written to their place, and of the one that was in flight when the power
//! went, anything may be: nothing, a part, all, or a sector that can't be read. The witness knows the
//! last one that was acknowledged to within its window, and the newest one on the device tells more:
//! all before it were acknowledged.

use crate::model::durability::{Counts, Fault, Manifest, Missing};
use crate::workload::stamp::{self, Content, Stamp};

/// So many of the records that are missing are told one by one.
const MOST_TOLD: usize = 20;

/// More than any device writes, and so few that none of the sums below overflows.
const MOST_RECORDS: u64 = u64::MAX / 2;

/// What a place holds, as far as it matters for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing of any record.
    Nothing,
    /// All of this record, which belongs here.
    Whole(u64),
    /// Sectors of records; of those that belong here, the newest.
    Parts(u64),
    /// A record, or sectors of one, of this run, from another place.
    Elsewhere,
    /// A record, or sectors of one, of another run.
    OtherRun,
}

/// Takes in the places of a device, one after the other from the first.
#[derive(Debug)]
pub struct Comparer {
    pledge: Manifest,
    run: u128,
    promised: u64,
    window: u64,
    held: Vec<Held>,
    newest: u64,
}

/// A device compared with what was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The newest record of which something is on the device.
    pub newest: Option<u64>,
    /// What became of the promised records.
    pub counts: Counts,
    /// The first ones that are not there, by place.
    pub missing: Vec<Missing>,
}

impl Comparer {
    /// A comparison with what `pledge` says was written, of which the records up to `promised` were
    /// promised. A run that `ended` had nothing in flight. None for what can't be: a pledge that has a
    /// fault, or more records than any device takes.
    pub fn new(pledge: &Manifest, promised: u64, ended: bool) -> Option<Comparer> {
        if pledge.fault().is_some() || promised > MOST_RECORDS {
            return None;
        }
        Some(Comparer {
            run: pledge.run()?,
            pledge: pledge.clone(),
            promised,
            window: if ended { 0 } else { pledge.window },
            held: Vec::new(),
            newest: 0,
        })
    }

    /// How many places may hold a record of the run: the device's first ones.
    pub fn places(&self) -> u64 {
        self.pledge
            .places()
            .min(self.promised.saturating_add(self.window))
    }

    /// Takes in the next place: what was read of it, or nothing where it can't be read.
    pub fn place(&mut self, bytes: Option<&[u8]>) {
        let offset_bytes = self.held.len() as u64 * self.pledge.record_bytes;
        let content = bytes.map_or(Content::Nothing, stamp::read);
        let held = self.held(&content, offset_bytes);
        self.held.push(held);
    }

    fn held(&mut self, content: &Content, offset_bytes: u64) -> Held {
        let stamps: Vec<Stamp> = match content {
            Content::Nothing => Vec::new(),
            Content::Whole(stamp) => vec![*stamp],
            Content::Parts(parts) => parts.iter().flatten().copied().collect(),
        };
        let own: Vec<Stamp> = stamps
            .iter()
            .filter(|stamp| stamp.run == self.run)
            .copied()
            .collect();
        let newest = own
            .iter()
            .map(|stamp| stamp.sequence.min(MOST_RECORDS))
            .max();
        self.newest = self.newest.max(newest.unwrap_or(0));
        let here = own
            .iter()
            .filter(|stamp| stamp.offset_bytes == offset_bytes);
        match (content, here.map(|stamp| stamp.sequence).max()) {
            (Content::Nothing, _) => Held::Nothing,
            (Content::Whole(_), Some(sequence)) => Held::Whole(sequence),
            (Content::Parts(_), Some(sequence)) => Held::Parts(sequence),
            (_, None) if !own.is_empty() => Held::Elsewhere,
            (_, None) => Held::OtherRun,
        }
    }

    /// What became of all of them.
    pub fn compare(&self) -> Comparison {
        let mut counts = Counts::default();
        let mut missing = Vec::new();
        let in_flight = self.in_flight();
        for (place, held) in (0_u64..).zip(&self.held) {
            let Some((sequence, fault)) = self.judge(place, *held, in_flight, &mut counts) else {
                continue;
            };
            if missing.len() < MOST_TOLD {
                missing.push(Missing {
                    sequence,
                    offset_bytes: place * self.pledge.record_bytes,
                    fault,
                    found_sequence: match held {
                        Held::Whole(found) | Held::Parts(found) => Some(*found),
                        Held::Nothing | Held::Elsewhere | Held::OtherRun => None,
                    },
                });
            }
        }
        Comparison {
            newest: (self.newest > 0).then_some(self.newest),
            counts,
            missing,
        }
    }

    /// The record that was in flight when the power went, if one was: of all that is not there, it alone
    /// may be missing rightly.
    fn in_flight(&self) -> u64 {
        if self.newest < self.promised {
            // Some are lost anyway: whichever leaves the least to be told.
            let window = self.promised + 1..=self.promised.saturating_add(self.window);
            let is_missing = |sequence: &u64| {
                let place = (sequence - 1) % self.pledge.places();
                let promised = self.pledge.newest_at(place, self.promised);
                promised.is_some_and(|promised| !self.is_there(place, promised))
            };
            return window.into_iter().find(is_missing).unwrap_or(0);
        }
        let place = self.newest.saturating_sub(1) % self.pledge.places();
        match self.is_there(place, self.newest) {
            true => self.newest + 1,
            false => self.newest,
        }
    }

    /// All of this record, or of a newer one, is in the place.
    fn is_there(&self, place: u64, sequence: u64) -> bool {
        let held = usize::try_from(place).ok().and_then(|at| self.held.get(at));
        matches!(held, Some(Held::Whole(found)) if *found >= sequence)
    }

    /// Counts a place, and gives its record that is not there and should be.
    fn judge(
        &self,
        place: u64,
        held: Held,
        in_flight: u64,
        counts: &mut Counts,
    ) -> Option<(u64, Fault)> {
        let last = self.promised.saturating_add(self.window);
        let newest_written = self.pledge.newest_at(place, last)?;
        let promised = self.pledge.newest_at(place, self.promised);
        if newest_written > self.promised && !self.is_there(place, newest_written) {
            if newest_written < self.newest {
                counts.out_of_order += 1;
                return Some((newest_written, Fault::OutOfOrder));
            }
            let is_missing = promised.is_some_and(|sequence| !self.is_there(place, sequence));
            if newest_written == in_flight && is_missing {
                counts.undecided += 1;
                return None;
            }
        }
        let sequence = promised?;
        if self.is_there(place, sequence) {
            counts.intact += 1;
            return None;
        }
        counts.out_of_order += u64::from(sequence < self.newest);
        let fault = fault(held, sequence);
        match fault {
            Fault::Lost => counts.lost += 1,
            Fault::Torn => counts.torn += 1,
            Fault::Misplaced => counts.misplaced += 1,
            Fault::Stale | Fault::OutOfOrder => counts.stale += 1,
        }
        Some((sequence, fault))
    }
}

/// What is wrong with a place that should hold all of a record.
fn fault(held: Held, sequence: u64) -> Fault {
    match held {
        Held::Nothing => Fault::Lost,
        Held::Parts(found) if found >= sequence => Fault::Torn,
        Held::Elsewhere => Fault::Misplaced,
        Held::Whole(_) | Held::Parts(_) | Held::OtherRun => Fault::Stale,
    }
}

#[cfg(test)]
mod tests;
