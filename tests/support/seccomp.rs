//! System calls that fail, as under the seccomp profiles of container runtimes.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes a system call fail with `errno` in the command.
#[allow(unsafe_code)]
pub fn without(call: libc::c_long, errno: i32, command: &mut Command) -> &mut Command {
    let (load, jump, give) = (0x20, 0x15, 0x06); // BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let program = [
        op(load, 0, 0, 0), // seccomp_data.nr
        op(jump, 0, 1, call as u32),
        op(give, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        op(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut program = program;
        let filter = libc::sock_fprog {
            len: 4,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: both calls are async-signal-safe system calls, and `filter` with its program
        // lives through the second, which copies it.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        };
        done.then_some(()).ok_or_else(io::Error::last_os_error)
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(install) }
}
