//! The threads that jobs run in.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon_core::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::error::EngineError;

/// Threads that outlive the runs that they are lent to, made when a run first needs that many.
///
/// A thread that has just begun is placed otherwise than one that has slept and woken many times:
/// on a loop device over memory, writes from a new thread for each 60 ms took 50 µs, and from one
/// that stays 44 µs, as in one long run. Programs that write synchronously have threads that stay.
#[derive(Debug, Default)]
pub struct Crew {
    /// By the number of threads, so that no thread is woken that has nothing to do.
    pools: BTreeMap<usize, ThreadPool>,
}

impl Crew {
    /// Calls `work` with each of `parts`, each in a thread of its own, and `conduct` meanwhile in
    /// this one. Gives the results in the order of the parts, none of a part whose thread ended by
    /// a panic, which is then passed on.
    pub(super) fn work<P: Send, R: Send>(
        &mut self,
        parts: Vec<P>,
        work: impl Fn(P) -> R + Send + Sync,
        conduct: impl FnOnce(),
    ) -> Result<Vec<R>, EngineError> {
        let pool = self.pool(parts.len())?;
        let parts: Vec<Mutex<Option<P>>> = parts.into_iter().map(|p| Mutex::new(Some(p))).collect();
        let results: Vec<Mutex<Option<R>>> = parts.iter().map(|_| Mutex::new(None)).collect();
        pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| {
                let part = lock(&parts[thread.index()]).take();
                *lock(&results[thread.index()]) = part.map(&work);
            });
            conduct();
        });
        let results = results.into_iter();
        let result =
            |slot: Mutex<Option<R>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(results.filter_map(result).collect())
    }

    fn pool(&mut self, threads: usize) -> Result<&ThreadPool, EngineError> {
        match self.pools.entry(threads) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => {
                let builder = ThreadPoolBuilder::new().num_threads(threads);
                let pool = builder.thread_name(|index| format!("job-{index}")).build();
                let pool = pool.map_err(|error| EngineError::Setup {
                    what: "a thread for each job".into(),
                    source: said(&error),
                })?;
                Ok(place.insert(pool))
            }
        }
    }
}

/// What the kernel said to a pool that could not be made.
fn said(error: &ThreadPoolBuildError) -> io::Error {
    let source = error
        .source()
        .and_then(<dyn Error>::downcast_ref::<io::Error>);
    let errno = source.and_then(io::Error::raw_os_error);
    errno.map_or_else(
        || io::Error::other(error.to_string()),
        io::Error::from_raw_os_error,
    )
}

/// What is locked is taken or set in one step, so it is whole after a panic too.
fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_stay_and_each_has_its_part() {
        let mut crew = Crew::default();
        let mut ids = |parts: Vec<u32>| {
            let work = |part| (part, thread::current().id());
            crew.work(parts, work, || {}).unwrap()
        };
        let (first, second) = (ids(vec![7, 8]), ids(vec![7, 8]));
        assert_eq!(first, second);
        assert_eq!((first[0].0, first[1].0), (7, 8));
        assert_ne!(first[0].1, first[1].1);
        assert_ne!(first[0].1, thread::current().id());
        assert_eq!(ids(vec![9]).len(), 1);
    }

    #[test]
    #[should_panic(expected = "a bug")]
    fn a_panic_is_passed_on() {
        let _ = Crew::default().work(vec![1, 2], |part| assert_ne!(part, 2, "a bug"), || {});
    }
}
