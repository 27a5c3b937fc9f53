//! The cells that tell what a flush costs, by what is left out of it.

use crate::model::cell::{EngineKind, Method, Pattern};

use super::settings::{Matrix, Sizes};

/// Bytes that are written before one flush: what a flush costs against what it has to bring to the
/// medium.
const DIRTY_BYTES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// The write of the other cells: what journals and databases write.
const WRITE_BYTES: u64 = 4096;

/// The axes of an ablation, one matrix after the other. Each cell writes one place over and over, as
/// a log's tail: a disk that turns is back there once in a revolution.
///
/// FUA shows on io_uring alone: behind each O_DSYNC write that a system call waits for, Linux syncs a
/// block device once more (`generic_write_sync` in `blkdev_write_iter`, block/fops.c). Flushes are
/// plain calls, since io_uring hands each fsync to a worker thread (`io_fsync_prep` in
/// io_uring/sync.c), whose microseconds are not the device's. So each engine has a cell without any
/// sync, which its other cells are compared with.
pub fn ablation(span_bytes: Option<u64>) -> Vec<Matrix> {
    let matrix = |engine, methods: &[Method], sizes: &[u64]| Matrix {
        sizes: Sizes::WholeBlocks(sizes.to_vec()),
        methods: methods.to_vec(),
        patterns: vec![Pattern::Same],
        engines: vec![engine],
        span_bytes,
        ..Matrix::default()
    };
    let flushed = [Method::None, Method::Fdatasync];
    vec![
        matrix(
            EngineKind::Uring,
            &[Method::None, Method::ODsync, Method::RwfDsync],
            &[WRITE_BYTES],
        ),
        matrix(EngineKind::Sync, &flushed, &DIRTY_BYTES),
        matrix(EngineKind::Sync, &[Method::EmptyFlush], &[WRITE_BYTES]),
    ]
}
