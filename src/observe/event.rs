//! What one traced event says, whatever kernel it came from.
//!
//! An event is written as one JSON object with the fields of its kind beside its own, so that
//! stored event files read as lists of lines.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::rwbs::Flags;
use crate::model::devid::DevId;

/// One event of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, on CLOCK_MONOTONIC: the engine's clock.
    pub time_ns: u64,
    /// The processor that it happened on.
    pub cpu: u32,
    /// The process that ran there. Completions happen in interrupts, so for them it is whoever was
    /// interrupted. 0 when idle.
    pub pid: u32,
    /// The thread of that process that ran there.
    pub tid: u32,
    /// What happened.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Kind {
    /// A request goes to the driver.
    RqIssue(Block),
    /// The driver completed a request, or `bytes` of it. A write that needs flushes around it
    /// completes twice: once when its bytes are written, and once more with 0 bytes when the last
    /// of its flushes is done (`blk_flush_complete_seq` in block/blk-flush.c). An empty flush bio
    /// completes only so, and is never issued itself: the flush request is.
    RqComplete(Block),
    /// The driver could not take a request now; it will be issued again.
    RqRequeue(Block),
    /// A request was merged into another, before either went to the driver.
    RqMerge(Block),
    /// A bio enters the block layer at this device.
    BioQueue(Block),
    /// A bio completed. For requests of a request-based device the kernel tells nothing here.
    BioComplete(Block),
    /// A step of the commit of an ext3 or ext4 transaction.
    JournalCommit(Commit),
    /// io_uring handed a request of the program to a worker thread.
    AsyncWork(Handover),
}

/// What the block layer's events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The whole disk, also for what was meant for a partition.
    pub dev: DevId,
    /// Where on that disk, in units of 512 bytes. None for a flush request, which has no place.
    pub sector: Option<u64>,
    /// How much. In a completion, how much of it completed.
    pub bytes: u64,
    /// What was asked.
    pub flags: Flags,
    /// The thread that ran, by name. Empty in events that don't tell it.
    #[serde(default, skip_serializing_if = "Comm::is_empty")]
    pub comm: Comm,
    /// The kernel's error, negative, in completions; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i32,
}

/// A step of the commit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The device that the filesystem is mounted on; the partition, where it is one.
    pub dev: DevId,
    /// Which step.
    pub step: CommitStep,
    /// The transaction's number.
    pub transaction: u32,
}

/// Steps of a commit, in their order (fs/jbd2/commit.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitStep {
    /// The commit begins: `jbd2_start_commit`.
    Start,
    /// The transaction's blocks go to the journal: `jbd2_commit_logging`.
    Logging,
    /// The commit block is written: `jbd2_end_commit`.
    End,
}

/// A request that io_uring handed to a worker thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// As the program gave it with the request; none where the kernel doesn't tell, as before
    /// Linux 5.18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<u64>,
}

/// A thread's name as the kernel keeps it: at most 15 bytes, then zeroes (TASK_COMM_LEN).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// From the kernel's bytes: all up to the first zero, at most 16.
    pub fn from_bytes(bytes: &[u8]) -> Comm {
        let mut name = [0; 16];
        for (to, from) in name
            .iter_mut()
            .zip(bytes.iter().take_while(|byte| **byte != 0))
        {
            *to = *from;
        }
        Comm(name)
    }

    /// The name's bytes, without the zeroes.
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(16);
        &self.0[..len]
    }

    /// Is no name told?
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Is this the name of a jbd2 thread, `jbd2/DEVICE-INODE` (fs/jbd2/journal.c)?
    pub fn is_jbd2(&self) -> bool {
        self.0.starts_with(b"jbd2/")
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm({self})")
    }
}

impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Comm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Comm, D::Error> {
        Ok(Comm::from_bytes(
            String::deserialize(deserializer)?.as_bytes(),
        ))
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(error: &i32) -> bool {
    *error == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Event {
        Event {
            time_ns: 12_345,
            cpu: 1,
            pid: 40,
            tid: 41,
            kind: Kind::RqIssue(Block {
                dev: DevId { major: 7, minor: 3 },
                sector: Some(2048),
                bytes: 4096,
                flags: Flags::parse("FWFS"),
                comm: Comm::from_bytes(b"jbd2/loop3-8\0junk"),
                error: 0,
            }),
        }
    }

    #[test]
    fn an_event_is_one_flat_line_of_json() {
        let line = serde_json::to_string(&written()).unwrap();
        assert_eq!(
            line,
            r#"{"time_ns":12345,"cpu":1,"pid":40,"tid":41,"event":"rq_issue","dev":"7:3","sector":2048,"bytes":4096,"flags":"FWFS","comm":"jbd2/loop3-8"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), written());
    }

    #[test]
    fn every_kind_of_event_survives_its_json() {
        let Kind::RqIssue(block) = written().kind else {
            unreachable!()
        };
        let failed = Block {
            sector: None,
            error: -5,
            comm: Comm::default(),
            ..block
        };
        let commit = Commit {
            dev: block.dev,
            step: CommitStep::Logging,
            transaction: 9,
        };
        for kind in [
            Kind::RqComplete(failed),
            Kind::RqRequeue(block),
            Kind::RqMerge(block),
            Kind::BioQueue(block),
            Kind::BioComplete(failed),
            Kind::JournalCommit(commit),
            Kind::AsyncWork(Handover {
                user_data: Some(u64::MAX),
            }),
            Kind::AsyncWork(Handover { user_data: None }),
        ] {
            let event = Event { kind, ..written() };
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(
                serde_json::from_str::<Event>(&line).unwrap(),
                event,
                "{line}"
            );
        }
    }

    #[test]
    fn a_name_ends_at_its_zero_and_tells_jbd2() {
        let name = Comm::from_bytes(b"jbd2/loop3-8\0junk");
        assert_eq!(name.to_string(), "jbd2/loop3-8");
        assert!(name.is_jbd2() && !name.is_empty());
        assert!(!Comm::from_bytes(b"jbd2ish").is_jbd2());
        assert!(Comm::from_bytes(b"\0x").is_empty());
        assert_eq!(Comm::from_bytes(&[b'a'; 40]).as_bytes().len(), 16);
    }
}
