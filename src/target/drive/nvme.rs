//! NVMe: structures and log pages. Offsets are those of NVMe Base Specification 2.0 (identify
//! controller 5.17.2.1, log pages 5.16.1), NVM Command Set Specification 1.0 (identify namespace
//! 4.1.5.1) and OCP Datacenter NVMe SSD Specification 2.0 (C0h 4.8.6). Older drives have zeros where
//! later revisions added fields.

use std::fs::File;

use super::{bytes, u16_at, u32_at};
use crate::model::drive::{
    DATA_UNIT_BYTES, DriveCache, DriveFacts, Health, Interface, NvmeError, NvmeFacts, NvmeFormat,
};
use crate::sys::nvme::{self, Answer, NvmeError as NvmeFailure, Query};

/// Which log page is the OCP one: AFD514C9-7C6F-4F9C-A4F2-BFEA2810AFC5, from its last byte.
const OCP_GUID: [u8; 16] = [
    0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF,
];
const OCP_PAGE: usize = 0xC0;

/// What Identify Controller tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Controller {
    version: Option<String>,
    /// It has the page that lists its log pages.
    lists_logs: bool,
    cache_present: bool,
    warning_temperature_c: Option<i32>,
    critical_temperature_c: Option<i32>,
}

/// The facts of the drive whose node is open, or of one that could not be opened.
pub(super) fn facts(node: Result<File, String>) -> DriveFacts {
    match node {
        Ok(node) => told(nvme::namespace_id(&node).ok(), &|query| {
            nvme::ask(&node, query)
        }),
        Err(error) => DriveFacts {
            unanswered: vec![error],
            ..nothing()
        },
    }
}

fn nothing() -> DriveFacts {
    DriveFacts {
        interface: Interface::Nvme,
        cache: DriveCache::default(),
        fua: None,
        nvme: None,
        health: None,
        unanswered: Vec::new(),
    }
}

/// The SMART log, and what the media took if the drive is known to tell (`has_ocp`).
pub(super) fn health(node: &File, has_ocp: bool) -> Option<Health> {
    let page = |query| nvme::ask(node, query).map(|answer| answer.data);
    let mut health = smart(&page(Query::Smart).ok()?)?;
    if has_ocp {
        add_ocp(&mut health, &page(Query::OcpSmart).ok()?);
    }
    Some(health)
}

/// Asks a controller.
pub type Ask<'a> = &'a dyn Fn(Query) -> Result<Answer, NvmeFailure>;

/// The facts that a drive's answers tell; of its namespace too, if that has a number.
pub fn told(nsid: Option<u32>, asked: Ask) -> DriveFacts {
    let mut facts = nothing();
    let mut ask = |query: Query, what: &str| {
        let answer = asked(query);
        answer
            .map_err(|error| {
                facts
                    .unanswered
                    .push(format!("cannot read {what}: {error}"))
            })
            .ok()
    };
    let identity = ask(Query::IdentifyController, "identify controller");
    let identity = identity.and_then(|answer| controller(&answer.data));
    let formats = nsid
        .and_then(|nsid| ask(Query::IdentifyNamespace { nsid }, "identify namespace"))
        .map(|answer| formats(&answer.data));
    let is_on = identity
        .as_ref()
        .filter(|identity| identity.cache_present)
        .and_then(|_| ask(Query::VolatileWriteCache, "feature volatile write cache"))
        .map(|answer| answer.value & 1 != 0);
    let mut health = ask(Query::Smart, "the SMART log").and_then(|answer| smart(&answer.data));
    let last_error = ask(Query::LastError, "the error log");
    if let (Some(health), Some(identity)) = (&mut health, &identity)
        && may_have_ocp(asked, identity)
        && let Ok(page) = asked(Query::OcpSmart)
    {
        add_ocp(health, &page.data);
    }
    let identity_known = identity.is_some();
    let identity = identity.unwrap_or_default();
    facts.cache.present = identity_known.then_some(identity.cache_present);
    facts.cache.enabled = is_on;
    facts.health = health;
    facts.nvme = (identity_known || formats.is_some()).then(|| NvmeFacts {
        version: identity.version,
        warning_temperature_c: identity.warning_temperature_c,
        critical_temperature_c: identity.critical_temperature_c,
        formats: formats.unwrap_or_default(),
        last_error: last_error.and_then(|answer| newest_error(&answer.data)),
    });
    facts
}

/// Whether to ask for the OCP page. A drive that lacks it writes the refused command into its error
/// log, whose length monitors watch. So drives that list their pages are asked for what they list, and
/// of the others only those without a volatile cache, as drives for data centres are.
fn may_have_ocp(asked: Ask, controller: &Controller) -> bool {
    if !controller.lists_logs {
        return !controller.cache_present;
    }
    asked(Query::SupportedLogPages).is_ok_and(|list| is_listed(&list.data, OCP_PAGE))
}

