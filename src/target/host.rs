//! The machine.

use std::fs;
use std::io;

use super::limits;
use crate::model::facts::Host;
use crate::sys::root::Root;

/// What this machine is. Everything that the kernel doesn't tell is empty or absent.
pub fn host(root: &Root) -> Host {
    let cpuinfo = fs::read_to_string(root.proc.join("cpuinfo")).unwrap_or_default();
    let meminfo = fs::read_to_string(root.proc.join("meminfo")).unwrap_or_default();
    let uname = nix::sys::utsname::uname();
    let part = |pick: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        uname
            .as_ref()
            .map(|uname| pick(uname).to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let online = processors(&cpuinfo);
    Host {
        usable_cpus: limits::usable_cpus(root, &online),
        limits: limits::limits(root),
        cpus: online.len() as u32,
        hostname: part(|uname| uname.nodename()),
        kernel: format!(
            "{} {}",
            part(|uname| uname.release()),
            part(|uname| uname.version())
        ),
        arch: part(|uname| uname.machine()),
        // arm64 names no model there.
        cpu_model: field(&cpuinfo, "model name").map(str::to_owned),
        memory_bytes: field(&meminfo, "MemTotal")
            .and_then(|text| text.strip_suffix("kB"))
            .and_then(|number| number.trim().parse::<u64>().ok())
            .map(|kib| kib * 1024),
    }
}

/// The id of this boot, which no other boot of any machine has: `/proc/sys/kernel/random/boot_id`
/// (proc_sys_kernel(5)).
pub fn boot_id(root: &Root) -> io::Result<String> {
    let text = fs::read_to_string(root.proc.join("sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}

/// The numbers of the processors that /proc/cpuinfo shows: those online.
fn processors(cpuinfo: &str) -> Vec<u32> {
    let numbers = cpuinfo.lines().filter_map(|line| {
        let (key, number) = line.split_once(':')?;
        (key.trim() == "processor").then(|| number.trim().parse().ok())?
    });
    numbers.collect()
}

/// The value of the first line with this key.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.trim() == key)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_and_memory_are_read_from_the_made_up_proc() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("cpuinfo"),
            "processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\nmodel name\t: A CPU\n",
        )
        .unwrap();
        fs::write(dir.path().join("meminfo"), "MemTotal:       2048 kB\n").unwrap();
        let host = host(&Root {
            proc: dir.path().into(),
            ..Root::host()
        });
        assert_eq!(host.cpus, 2);
        assert_eq!(host.cpu_model.as_deref(), Some("A CPU"));
        assert_eq!(host.memory_bytes, Some(2048 * 1024));
        assert!(!host.kernel.trim().is_empty());
    }
}
