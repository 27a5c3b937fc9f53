//! What an inquiry into a device's durability was told, and what it found.

use serde::{Deserialize, Serialize};

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
}
