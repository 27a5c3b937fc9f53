//! What is measured: facts of devices, mounts and the host, read through an injectable root. A fact
//! that isn't there is absent, not an error; nothing here judges or writes.

pub mod usage;

mod beside;
mod blockmap;
mod device;
mod dm;
pub mod drive;
mod exports;
mod free;
mod graph;
mod host;
mod identity;
mod images;
mod journal;
pub mod journal_map;
mod limits;
mod loops;
mod mount;
mod mountinfo;
mod snapshot;
mod space;
mod stack;
mod stopped;
mod sysfs;
mod temperature;

pub use beside::beside;
pub use drive::{ask_drives, health};
pub use free::{allowed_bytes, free_rule};
pub use host::{boot_id, host};
pub use identity::is_only_serial;
pub use journal::external_journal;
pub use journal_map::journal_ranges;
pub use loops::{Backing, FileId};
pub use mount::{complete, mount_of, mounts};
pub use snapshot::{sees_all_processes, sees_open_files};
pub use space::{Need, Takes, takes_space};
pub use stack::{all_devices, device_node, locate, neighbours, partition_places, stack};
pub use stopped::{Progress, Stopped, stopped, stopped_below};
pub use sysfs::is_gone;
pub use temperature::temperature_c;
