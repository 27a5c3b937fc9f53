//! A program that runs beside a test, and ends with it.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use super::{Ran, ran};

/// Long enough for a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when dropped, also when the test fails.
pub struct Running(Option<Child>);

impl Running {
    pub fn new(child: Child) -> Running {
        Running(Some(child))
    }

    /// Waits until something has happened, which it must before the program ends.
    #[track_caller]
    pub fn until(&mut self, mut happened: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !happened() {
            let is_over = self.try_wait().unwrap().is_some();
            if is_over || begun.elapsed() > PATIENCE {
                let child = self.0.take().map(killed);
                panic!("it never happened (ended before: {is_over}): {child:#?}");
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a round of slices is in the record that it saves as `path`.
    #[track_caller]
    pub fn until_saved(&mut self, path: &Path) {
        self.until_in(path, "\"slices\":[{");
    }

    /// Waits until the file `path` has this text.
    #[track_caller]
    pub fn until_in(&mut self, path: &Path, text: &str) {
        self.until(|| std::fs::read_to_string(path).is_ok_and(|all| all.contains(text)));
    }

    /// The process that measures, which the one that was started watches.
    pub fn measuring(&mut self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.id());
        let of = || {
            let pids = std::fs::read_to_string(&children).unwrap_or_default();
            pids.split(' ').next().and_then(|pid| pid.parse().ok())
        };
        self.until(|| of().is_some());
        of().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.id() as i32), signal).unwrap();
    }

    /// What it printed, once it has ended.
    pub fn outcome(mut self) -> Ran {
        ran(self.0.take().unwrap().wait_with_output().unwrap())
    }

    /// Ends it as nothing can be caught.
    pub fn killed(mut self) {
        killed(self.0.take().unwrap());
    }
}

fn killed(mut child: Child) -> Ran {
    let _ = child.kill();
    ran(child.wait_with_output().unwrap())
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