/// Bit 0 of a page's entry says that it is supported (5.16.1.1).
fn is_listed(list: &[u8], page: usize) -> bool {
    u32_at(list, 4 * page).is_some_and(|entry| entry & 1 != 0)
}

fn controller(data: &[u8]) -> Option<Controller> {
    let version = u32_at(data, 80)?;
    // Drives before NVMe 1.2 have 0.
    let version = (version != 0).then(|| {
        let (major, minor, third) = (version >> 16, version >> 8 & 0xFF, version & 0xFF);
        format!("{major}.{minor}.{third}")
    });
    Some(Controller {
        version,
        lists_logs: data.get(261)? & 1 << 5 != 0,
        cache_present: data.get(525)? & 1 != 0,
        warning_temperature_c: celsius(u16_at(data, 266)?),
        critical_temperature_c: celsius(u16_at(data, 268)?),
    })
}

/// The specification gives kelvins; 0 stands for nothing.
fn celsius(kelvins: u16) -> Option<i32> {
    (kelvins != 0).then(|| i32::from(kelvins) - 273)
}

fn formats(data: &[u8]) -> Vec<NvmeFormat> {
    let (Some(&last), Some(&flbas)) = (data.get(25), data.get(26)) else {
        return Vec::new();
    };
    // Bits 6 and 5 go above the lower four, and mean something only with more than 16 formats.
    let upper = if last >= 16 { (flbas >> 5) & 3 } else { 0 };
    let in_use = usize::from(flbas & 0xF | upper << 4);
    (0..=usize::from(last.min(63)))
        .filter_map(|index| {
            let entry = u32_at(data, 128 + 4 * index)?;
            let block_bits = entry >> 16 & 0xFF;
            // Less than 512 bytes: a format that can't be had at present.
            (9..64).contains(&block_bits).then(|| NvmeFormat {
                block_bytes: 1 << block_bits,
                metadata_bytes: u64::from(entry & 0xFFFF),
                performance_rank: (entry >> 24 & 3) as u8,
                in_use: index == in_use,
            })
        })
        .collect()
}

fn smart(data: &[u8]) -> Option<Health> {
    let count = |at| {
        let wide = bytes(data, at).map(u128::from_le_bytes);
        wide.and_then(|count| u64::try_from(count).ok())
    };
    let units = |at| count(at).and_then(|units: u64| units.checked_mul(DATA_UNIT_BYTES));
    Some(Health {
        critical_warning: *data.first()?,
        temperature_c: celsius(u16_at(data, 1)?),
        spare_percent: *data.get(3)?,
        spare_threshold_percent: *data.get(4)?,
        used_percent: *data.get(5)?,
        host_read_bytes: units(32),
        host_written_bytes: units(48),
        host_writes: count(80),
        media_written_bytes: None,
        capacitor_percent: None,
        power_cycles: count(112),
        power_on_hours: count(128),
        unsafe_shutdowns: count(144),
        media_errors: count(160),
        error_log_entries: count(176),
        hot_minutes: u32_at(data, 192)?,
        critical_minutes: u32_at(data, 196)?,
        // Lightly and heavily: thermal management temperatures 1 and 2.
        throttlings: u64::from(u32_at(data, 216)?) + u64::from(u32_at(data, 220)?),
        throttled_seconds: u64::from(u32_at(data, 224)?) + u64::from(u32_at(data, 228)?),
    })
}

/// The OCP page, if that is what `data` is: bytes 0 to 15 are the bytes written to the media, 128 and
/// 129 the capacitors' health, FFFFh without any.
fn add_ocp(health: &mut Health, data: &[u8]) {
    if data.get(496..512) != Some(&OCP_GUID) {
        return;
    }
    let media = bytes(data, 0).map(u128::from_le_bytes);
    health.media_written_bytes = media.and_then(|bytes| u64::try_from(bytes).ok());
    health.capacitor_percent = u16_at(data, 128).filter(|&percent| percent != 0xFFFF);
}

/// The first entry of the error log, which is the newest; 0 in its count is no entry. Bit 0 of the
/// status field is the phase tag, the uppermost four are no part of the status.
fn newest_error(data: &[u8]) -> Option<NvmeError> {
    let number = u64::from_le_bytes(bytes(data, 0)?);
    (number != 0).then_some(NvmeError {
        number,
        status: u16_at(data, 12)? >> 1 & 0x7FF,
        nsid: u32_at(data, 24)?,
    })
}

#[cfg(test)]
mod tests;
