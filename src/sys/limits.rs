//! What this process may take at most (getrlimit(2)).

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::model::units::show_amount;

/// A limit on open files is raised to this, as far as its hard limit allows.
const OPEN_FILES: u64 = 1 << 16;

/// Called once, before anything else: a file that may not grow is then an error (EFBIG) and not a
/// signal that kills, and no soft limit on open files is met before the hard one is.
pub fn settle() {
    // SAFETY: SIG_IGN runs no code.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = OPEN_FILES.min(hard);
        if soft < wanted {
            // Where it can't be raised, the old one is as good as it was.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}

/// The soft limit; none where there is none.
pub fn soft(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != libc::RLIM_INFINITY).then_some(soft)
}

/// Fails as the kernel would while a file of this length is written, before any of it is.
pub fn allow_file(size_bytes: u64) -> io::Result<()> {
    match soft(Resource::RLIMIT_FSIZE) {
        Some(most_bytes) if size_bytes > most_bytes => {
            Err(io::Error::from_raw_os_error(libc::EFBIG))
        }
        _ => Ok(()),
    }
}

/// How to raise the limit that an error tells of, as the end of its message; empty for other errors.
pub fn hint(error: &io::Error) -> String {
    let now = |resource| soft(resource).map(show_amount);
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let most = soft(Resource::RLIMIT_NOFILE).unwrap_or(0);
            format!("; raise the limit on open files, now {most}: ulimit -n")
        }
        Some(libc::EFBIG) => match now(Resource::RLIMIT_FSIZE) {
            Some(most) => format!("; raise the limit on a file's size, now {most}: ulimit -f"),
            None => "; the filesystem takes no larger file".to_owned(),
        },
        Some(libc::EAGAIN) => "; allow more threads (ulimit -u, ulimit -v, or pids.max of the \
                               control group), or ask for fewer --jobs"
            .to_owned(),
        Some(libc::ENOMEM) => match now(Resource::RLIMIT_AS) {
            Some(most) => format!("; raise the limit on memory, now {most}: ulimit -v"),
            None => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named_with_what_raises_it() {
        let hint = |errno| hint(&io::Error::from_raw_os_error(errno));
        assert!(hint(libc::EMFILE).ends_with("ulimit -n"));
        assert!(hint(libc::EAGAIN).contains("ulimit -u"));
        assert!(
            hint(libc::EFBIG).contains("larger file"),
            "no limit is set here"
        );
        assert_eq!(hint(libc::ENOSPC), "");
    }
}
