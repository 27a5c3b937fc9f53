//! What an inquiry into a device's durability was told, and what it found.

use serde::{Deserialize, Serialize};

use super::cell::{EngineKind, Method};

/// An inquiry into a device's durability. Whether what was measured is plausible follows from it and
/// from the record's cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durability {
    /// The device turns, so many times a minute: told by the user.
    pub rpm: Option<u32>,
    /// The device is flash, and this is the shortest time in which it programs a page: told by the
    /// user.
    pub program_ns: Option<u64>,
    /// The user says that the device's cache survives a loss of power.
    pub protected: bool,
    /// What the device holds of what a witness was promised.
    #[serde(default)]
    pub checked: Option<Checked>,
}

/// A run that writes records to a device and reports each to a witness once the device said that it is
/// durable. Record `n`, from 1, lies in the place `(n - 1) % places` of the span, so each place is
/// written again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// 32 hexadecimal digits.
    pub id: String,
    /// The device.
    pub device: DeviceKey,
    /// What is written of it, from its start.
    pub span_bytes: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// What makes a write synchronous. With `none`, nothing is promised.
    pub method: Method,
    /// What issues the writes.
    pub engine: EngineKind,
    /// The most reports that are sent and not yet answered.
    pub window: u64,
    /// The boot in which it writes.
    pub boot_id: String,
    /// When it began: RFC 3339, in UTC.
    pub started: String,
}

impl Manifest {
    /// The fewest bytes of a record: one sector.
    const LEAST_BYTES: u64 = 512;
    /// The most bytes of a record.
    const MOST_BYTES: u64 = 1 << 20;
    /// The most places, each of which takes some memory when the device is checked.
    const MOST_PLACES: u64 = 1 << 22;

    /// How many records the span holds.
    pub fn places(&self) -> u64 {
        self.span_bytes / self.record_bytes
    }

    /// Where record `sequence`, from 1, lies.
    pub fn offset_bytes(&self, sequence: u64) -> u64 {
        (sequence - 1) % self.places() * self.record_bytes
    }

    /// The newest record up to `sequence` that was written to `place`; none if there was none.
    pub fn newest_at(&self, place: u64, sequence: u64) -> Option<u64> {
        let since_first = sequence.checked_sub(1)?.checked_sub(place)?;
        Some(place + 1 + since_first / self.places() * self.places())
    }

    /// The run's id as a number.
    pub fn run(&self) -> Option<u128> {
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let is_id = self.id.len() == 32 && self.id.chars().all(is_hex);
        is_id.then(|| u128::from_str_radix(&self.id, 16).ok())?
    }

    /// What is wrong with it, if anything is: it comes from outside.
    pub fn fault(&self) -> Option<String> {
        let record = self.record_bytes;
        if self.run().is_none() {
            return Some("its id is not 32 hexadecimal digits".to_owned());
        }
        if !(Self::LEAST_BYTES..=Self::MOST_BYTES).contains(&record)
            || !record.is_multiple_of(Self::LEAST_BYTES)
        {
            return Some(format!(
                "records of {record} bytes: must be whole sectors of 512 bytes, 1 MiB at most"
            ));
        }
        if self.places() > Self::MOST_PLACES {
            return Some(format!(
                "{} records in the span: at most {}; use a smaller --span or larger records",
                self.places(),
                Self::MOST_PLACES
            ));
        }
        if self.window == 0 || self.places() / 2 < self.window {
            return Some(format!(
                "{} records in the span, and reports of {} of them unanswered: must be at least one, and \
                 at most half of the records, or what was in flight at the cut could be anything; use a \
                 larger --span or smaller records",
                self.places(),
                self.window
            ));
        }
        None
    }
}

/// What tells a device from others after a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceKey {
    /// The machine.
    pub hostname: String,
    /// The device's kernel name.
    pub name: String,
    /// Its drive's serial number.
    pub serial: Option<String>,
    /// Its drive's model.
    pub model: Option<String>,
    /// Where a partition starts on its disk; 0 for a whole device.
    pub start_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}

impl DeviceKey {
    /// The same device, as far as names tell: the same part of the drive with that serial number, in
    /// whatever machine and under whatever name; without one, the same name and size in the same
    /// machine.
    pub fn is_same(&self, other: &DeviceKey) -> bool {
        let part = |key: &DeviceKey| (key.start_bytes, key.size_bytes);
        let same = match (&self.serial, &other.serial) {
            (Some(own), Some(others)) => own == others && self.model == other.model,
            (None, None) => self.hostname == other.hostname && self.name == other.name,
            _ => false,
        };
        same && part(self) == part(other)
    }
}

