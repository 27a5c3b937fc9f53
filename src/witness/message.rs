//! What a client and the witness say to each other.

use serde::{Deserialize, Serialize};

use crate::model::durability::{Counts, DeviceKey, Manifest, Tally};

/// Said in each conversation's first message. A witness refuses another.
pub(super) const VERSION: u32 = 1;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A run begins, or goes on after its connection was lost.
    Begin {
        /// [`VERSION`].
        version: u32,
        /// The run.
        pledge: Manifest,
    },
    /// In a run: the device acknowledged this record, and all before it were reported.
    Wrote {
        /// Which.
        sequence: u64,
    },
    /// The run is over, and no power was cut.
    End {
        /// The last record that was reported.
        sequence: u64,
    },
    /// What was promised? By a run's id, or by the newest run of a device.
    Find {
        /// [`VERSION`].
        version: u32,
        /// The run.
        id: Option<String>,
        /// The device.
        device: Option<DeviceKey>,
    },
    /// A device was compared with what was promised.
    Checked {
        /// [`VERSION`].
        version: u32,
        /// The run.
        id: String,
        /// The boot in which that was done.
        boot_id: String,
        /// What came of it.
        counts: Counts,
    },
}

/// What the witness says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The run is on disk.
    Begun {
        /// The last record that it reported; none is 0.
        sequence: u64,
    },
    /// All reports up to this one are on disk.
    Stored {
        /// Which.
        sequence: u64,
    },
    /// That the run is over is on disk. Answers a run's begin, too, if that is known already.
    Goodbye,
    /// A run, and what it promised.
    Found {
        /// The run.
        pledge: Box<Manifest>,
        /// The last record that was promised; none is 0.
        promised: u64,
        /// It said goodbye.
        ended: bool,
        /// The newest run of the device that began after it and may have overwritten its records.
        later: Option<String>,
    },
    /// There is no such run.
    Unknown,
    /// The comparison is on disk.
    Noted {
        /// What is known of the device by now.
        tally: Tally,
    },
    /// The conversation ends, and why.
    Refused {
        /// One line.
        why: String,
    },
}
