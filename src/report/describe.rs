//! Targets in words.

use super::drives;
use crate::model::facts::{DeviceFacts, DeviceKind, JournalFacts, MountFacts, PcieLink};
use crate::model::record::Target;
use crate::model::units::{show_amount, show_bytes};

/// One line that names a target.
pub(super) fn title(target: &Target) -> String {
    match (&target.mount, target.stack.first()) {
        (Some(mount), Some(device)) => {
            format!("{}: {} on {}", target.path, mount.fs_type, device.name)
        }
        (Some(mount), None) => format!("{}: {}", target.path, mount.fs_type),
        (None, Some(device)) => format!("{}: {}", target.path, disk_words(device)),
        (None, None) => target.path.clone(),
    }
}

/// A target's facts, a line each.
pub(super) fn facts(target: &Target) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(target.mount.as_ref().map(mount_line));
    lines.extend(device_line(&target.stack));
    lines.extend(target.stack.first().and_then(cache_line));
    for more in &target.beside {
        let line = device_line(&more.stack);
        let line = line.unwrap_or_else(|| "on a device that isn't known".to_owned());
        lines.push(format!("{}: {line}", more.holds));
        lines.extend(more.stack.first().and_then(cache_line));
    }
    lines.extend(target.devices().filter_map(drives::fact_line));
    lines
}

/// A target's filesystem, for a summary.
pub(super) fn filesystem(target: &Target) -> String {
    target
        .mount
        .as_ref()
        .map_or("-".to_owned(), |mount| mount.fs_type.clone())
}

/// The name of a target's device, for a summary.
pub(super) fn device(target: &Target) -> String {
    target
        .stack
        .first()
        .map_or("-".to_owned(), |device| device.name.clone())
}

fn mount_line(mount: &MountFacts) -> String {
    let mut parts = vec![format!(
        "{} at {} ({})",
        mount.fs_type,
        mount.mount_point,
        mount.options.join(",")
    )];
    if let Some(bytes) = mount.block_bytes {
        parts.push(format!("block {}", show_bytes(bytes)));
    }
    let journal = mount.journal.as_ref().and_then(journal);
    parts.extend(journal.map(|journal| format!("journal {journal}")));
    parts.join(", ")
}

/// A journal's size, mode and place, as far as they are known.
pub(super) fn journal(journal: &JournalFacts) -> Option<String> {
    let mut words: Vec<String> = journal.size_bytes.map(show_amount).into_iter().collect();
    words.extend(journal.mode.clone());
    if journal.external == Some(true) {
        words.push("on another device".to_owned());
    }
    (!words.is_empty()).then(|| words.join(" "))
}

/// A link's speed and width, and the best that it could if that is more.
pub(super) fn link(link: &PcieLink) -> Option<String> {
    let words = |speed: &Option<String>, width: Option<u32>| {
        let speed = speed
            .as_ref()
            .map(|speed| speed.trim_end_matches(" PCIe").to_owned());
        let width = width.map(|width| format!("x{width}"));
        let words: Vec<String> = speed.into_iter().chain(width).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    let own = words(&link.speed, link.width)?;
    Some(match words(&link.max_speed, link.max_width) {
        Some(most) if most != own => format!("{own} (of {most})"),
        _ => own,
    })
}

fn device_line(stack: &[DeviceFacts]) -> Option<String> {
    let first = stack.first()?;
    let mut words = disk_words(first);
    if let Some(file) = &first.backing_file {
        words += &format!(", backed by {file}");
    }
    for device in stack.iter().skip(1) {
        words += &format!(" on {}", disk_words(device));
    }
    Some(words)
}

fn disk_words(device: &DeviceFacts) -> String {
    let name = match (&device.dm_name, &device.kind) {
        (Some(dm_name), _) => format!("{} ({dm_name})", device.name),
        (None, DeviceKind::Partition) => format!("{} (partition)", device.name),
        (None, _) => device.name.clone(),
    };
    let mut words = vec![name];
    words.extend(device.model.as_ref().map(|model| model.trim().to_owned()));
    words.extend(
        device
            .firmware
            .as_ref()
            .map(|firmware| format!("firmware {}", firmware.trim())),
    );
    words.push(show_amount(device.size_bytes));
    words.join(" ")
}

/// What decides how a synchronous write reaches stable storage.
fn cache_line(device: &DeviceFacts) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(
        device
            .write_cache
            .as_ref()
            .map(|cache| format!("write cache {cache}")),
    );
    parts.extend(
        device
            .fua
            .map(|fua| if fua { "FUA" } else { "no FUA" }.to_owned()),
    );
    parts.extend(
        device
            .scheduler
            .as_ref()
            .map(|scheduler| format!("scheduler {scheduler}")),
    );
    if let (Some(logical), Some(physical)) =
        (device.logical_block_bytes, device.physical_block_bytes)
    {
        parts.push(format!(
            "block {} logical, {} physical",
            show_bytes(logical),
            show_bytes(physical)
        ));
    }
    parts.extend(
        device
            .rotational
            .map(|turns| if turns { "rotating" } else { "not rotating" }.to_owned()),
    );
    let link = device.pcie.as_ref().and_then(link);
    parts.extend(link.map(|link| format!("PCIe {link}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}
