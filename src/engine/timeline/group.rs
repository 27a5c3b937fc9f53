//! Group commit: of the clients whose records wait, one writes them all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::workload::log::pieces;

use super::failure::Failure;
use super::writer::Write;

/// Where clients leave their records and wait for them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Records that were handed in. A record's number is how many there were before it.
    asked: u64,
    /// Records that are on disk.
    written: u64,
    /// A client writes.
    is_writing: bool,
    failure: Option<Failure>,
}

impl Queue {
    /// Commits one record of `record_bytes` to the log at `offsets`, together with those that wait.
    pub(super) fn commit(
        &self,
        offsets: &[u64],
        record_bytes: u64,
        writer: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut state = self.lock();
        let own = state.asked;
        state.asked += 1;
        loop {
            if let Some(failure) = state.failure {
                return Err(failure);
            }
            if state.written > own {
                return Ok(());
            }
            if state.is_writing {
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (from, to) = (state.written, state.asked);
            state.is_writing = true;
            drop(state);
            let result = pieces(offsets, from, to - from, record_bytes).try_for_each(|piece| {
                writer.prepare(piece.len_bytes);
                writer.write(piece)
            });
            state = self.lock();
            state.is_writing = false;
            match result {
                Ok(()) => state.written = to,
                Err(failure) => state.failure = Some(failure),
            }
            self.changed.notify_all();
        }
    }

    /// What is locked is changed in steps that can't panic, so it is whole after a panic too.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::log::Piece;
    use std::sync::mpsc;

    /// Keeps what it is asked to write.
    #[derive(Default)]
    struct Kept {
        pieces: Vec<Piece>,
        fails: bool,
        /// Waits for a word before each write.
        gate: Option<mpsc::Receiver<()>>,
        begun: Option<mpsc::Sender<()>>,
    }

    impl Write for Kept {
        fn prepare(&mut self, _len_bytes: u64) {}

        fn write(&mut self, piece: Piece) -> Result<(), Failure> {
            if let Some(begun) = &self.begun {
                let _ = begun.send(());
            }
            if let Some(gate) = &self.gate {
                gate.recv().unwrap();
            }
            self.pieces.push(piece);
            match self.fails {
                true => Err(Failure::short("write a record")),
                false => Ok(()),
            }
        }
    }

    const OFFSETS: [u64; 4] = [0, 10, 20, 30];

    #[test]
    fn a_client_alone_writes_its_own_record() {
        let (queue, mut writer) = (Queue::default(), Kept::default());
        for _ in 0..3 {
            queue.commit(&OFFSETS, 10, &mut writer).unwrap();
        }
        let lengths: Vec<u64> = writer.pieces.iter().map(|piece| piece.len_bytes).collect();
        assert_eq!(lengths, [10, 10, 10]);
        assert_eq!(writer.pieces[2].offset_bytes, 20);
    }

    #[test]
    fn records_that_wait_for_a_write_are_written_together() {
        let queue = Queue::default();
        let (go, gate) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        let mut first = Kept {
            gate: Some(gate),
            begun: Some(begun),
            ..Kept::default()
        };
        let others: Vec<Vec<Piece>> = std::thread::scope(|scope| {
            let leader = scope.spawn(|| queue.commit(&OFFSETS, 10, &mut first));
            has_begun.recv().unwrap();
            let others: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut writer = Kept::default();
                        queue.commit(&OFFSETS, 10, &mut writer).unwrap();
                        writer.pieces
                    })
                })
                .collect();
            while queue.lock().asked < 4 {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
            leader.join().unwrap().unwrap();
            others.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let together: Vec<Piece> = others.concat();
        assert_eq!(first.pieces.len(), 1);
        assert_eq!(
            together,
            [Piece {
                offset_bytes: 10,
                len_bytes: 30
            }]
        );
    }

    #[test]
    fn a_failure_is_everybodys() {
        let queue = Queue::default();
        let mut writer = Kept {
            fails: true,
            ..Kept::default()
        };
        assert!(queue.commit(&OFFSETS, 10, &mut writer).is_err());
        let mut other = Kept::default();
        assert!(queue.commit(&OFFSETS, 10, &mut other).is_err());
        assert!(other.pieces.is_empty());
    }
}
