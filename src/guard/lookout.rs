//! Looks, while a run goes on, whether a granted device came into use.
//!
//! The claim keeps off whoever claims too: mounts, swap, other devices. Nobody must, though: a virtual
//! machine's disk is opened for writing without O_EXCL (open(2)), and a preserving run would then write
//! back bytes that it read before, over new ones.

use std::time::{Duration, Instant};

use super::grant::WriteGrant;
use super::judge::judge;
use super::refusal::Refusal;
use crate::target;

/// It is looked no more often than this.
const EVERY: Duration = Duration::from_secs(1);
/// And what comes between two looks is this many times as long as one, at least: on a host with many
/// processes, all their open files are a lot to look at.
const APART: u32 = 4;

/// When to look again. Looking takes milliseconds: it is done where nothing is measured.
#[derive(Debug, Default)]
pub struct Lookout {
    due: Option<Instant>,
}

impl Lookout {
    /// Looks at the devices of `grants`, if it is time: the first time at once.
    pub fn look<'g>(
        &mut self,
        grants: impl IntoIterator<Item = &'g WriteGrant>,
    ) -> Result<(), Refusal> {
        if self.due.is_some_and(|due| Instant::now() < due) {
            return Ok(());
        }
        self.look_now(grants)
    }

    /// Looks at the devices of `grants`.
    pub fn look_now<'g>(
        &mut self,
        grants: impl IntoIterator<Item = &'g WriteGrant>,
    ) -> Result<(), Refusal> {
        let begun = Instant::now();
        for grant in grants {
            grant.is_still_free()?;
        }
        self.due = Some(Instant::now() + EVERY.max(begun.elapsed() * APART));
        Ok(())
    }
}

impl WriteGrant {
    /// Refuses a device that somebody uses by now, this process left out, or that is another one.
    /// Blocks of files are their filesystem's: that it is mounted, and that others may write it, is
    /// expected, and [`WriteGrant::hold`] sees that the blocks stay the files' own.
    pub fn is_still_free(&self) -> Result<(), Refusal> {
        if !self.files().is_empty() {
            return Ok(());
        }
        let node = self.node();
        node.verify(&node.file)?;
        // Of a device that was taken out, the next write tells.
        let Ok(usage) = target::usage::usage(self.root(), node.dev) else {
            return Ok(());
        };
        judge(&usage).map_or(Ok(()), |refusal| {
            Err(Refusal::CameIntoUse(Box::new(refusal)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_looked_again_at_once() {
        let mut lookout = Lookout::default();
        lookout.look([]).unwrap();
        let due = lookout.due.unwrap();
        lookout.look([]).unwrap();
        assert_eq!(lookout.due, Some(due));
        lookout.look_now([]).unwrap();
        assert!(lookout.due > Some(due));
    }
}
