//! Does the device keep what it acknowledged? What a record shows for it and against it. Timing can
//! make a promise implausible and never prove it: only losses of power that really happened can.

mod ablation;
mod cuts;
mod declared;
mod medium;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::record::{Record, Target};

pub use ablation::{Cost, costs};

/// The settings of a device's `queue/write_cache`.
const WRITE_BACK: &str = "write back";
const WRITE_THROUGH: &str = "write through";

/// What is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Is there a cache that a loss of power empties?
    VolatileCache,
    /// Do flushes reach the driver?
    FlushSent,
    /// Does a flush bring to the medium what was written before?
    Flush,
    /// Does a flush with more to bring take longer?
    DirtyBytes,
    /// Does a FUA write wait for the medium?
    Fua,
    /// Can each synchronous write have waited for the medium?
    Medium,
    /// Is what was acknowledged there after a loss of power?
    PowerCut,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Question::VolatileCache => "volatile cache",
            Question::FlushSent => "flushes sent",
            Question::Flush => "flush",
            Question::DirtyBytes => "dirty bytes",
            Question::Fua => "FUA",
            Question::Medium => "medium",
            Question::PowerCut => "power cuts",
        })
    }
}

/// What the evidence comes to. None of these says that the device honours a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Somebody says so, and nothing here tests it.
    Declared,
    /// What was seen is what a device that keeps its word shows. One that doesn't may show it too.
    Consistent,
    /// What was seen is not what one would expect, but there is an honest reason that it may have.
    Suspicious,
    /// What was seen can't be so if what is claimed is.
    Contradicted,
    /// Nothing here can tell.
    NotTestable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Declared => "declared",
            Verdict::Consistent => "consistent",
            Verdict::Suspicious => "suspicious",
            Verdict::Contradicted => "contradicted",
            Verdict::NotTestable => "not testable here",
        })
    }
}

/// One question's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was asked.
    pub question: Question,
    /// What the evidence comes to.
    pub verdict: Verdict,
    /// The evidence, and what it leaves open: a clause each.
    pub reasons: Vec<String>,
}

impl Finding {
    fn new(question: Question, verdict: Verdict, reasons: Vec<String>) -> Finding {
        Finding {
            question,
            verdict,
            reasons,
        }
    }
}

/// All that a record of an inquiry into durability says; nothing of another record.
pub fn findings(record: &Record) -> Vec<Finding> {
    let (Some(told), Some(target)) = (&record.durability, record.targets.first()) else {
        return Vec::new();
    };
    let mut findings = declared::findings(target);
    if !record.cells.is_empty() {
        findings.extend(ablation::findings(record, target, told));
        findings.push(medium::finding(record, target, told));
    }
    findings.push(cuts::finding(told.checked.as_ref()));
    findings
}

/// The drives' own word on their volatile caches, and whose it is. One that is on decides for all; that
/// none is takes the word of every device that has no other below. Through a loop device or a
/// compressed memory, nothing that a drive says reaches the writer.
fn own_word(target: &Target) -> Option<(&str, bool)> {
    let stack = &target.stack;
    let is_soft = |device: &DeviceFacts| matches!(device.kind, DeviceKind::Loop | DeviceKind::Zram);
    if stack.iter().any(is_soft) {
        return None;
    }
    let word = |device: &DeviceFacts| device.drive.as_ref()?.cache.is_volatile();
    let on = stack.iter().find(|device| word(device) == Some(true));
    let mut bottom = stack.iter().filter(|device| device.lower.is_empty());
    match on {
        Some(device) => Some((&device.name, true)),
        None => {
            let first = bottom.next()?;
            let all_off = word(first) == Some(false) && bottom.all(|d| word(d) == Some(false));
            all_off.then_some((first.name.as_str(), false))
        }
    }
}

/// The kernel takes the device for one with a cache that it must flush, and all that flushes pass on their
/// way down for one too: the block layer drops them before any device that it takes for write through. None
/// where it doesn't say. What is below a loop device is flushed by a filesystem.
fn is_write_back(target: &Target) -> Option<bool> {
    passes_flushes(&target.stack, target.stack.first()?)
}

fn passes_flushes(stack: &[DeviceFacts], device: &DeviceFacts) -> Option<bool> {
    if device.write_cache.as_deref()? != WRITE_BACK {
        return Some(false);
    }
    let sends_on = matches!(
        device.kind,
        DeviceKind::Partition | DeviceKind::Dm | DeviceKind::Md
    );
    let is_below = |below: &&DeviceFacts| sends_on && device.lower.contains(&below.dev);
    let mut below = stack.iter().filter(is_below).peekable();
    let ends_below =
        below.peek().is_some() && below.all(|below| passes_flushes(stack, below) == Some(false));
    Some(!ends_below)
}

/// A drive anywhere below that says that its cache is on, and which the kernel was told to take for write
/// through: whatever is above it, no flush reaches it.
fn overridden(target: &Target) -> Option<&DeviceFacts> {
    let is_it = |device: &&DeviceFacts| {
        let own = device
            .drive
            .as_ref()
            .and_then(|drive| drive.cache.is_volatile());
        own == Some(true) && device.write_cache.as_deref() == Some(WRITE_THROUGH)
    };
    target.stack.iter().find(is_it)
}

#[cfg(test)]
mod tests;
