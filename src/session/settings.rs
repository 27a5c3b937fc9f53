//! Settings of devices and mounts that decide what is measured. They are read again after each round: no
//! figure may be made of writes under two of them.

use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::record::{Level, Note, Record, Target};
use crate::model::units::show_ns;
use crate::sys::root::Root;
use crate::target;

/// What is no longer as it was when the run was planned, a warning each; `elapsed_ns` is how far the run
/// is. What can't be read now is told by those who use it.
pub(super) fn changed(root: &Root, record: &Record, elapsed_ns: u64) -> Vec<Note> {
    let mounts = match record.targets.iter().any(|target| target.mount.is_some()) {
        true => target::mounts(root).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut notes: Vec<Note> = Vec::new();
    for target in &record.targets {
        let devices = device_changes(root, target);
        let mount = target.mount.iter();
        let changes = mount.filter_map(|known| mount_change(known, &mounts));
        for change in devices.into_iter().chain(changes) {
            let text = format!(
                "{change}, seen {} into the run, which ends: all figures are from before, without the \
                 round in which it changed; run it again for those from after",
                show_ns(elapsed_ns as f64)
            );
            // Both sides of a gap are on one device.
            if !notes.iter().any(|note| note.text == text) {
                notes.push(Note {
                    level: Level::Warning,
                    target: Some(target.id.clone()),
                    text,
                });
            }
        }
    }
    notes
}

fn device_changes(root: &Root, target: &Target) -> Vec<String> {
    let beside = target.beside.iter().map(|more| &more.stack);
    let mut changes = Vec::new();
    for known in [&target.stack].into_iter().chain(beside) {
        let top = known.first();
        let now = top.and_then(|top| target::stack(root, top.dev).ok());
        let now = now.unwrap_or_default();
        for device in known {
            let same = now.iter().find(|other| other.dev == device.dev);
            changes.extend(
                same.into_iter()
                    .flat_map(|now| settings_changes(device, now)),
            );
        }
    }
    changes
}

fn settings_changes(known: &DeviceFacts, now: &DeviceFacts) -> Vec<String> {
    let flag =
        |is_set: Option<bool>| is_set.map(|is_set| if is_set { "on" } else { "off" }.to_owned());
    let settings = |of: &DeviceFacts| {
        [
            ("write cache", of.write_cache.clone()),
            ("scheduler", of.scheduler.clone()),
            ("FUA", flag(of.fua)),
            ("read-only flag", flag(of.read_only)),
        ]
    };
    let both = settings(known).into_iter().zip(settings(now));
    both.filter_map(|((what, before), (_, after))| {
        let (before, after) = before
            .zip(after)
            .filter(|(before, after)| before != after)?;
        Some(format!(
            "the {what} of {} changed from {before} to {after}",
            known.name
        ))
    })
    .collect()
}

fn mount_change(known: &MountFacts, mounts: &[MountFacts]) -> Option<String> {
    let is_it = |now: &&MountFacts| now.mount_point == known.mount_point && now.dev == known.dev;
    let now = mounts.iter().rfind(is_it)?;
    (now.options != known.options).then(|| {
        format!(
            "the options of {} changed from {} to {}",
            known.mount_point,
            known.options.join(","),
            now.options.join(",")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::Builder;
    use crate::model::record::BaselineKind;

    #[test]
    fn only_what_is_known_before_and_after_changes() {
        let builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        let target = &builder.record.targets[0];
        let known = DeviceFacts {
            scheduler: Some("none".to_owned()),
            ..target.stack[0].clone()
        };
        assert_eq!(settings_changes(&known, &known), [""; 0]);
        let mut now = known.clone();
        (now.fua, now.scheduler) = (None, Some("bfq".to_owned()));
        let told = settings_changes(&known, &now);
        let scheduler = format!("the scheduler of {} changed from none to bfq", known.name);
        assert_eq!(told, [scheduler]);
        let mount = target.mount.clone().unwrap();
        assert_eq!(mount_change(&mount, std::slice::from_ref(&mount)), None);
        assert_eq!(mount_change(&mount, &[]), None);
        let mut after = mount.clone();
        after.options.push("noatime".to_owned());
        let told = mount_change(&mount, &[after]).unwrap();
        assert!(told.ends_with(",noatime"), "{told}");
    }
}
