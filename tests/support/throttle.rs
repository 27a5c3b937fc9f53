//! A device whose writes per second are known: the kernel lets a control group make no more
//! (Documentation/admin-guide/cgroup-v2.rst, "IO"; cgroup-v1/blkio-controller.rst).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A control group, removed when dropped.
pub struct Throttle {
    folder: PathBuf,
}

impl Throttle {
    /// A group whose members write so many times a second to the device with this kernel name, and
    /// no oftener. None where the kernel has no controller for that.
    pub fn new(device: &str, writes_per_s: u32) -> Option<Throttle> {
        let number = fs::read_to_string(format!("/sys/block/{device}/dev")).unwrap();
        let number = number.trim();
        let name = format!("syncprof-test-{device}-{}", std::process::id());
        let make = |parent: &str, file: &str, limit: String| {
            let throttle = Throttle {
                folder: PathBuf::from(parent).join(&name),
            };
            fs::create_dir(&throttle.folder).unwrap();
            fs::write(throttle.folder.join(file), limit).unwrap();
            throttle
        };
        let root = "/sys/fs/cgroup";
        let controllers = fs::read_to_string(format!("{root}/cgroup.controllers"));
        if controllers.is_ok_and(|list| list.split_whitespace().any(|name| name == "io")) {
            fs::write(format!("{root}/cgroup.subtree_control"), "+io").unwrap();
            return Some(make(
                root,
                "io.max",
                format!("{number} wiops={writes_per_s}"),
            ));
        }
        let old = format!("{root}/blkio");
        let file = "blkio.throttle.write_iops_device";
        fs::exists(format!("{old}/{file}"))
            .unwrap()
            .then(|| make(&old, file, format!("{number} {writes_per_s}")))
    }

    /// The same program as a member of the group from its start.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside
            .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.folder)
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // A member that has just ended keeps it for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
