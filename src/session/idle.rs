//! Moments in which the run does nothing: what the devices below a directory are asked for then comes from
//! others, or from the filesystem's own background.

use std::time::Duration;

use crate::model::devid::DevId;
use crate::model::record::Record;
use crate::model::traffic::{BlockStat, DeviceTraffic};
use crate::observe::blockstat;
use crate::sys::clock::monotonic_ns;
use crate::sys::root::Root;

use super::write_target::{Target, WriteTarget};

/// A moment is this part of a round, which costs the run as much of its time.
const SHARE: u32 = 16;
const LEAST: Duration = Duration::from_millis(5);
const MOST: Duration = Duration::from_millis(100);

/// Waits for a moment and adds to the record what was counted meanwhile. `round_ns`: how long the last round
/// took.
pub(super) fn moment(root: &Root, targets: &[Target], record: &mut Record, round_ns: u64) {
    let read = |target: &Target| -> Vec<(DevId, Option<BlockStat>)> {
        let tops = target.counters.tops.iter();
        tops.map(|&dev| (dev, blockstat::read(root, dev))).collect()
    };
    let is_directory = |target: &&Target| matches!(target.place, WriteTarget::Scratch(_));
    let directories = targets.iter().filter(is_directory);
    let before: Vec<_> = directories.map(|target| (target, read(target))).collect();
    if before.is_empty() {
        return;
    }
    let begun_ns = monotonic_ns();
    std::thread::sleep((Duration::from_nanos(round_ns) / SHARE).clamp(LEAST, MOST));
    for (target, before) in before {
        let after = read(target);
        let elapsed_ns = monotonic_ns() - begun_ns;
        let each = before.iter().zip(&after);
        let counted: Option<Vec<DeviceTraffic>> = each
            .map(|((dev, before), (_, after))| {
                let counted = blockstat::since(after.as_ref()?, before.as_ref()?)?;
                Some(DeviceTraffic { dev: *dev, counted })
            })
            .collect();
        let of = record.targets.iter_mut().find(|of| of.id == target.id);
        if let Some((counted, of)) = counted.filter(|all| !all.is_empty()).zip(of) {
            of.idle.get_or_insert_default().add(elapsed_ns, &counted);
        }
    }
}