/// What a device holds of what was promised. Of each place, the newest record that was promised is
/// judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that are there, or newer ones in their place.
    pub intact: u64,
    /// Records in whose place there is nothing of any record.
    pub lost: u64,
    /// Records of which a part is there.
    pub torn: u64,
    /// Records in whose place there is one that belongs elsewhere.
    pub misplaced: u64,
    /// Records in whose place there is an older one.
    pub stale: u64,
    /// Records, promised or not, that the device had acknowledged before it was given a later one, and
    /// that are not there although the later one is.
    pub out_of_order: u64,
    /// Records that are not there, in places that may have been written when the power went.
    pub undecided: u64,
}

impl Counts {
    /// Promised records that are not there.
    pub fn broken(&self) -> u64 {
        // They may come from anywhere, through a witness.
        [self.lost, self.torn, self.misplaced, self.stale]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Nothing that the device acknowledged is known to be missing.
    pub fn is_kept(&self) -> bool {
        self.broken() == 0 && self.out_of_order == 0
    }
}

/// What is wrong with a record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// See [`Counts::lost`].
    Lost,
    /// See [`Counts::torn`].
    Torn,
    /// See [`Counts::misplaced`].
    Misplaced,
    /// See [`Counts::stale`].
    Stale,
    /// Not promised, and see [`Counts::out_of_order`].
    OutOfOrder,
}

/// One record that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which record.
    pub sequence: u64,
    /// Its place.
    pub offset_bytes: u64,
    /// What is wrong.
    pub fault: Fault,
    /// The newest record of this run of which something is in the place.
    pub found_sequence: Option<u64>,
}

/// What a witness knows of a device's runs with one method and engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Runs that promised something.
    pub runs: u64,
    /// Runs without a goodbye that were checked in a later boot.
    pub cuts: u64,
    /// Cuts after which all that was promised was there.
    pub survived: u64,
}

/// A device compared with what a witness was promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The run.
    pub pledge: Manifest,
    /// The witness has the report of each record up to this one.
    pub promised: u64,
    /// The run said goodbye: it was not cut off.
    pub ended: bool,
    /// The boot in which the device was read.
    pub boot_id: String,
    /// The newest record of which something is on the device.
    pub newest: Option<u64>,
    /// The comparison.
    pub counts: Counts,
    /// The first records that are not there, by place.
    pub missing: Vec<Missing>,
    /// What the witness knows of the device, this check included.
    pub tally: Tally,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    #[test]
    fn the_newest_record_of_a_place_is_found_in_every_generation() {
        let pledge = Manifest {
            span_bytes: 4 * 4096,
            ..fixture::pledge(1)
        };
        let newest = |place| {
            (0..10)
                .map(|last| pledge.newest_at(place, last))
                .collect::<Vec<_>>()
        };
        let (none, some) = (None, Some);
        assert_eq!(
            newest(0),
            [
                none,
                some(1),
                some(1),
                some(1),
                some(1),
                some(5),
                some(5),
                some(5),
                some(5),
                some(9)
            ]
        );
        assert_eq!(
            newest(3)[3..9],
            [none, some(4), some(4), some(4), some(4), some(8)]
        );
        assert_eq!(pledge.offset_bytes(5), 0);
        assert_eq!(pledge.offset_bytes(8), 3 * 4096);
    }

    #[test]
    fn a_drive_is_known_by_its_serial_number_and_else_by_its_name() {
        let named = fixture::pledge(1).device;
        let elsewhere = DeviceKey {
            hostname: "db2".to_owned(),
            name: "sdy".to_owned(),
            ..named.clone()
        };
        assert!(named.is_same(&named));
        assert!(!named.is_same(&elsewhere));
        let with_serial = |key: &DeviceKey| DeviceKey {
            serial: Some("S1".to_owned()),
            ..key.clone()
        };
        assert!(with_serial(&named).is_same(&with_serial(&elsewhere)));
        assert!(!with_serial(&named).is_same(&named));
        let partition = DeviceKey {
            start_bytes: 1 << 20,
            ..with_serial(&named)
        };
        assert!(!with_serial(&named).is_same(&partition));
    }

    #[test]
    fn a_pledge_from_outside_is_looked_at() {
        let good = fixture::pledge(1);
        assert_eq!(good.fault(), None);
        let bad = [
            Manifest {
                id: "../x".to_owned(),
                ..good.clone()
            },
            Manifest {
                record_bytes: 0,
                ..good.clone()
            },
            Manifest {
                record_bytes: 1000,
                ..good.clone()
            },
            Manifest {
                span_bytes: 0,
                ..good.clone()
            },
            Manifest {
                window: 0,
                ..good.clone()
            },
            Manifest {
                window: 129,
                ..good.clone()
            },
            Manifest {
                span_bytes: u64::MAX,
                ..good.clone()
            },
        ];
        for pledge in bad {
            assert!(pledge.fault().is_some(), "{pledge:?}");
        }
    }
}
