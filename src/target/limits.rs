//! What this process may use of the machine: limits of its control groups, at any level that can be seen
//! from here, and its processors.

use std::fs;
use std::path::{Path, PathBuf};

use super::mountinfo;
use super::sysfs::text;
use crate::model::devid::DevId;
use crate::model::facts::Limit;
use crate::sys::root::Root;

/// The limits on writes and on processor time in the control groups of this process
/// (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/blkio-controller.rst, scheduler/sched-bwc.rst).
pub(super) fn limits(root: &Root) -> Vec<Limit> {
    let own = fs::read_to_string(root.proc.join("self/cgroup")).unwrap_or_default();
    let mounts = fs::read(root.proc.join("self/mountinfo")).unwrap_or_default();
    let mut found: Vec<Limit> = Vec::new();
    for mount in mountinfo::parse(&mounts) {
        let Some(path) = group_of(&own, &mount.fs_type, &mount.options) else {
            continue;
        };
        // A container's mount shows the part of the tree from its own group on.
        let path = Path::new(path);
        let below = path.strip_prefix(&mount.root).unwrap_or(path);
        let top = Path::new(&mount.mount_point);
        let below = below.strip_prefix("/").unwrap_or(below);
        for group in top.join(below).ancestors() {
            for limit in of_group(group) {
                if !found.contains(&limit) {
                    found.push(limit);
                }
            }
            if group == top {
                break;
            }
        }
    }
    found
}

/// The path of this process's group in the hierarchy that is mounted so, if it is one: of `own`, the lines
/// of /proc/self/cgroup, the one that names its controllers (cgroups(7)).
fn group_of<'a>(own: &'a str, fs_type: &str, options: &[String]) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match fs_type {
            "cgroup2" => controllers.is_empty(),
            "cgroup" => {
                let mut names = controllers.split(',');
                !controllers.is_empty() && names.all(|name| options.iter().any(|o| o == name))
            }
            _ => false,
        };
        is_it.then_some(path)
    })
}

/// The limits that one group sets.
fn of_group(group: &Path) -> Vec<Limit> {
    let lines = |name: &str| -> Vec<(PathBuf, String)> {
        let path = group.join(name);
        let all = text(&path).unwrap_or_default();
        let lines = all.lines().map(|line| (path.clone(), line.to_owned()));
        lines.collect()
    };
    let mut found = Vec::new();
    for name in [
        "io.max",
        "io.latency",
        "blkio.throttle.write_bps_device",
        "blkio.throttle.write_iops_device",
    ] {
        for (path, line) in lines(name) {
            found.extend(device_limit(&path, &line));
        }
    }
    for (path, line) in lines("cpu.max") {
        if !line.starts_with("max") {
            found.push(limit(&path, None, format!("{line} (µs of each µs)")));
        }
    }
    let period = text(group.join("cpu.cfs_period_us")).unwrap_or_default();
    for (path, quota) in lines("cpu.cfs_quota_us") {
        if quota.parse::<u64>().is_ok() {
            found.push(limit(
                &path,
                None,
                format!("{quota} {period} (µs of each µs)"),
            ));
        }
    }
    found
}

/// `7:3 rbps=max wbps=1048576 riops=max wiops=max`, `7:3 target=10000` or `7:3 200`: what limits writes.
fn device_limit(path: &Path, line: &str) -> Option<Limit> {
    let (device, rest) = line.split_once(' ')?;
    let limits = |word: &&str| {
        let (key, value) = word.split_once('=').unwrap_or(("", word));
        !key.starts_with('r') && value != "max"
    };
    let words: Vec<&str> = rest.split_ascii_whitespace().filter(limits).collect();
    let device: DevId = device.parse().ok()?;
    (!words.is_empty()).then(|| limit(path, Some(device), words.join(" ")))
}

fn limit(path: &Path, device: Option<DevId>, value: String) -> Limit {
    Limit {
        file: path.display().to_string(),
        device,
        value,
    }
}

/// How many of the processors that are online this process may run on: `Cpus_allowed_list` in
/// /proc/self/status (proc_pid_status(5)). None where that can't be read.
pub(super) fn usable_cpus(root: &Root, online: &[u32]) -> Option<u32> {
    let status = fs::read_to_string(root.proc.join("self/status")).ok()?;
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut allowed = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        allowed.push(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    let is_allowed = |cpu: &&u32| allowed.iter().any(|range| range.contains(cpu));
    Some(online.iter().filter(is_allowed).count() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_every_level_are_found_in_both_hierarchies() {
        let dir = tempfile::tempdir().unwrap();
        let place = |path: &str| dir.path().join(path);
        let file = |path: &str, text: &str| {
            fs::create_dir_all(place(path).parent().unwrap()).unwrap();
            fs::write(place(path), text).unwrap();
        };
        file(
            "proc/self/cgroup",
            "7:blkio:/a/b\n2:cpu,cpuacct:/c\n0::/s/t\n",
        );
        let mount = |id: u32, root: &str, point: &str, fs_type: &str, options: &str| {
            let point = place(point);
            format!(
                "{id} 1 0:{id} {root} {} rw - {fs_type} x rw,{options}\n",
                point.display()
            )
        };
        let mounts = [
            mount(31, "/", "two", "cgroup2", "nsdelegate"),
            mount(32, "/", "blkio", "cgroup", "blkio"),
            mount(33, "/c", "cpu", "cgroup", "cpu,cpuacct"),
            mount(34, "/", "other", "cgroup", "memory"),
        ];
        file("proc/self/mountinfo", &mounts.concat());
        file(
            "two/s/t/io.max",
            "8:0 rbps=1 wbps=max riops=max wiops=max\n",
        );
        file(
            "two/s/io.max",
            "7:3 rbps=max wbps=1048576 riops=max wiops=200\n",
        );
        file("two/s/cpu.max", "max 100000\n");
        file("two/io.latency", "7:4 target=10000\n");
        file("blkio/a/blkio.throttle.write_iops_device", "7:3 200\n");
        file("cpu/cpu.cfs_quota_us", "50000\n");
        file("cpu/cpu.cfs_period_us", "100000\n");
        file("other/memory.max", "1\n");
        let root = Root {
            proc: place("proc"),
            ..Root::host()
        };
        let told: Vec<(String, String)> = limits(&root)
            .into_iter()
            .map(|limit| {
                let file = Path::new(&limit.file).strip_prefix(dir.path()).unwrap();
                let device = limit.device.map_or_else(String::new, |d| format!("{d} "));
                (file.display().to_string(), device + &limit.value)
            })
            .collect();
        let expected = [
            ("two/s/io.max", "7:3 wbps=1048576 wiops=200"),
            ("two/io.latency", "7:4 target=10000"),
            ("blkio/a/blkio.throttle.write_iops_device", "7:3 200"),
            ("cpu/cpu.cfs_quota_us", "50000 100000 (µs of each µs)"),
        ];
        let expected = expected.map(|(file, value)| (file.to_owned(), value.to_owned()));
        assert_eq!(told, expected);
    }

    #[test]
    fn processors_are_those_that_are_online_and_allowed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("self")).unwrap();
        let root = Root {
            proc: dir.path().into(),
            ..Root::host()
        };
        let allow = |list: &str| {
            let text = format!("Name:\tx\nCpus_allowed_list:\t{list}\n");
            fs::write(dir.path().join("self/status"), text).unwrap();
            usable_cpus(&root, &[0, 1, 5])
        };
        assert_eq!(allow("0-127"), Some(3));
        assert_eq!(allow("0,5-6"), Some(2));
        assert_eq!(allow("x"), None);
    }
}
