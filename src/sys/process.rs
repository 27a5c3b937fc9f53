//! Children that don't outlive this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The command's process gets SIGKILL when the thread that starts it ends (PR_SET_PDEATHSIG(2const)).
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id() as libc::pid_t;
    // SAFETY: between fork and exec, the closure makes two system calls that take numbers only, which
    // is safe there (signal-safety(7)); it allocates nothing on the way that succeeds.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                return Err(io::Error::last_os_error());
            }
            // A parent that died before that call sends nothing any more.
            if libc::getppid() != parent {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
}
