//! What the processors do, by the kernel's ticks.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use crate::model::timeline::CpuShare;
use crate::sys::root::Root;

/// What all processors did since the machine started, added up. None where the kernel doesn't tell.
pub fn read(root: &Root) -> Option<CpuShare> {
    let text = fs::read_to_string(root.proc.join("stat")).ok()?;
    // proc_stat(5): the counts are in units of 1/sysconf(_SC_CLK_TCK).
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten()?;
    parse(&text, u64::try_from(ticks_per_s).ok()?)
}

/// Reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal
/// (proc_stat(5)). What guests used is in `user` already.
fn parse(text: &str, ticks_per_s: u64) -> Option<CpuShare> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let mut ticks = [0u64; 8];
    for (tick, word) in ticks.iter_mut().zip(words) {
        *tick = word.parse().ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let tick_ns = 1_000_000_000_u64.checked_div(ticks_per_s)?;
    let ns = |ticks: u64| ticks.saturating_mul(tick_ns);
    Some(CpuShare {
        user_ns: ns(user + nice),
        system_ns: ns(system + irq + softirq),
        idle_ns: ns(idle + iowait),
        stolen_ns: ns(steal),
    })
}

/// What was counted between two readings. Idle time and waiting for a disk may go back a little
/// (proc_stat(5)); then they did not advance.
pub fn since(after: &CpuShare, before: &CpuShare) -> CpuShare {
    CpuShare {
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        idle_ns: after.idle_ns.saturating_sub(before.idle_ns),
        stolen_ns: after.stolen_ns.saturating_sub(before.stolen_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_in_its_own_unit() {
        let text = "cpu  10 1 5 100 20 2 3 4 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let read = parse(text, 100).unwrap();
        assert_eq!(read.user_ns, 110_000_000);
        assert_eq!(read.system_ns, 100_000_000);
        assert_eq!(read.idle_ns, 1_200_000_000);
        assert_eq!(read.stolen_ns, 40_000_000);
    }

    #[test]
    fn anything_else_gives_nothing() {
        assert_eq!(parse("", 100), None);
        assert_eq!(parse("intr 1 2 3", 100), None);
        assert_eq!(parse("cpu  a b c", 100), None);
        assert_eq!(parse("cpu  1 2 3 4", 0), None);
    }

    #[test]
    fn this_machine_tells() {
        let first = read(&Root::host()).unwrap();
        let second = read(&Root::host()).unwrap();
        let between = since(&second, &first);
        assert!(between.user_ns <= second.user_ns);
    }
}
