//! Somebody else who uses a device.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use syncprof::sys::buffer::Aligned;

/// Does something again and again, until it is dropped.
pub struct Disturbance {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disturbance {
    pub fn of(mut again: impl FnMut(u64) + Send + 'static) -> Disturbance {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for round in 0.. {
                if seen.load(Ordering::Relaxed) {
                    break;
                }
                again(round);
            }
        });
        Disturbance {
            stop,
            thread: Some(thread),
        }
    }

    /// Writes the first MiB of a device or file, past the page cache.
    pub fn writer(path: &Path) -> Disturbance {
        let file = direct(path, true);
        let bytes = Aligned::new(65_536).unwrap();
        let write = move |round| file.write_all_at(&bytes, round % 16 * 65_536).unwrap();
        // The holes of an image are filled before: that waits for the journal below it, which other tests
        // may keep busy for as long as a whole run.
        (0..16).for_each(&write);
        Disturbance::of(write)
    }

    /// Reads the first MiB of a device, past the page cache.
    pub fn reader(path: &Path) -> Disturbance {
        let file = direct(path, false);
        let mut bytes = Aligned::new(65_536).unwrap();
        Disturbance::of(move |round| {
            file.read_exact_at(&mut bytes, round % 16 * 65_536).unwrap();
        })
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn direct(path: &Path, writes: bool) -> File {
    OpenOptions::new()
        .read(!writes)
        .write(writes)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap()
}
