//! Children that don't outlive this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The command's process gets SIGKILL when the thread that starts it ends (PR_SET_PDEATHSIG(2const)).
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec, the closure makes one system call that takes numbers only, which
    // is safe there (signal-safety(7)); it allocates nothing on the way that succeeds.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}
