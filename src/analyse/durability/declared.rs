//! What the kernel and the drive say of the write cache.

use crate::model::facts::DeviceFacts;
use crate::model::record::Target;

use super::{Finding, Question, Verdict, WRITE_THROUGH, is_write_back, overridden, own_word};

pub(super) fn findings(target: &Target) -> Vec<Finding> {
    vec![volatile_cache(target)]
}

fn volatile_cache(target: &Target) -> Finding {
    let mut reasons: Vec<String> = target.stack.iter().map(kernel_view).collect();
    let verdict = match is_write_back(target) {
        Some(true) => {
            reasons.push("so the kernel sends the flushes that a sync asks for".to_owned());
            Verdict::Declared
        }
        Some(false) => {
            reasons.push(
                "so the kernel sends no flush, whatever a program asks for: what the device keeps in \
                 a volatile cache all the same, a sync doesn't save"
                    .to_owned(),
            );
            Verdict::Declared
        }
        None => Verdict::NotTestable,
    };
    // Honest where there is no cache; but nobody who syncs above it can know.
    let top = target.stack.first().map(|device| device.dev);
    let is_end = |device: &&DeviceFacts| device.write_cache.as_deref() == Some(WRITE_THROUGH);
    if let Some(end) = target
        .stack
        .iter()
        .find(is_end)
        .filter(|end| Some(end.dev) != top)
    {
        reasons.push(format!("no flush goes further down than to {}", end.name));
    }
    let overridden = overridden(target).map(|device| (device.name.as_str(), true));
    let is_dropped = overridden.is_some() || is_write_back(target) == Some(false);
    let (own, verdict) = match (overridden.or(own_word(target)), is_dropped) {
        (None, _) => (
            "the drives' own word is not known: this is the kernel's view, which may differ"
                .to_owned(),
            verdict,
        ),
        (Some((name, true)), true) => (
            format!(
                "{name} itself says that its cache is on, and the kernel takes it, or what is above it, for \
                 write through: what it acknowledged may be lost with the power, unless the cache is \
                 protected; tell the kernel by its queue/write_cache"
            ),
            Verdict::Contradicted,
        ),
        (Some((name, true)), _) => (format!("{name} itself says that its cache is on"), verdict),
        (Some((name, false)), _) => (
            format!("{name} itself says that it has no volatile cache, or that it is off"),
            verdict,
        ),
    };
    reasons.push(own);
    Finding::new(Question::VolatileCache, verdict, reasons)
}

fn kernel_view(device: &DeviceFacts) -> String {
    let fua = match device.fua {
        Some(true) => ", takes FUA",
        Some(false) => ", takes no FUA",
        None => "",
    };
    match &device.write_cache {
        Some(cache) => format!("the kernel takes {} for {cache}{fua}", device.name),
        None => format!("the kernel doesn't say what cache {} has{fua}", device.name),
    }
}
