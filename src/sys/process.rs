//! Children that don't outlive this process, and what threads have in common.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

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

/// Whether two threads have one table of descriptors (kcmp(2)). None where that can't be known: without the
/// right to look at both, or in a kernel built without it.
pub fn share_descriptors(one: u32, other: u32) -> Option<bool> {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: kcmp takes numbers only, and changes nothing.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0_u64, 0_u64) };
    (order >= 0).then_some(order == 0)
}

/// Makes a copy of this process, which gets SIGKILL when this one ends. Gives it here, and none in the
/// copy. Refused where this process has more than one thread.
pub fn split() -> io::Result<Option<Pid>> {
    let parent = getpid();
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(io::Error::other(
            "a process with several threads can't be copied",
        ));
    }
    // SAFETY: this process has one thread, so that the copy holds no lock of another (fork(2)).
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => {
            set_pdeathsig(Signal::SIGKILL)?;
            // A parent that died before that call sends nothing any more.
            if getppid() != parent {
                std::process::exit(1);
            }
            Ok(None)
        }
    }
}

/// Whether the kernel is through with removing a file within `patience`, and as much again as often as `goes_on`
/// says so, whatever came of it. A process of its
/// own does it: one that waits in the kernel can't be killed, and would keep this one from ending. It has no
/// descriptors, which would keep claims and pipes.
pub fn answers(
    path: &Path,
    patience: Duration,
    mut goes_on: impl FnMut() -> bool,
) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the child makes system calls alone, which is safe there (signal-safety(7)), on a string that was
    // made before, and ends without running anything of this process's.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32);
            libc::unlinkat(libc::AT_FDCWD, path.as_ptr(), 0);
            libc::_exit(0);
        }
        child
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut begun = Instant::now();
    loop {
        // SAFETY: waitpid takes a child of this process, and writes its status nowhere.
        let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) };
        match ended {
            0 if begun.elapsed() < patience => thread::sleep(Duration::from_millis(1)),
            0 if goes_on() => begun = Instant::now(),
            0 => break,
            _ => return Ok(true),
        }
    }
    // SAFETY: kill takes numbers only; the child was not waited for, so its number is its own.
    unsafe { libc::kill(child, libc::SIGKILL) };
    Ok(false)
}
