//! What the run itself was held to.

use crate::model::facts::Limit;
use crate::model::record::{Record, Target};

/// Each limit that concerns what was measured: on one of its devices, or on the processors.
pub fn binding_limits(record: &Record) -> Vec<String> {
    let host = &record.host;
    let concerns = |limit: &&Limit| {
        let mut devices = record.targets.iter().flat_map(Target::devices);
        limit
            .device
            .is_none_or(|dev| devices.any(|device| device.dev == dev))
    };
    let groups = host.limits.iter().filter(concerns);
    let mut told: Vec<String> = groups
        .map(|limit| format!("a control group limits this run, {limit}"))
        .collect();
    if let Some(usable) = host.usable_cpus.filter(|usable| *usable < host.cpus) {
        told.push(format!(
            "the CPU affinity of this run allows {usable} of {} CPUs (Cpus_allowed_list)",
            host.cpus
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::devid::DevId;
    use crate::model::fixture::{Builder, DISK};

    #[test]
    fn limits_on_other_devices_are_none_of_this_run() {
        let mut record = Builder::new("raw").device("t0").record;
        assert_eq!(binding_limits(&record), [""; 0]);
        let limit = |device, value: &str| Limit {
            file: "/sys/fs/cgroup/a/io.max".to_owned(),
            device,
            value: value.to_owned(),
        };
        let elsewhere = DevId { major: 8, minor: 0 };
        record.host.limits = vec![
            limit(Some(elsewhere), "wiops=1"),
            limit(Some(DISK), "wiops=200"),
        ];
        record.host.usable_cpus = Some(1);
        let told = binding_limits(&record);
        assert_eq!(told.len(), 2);
        assert!(
            told[0].ends_with("/sys/fs/cgroup/a/io.max: 259:0 wiops=200"),
            "{told:?}"
        );
        assert!(told[1].contains("allows 1 of 8 CPUs"), "{told:?}");
    }
}
