//! Signals that end a run: SIGINT, SIGTERM, SIGHUP and SIGQUIT set a flag, which everything that takes time
//! looks at, so that whatever was made is taken down again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// From now on, sets the flag when one of the signals comes.
pub(super) fn watch() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
