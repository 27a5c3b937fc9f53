//! Refuses what contradicts itself before anything is made ready.

use super::error::EngineError;
use super::spec::{Data, Lane, Spec, To};
use crate::model::cell::{EngineKind, Method};

/// Linux writes no more than this in one call, rounded down to pages (`MAX_RW_COUNT` in
/// include/linux/fs.h).
const MAX_SIZE_BYTES: u64 = 1 << 30;
/// Half of the most entries that io_uring takes (`IORING_MAX_ENTRIES`), because a linked sync
/// takes a second one.
const MAX_QUEUE_DEPTH: u32 = 1 << 14;

/// Answers for all of `lanes` and `spec`.
pub(super) fn check(lanes: &[Lane<'_>], spec: &Spec) -> Result<(), EngineError> {
    let unsupported = |why: String| Err(EngineError::Unsupported { why });
    if lanes.is_empty() {
        return unsupported("no job to run".into());
    }
    if !(1..=MAX_SIZE_BYTES).contains(&spec.size_bytes) {
        return unsupported(format!(
            "cannot write {} bytes at once: from 1 to {MAX_SIZE_BYTES} bytes",
            spec.size_bytes
        ));
    }
    if !(1..=MAX_QUEUE_DEPTH).contains(&spec.queue_depth) {
        return unsupported(format!(
            "cannot keep {} writes in flight: from 1 to {MAX_QUEUE_DEPTH}",
            spec.queue_depth
        ));
    }
    if spec.interval_ns == 0 {
        return unsupported("cannot log intervals of no length".into());
    }
    if let Some(rate) = spec.rate_per_s
        && !(rate.is_finite() && rate > 0.0)
    {
        return unsupported(format!(
            "cannot start {rate} writes a second: must be above 0"
        ));
    }
    check_engine(spec)?;
    lanes.iter().try_for_each(|lane| check_lane(lane, spec))
}

fn check_engine(spec: &Spec) -> Result<(), EngineError> {
    let linked = matches!(spec.method, Method::Fdatasync | Method::Fsync);
    let polls = spec.ring.sqpoll || spec.ring.iopoll;
    let why = match spec.kind {
        EngineKind::Uring if spec.ring.iopoll && linked => {
            // Polled rings only take reads and writes (io_uring_setup(2), IORING_SETUP_IOPOLL);
            // a tool that did not know measured writes without their sync.
            format!(
                "{} does nothing on a polled ring: ask for another method, or leave out iopoll",
                spec.method
            )
        }
        EngineKind::Uring if spec.method == Method::EmptyFlush => {
            "only the sync engine flushes without a write: ask for --engine sync".to_owned()
        }
        EngineKind::Sync if spec.queue_depth != 1 => format!(
            "the sync engine has one write in flight, not {}: ask for --engine uring, or for more \
             jobs",
            spec.queue_depth
        ),
        EngineKind::Sync if polls => {
            "sqpoll and iopoll are options of io_uring: ask for --engine uring".to_owned()
        }
        EngineKind::Null if spec.null.is_some_and(|model| model.servers == 0) => {
            "a device model needs at least one server".to_owned()
        }
        EngineKind::Uring | EngineKind::Sync if spec.null.is_some() => {
            "a device model is for the null engine only".to_owned()
        }
        _ => return Ok(()),
    };
    Err(EngineError::Unsupported { why })
}

fn check_lane(lane: &Lane<'_>, spec: &Spec) -> Result<(), EngineError> {
    let unsupported = |why: &str| Err(EngineError::Unsupported { why: why.into() });
    if lane.offsets.is_empty() {
        return unsupported("a job without a block to write");
    }
    if matches!(lane.to, To::Reopen { .. }) && spec.queue_depth != 1 {
        return unsupported("a file that each write opens anew takes queue depth 1 only");
    }
    let Data::Preserved { bytes, base_bytes } = lane.data else {
        return Ok(());
    };
    let end_bytes = base_bytes + bytes.len() as u64;
    let inside = |&offset: &u64| {
        offset >= base_bytes
            && offset
                .checked_add(spec.size_bytes)
                .is_some_and(|end| end <= end_bytes)
    };
    if lane.offsets.iter().all(inside) {
        Ok(())
    } else {
        unsupported("a block lies outside of the content that was read to be preserved")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::{nothing, spec};
    use crate::model::cell::RingOptions;

    fn why(lanes: &[Lane<'_>], spec: &Spec) -> String {
        check(lanes, spec).unwrap_err().to_string()
    }

    #[test]
    fn contradictions_are_refused_with_a_way_out() {
        let uring = Spec {
            kind: EngineKind::Uring,
            payload_seed: 0,
            op_times: 0,
            null: None,
            ..spec()
        };
        let polled = RingOptions {
            iopoll: true,
            sqpoll: false,
        };
        for method in [Method::Fdatasync, Method::Fsync] {
            let refused = Spec {
                method,
                ring: polled,
                ..uring.clone()
            };
            assert!(why(&[nothing()], &refused).contains("another method"));
        }
        let deep = Spec {
            kind: EngineKind::Sync,
            queue_depth: 2,
            ..spec()
        };
        assert!(why(&[nothing()], &deep).contains("--engine uring"));
        assert!(why(&[], &spec()).contains("no job"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = Spec {
                rate_per_s: Some(rate),
                ..spec()
            };
            assert!(why(&[nothing()], &refused).contains("above 0"));
        }
        for size_bytes in [0, MAX_SIZE_BYTES + 1] {
            assert!(
                why(
                    &[nothing()],
                    &Spec {
                        size_bytes,
                        ..spec()
                    }
                )
                .contains("at once")
            );
        }
    }

    #[test]
    fn a_block_outside_of_the_preserved_bytes_is_refused() {
        let bytes = [0; 8192];
        fn lane<'a>(bytes: &'a [u8], offsets: &'a [u64]) -> Lane<'a> {
            let data = Data::Preserved {
                bytes,
                base_bytes: 4096,
            };
            Lane {
                offsets,
                data,
                ..nothing()
            }
        }
        assert!(check(&[lane(&bytes, &[4096, 8192])], &spec()).is_ok());
        for offsets in [[0], [4095], [8193], [u64::MAX - 100]] {
            assert!(why(&[lane(&bytes, &offsets)], &spec()).contains("outside"));
        }
    }
}
