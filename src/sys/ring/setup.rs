//! Makes a ring and registers what it uses, stepping down where the kernel refuses.

use std::cell::OnceCell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, squeue, types};
use nix::sys::resource::{Resource, getrlimit};

use super::{Guarded, Keep, Ring, Slot};
use crate::sys::buffer::Aligned;

/// The kernel refuses to register longer pieces (`io_buffer_validate` in io_uring/rsrc.c).
const MAX_PIECE_BYTES: usize = 1 << 30;
/// How long SQPOLL's kernel thread spins without work before it sleeps.
const SQPOLL_IDLE_MS: u32 = 1000;

/// What a ring is made for.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// The file or device that all its writes go to.
    pub fd: BorrowedFd<'a>,
    /// Where their bytes come from.
    pub memory: Memory<'a>,
    /// Writes in flight at once.
    pub slots: u32,
    /// What makes them durable.
    pub durability: Durability,
    /// A kernel thread polls the submission queue.
    pub sqpoll: bool,
    /// Completions are polled for.
    pub iopoll: bool,
}

/// Memory that writes are issued from.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// Zeroed memory of its own for each slot: that many bytes, rounded up to whole pages.
    Slots(usize),
    /// One block that all slots share and nothing changes.
    Span {
        /// The block.
        bytes: &'a [u8],
        /// Bytes of one write. Registered pieces end at a multiple of it.
        unit_bytes: usize,
    },
}

/// What makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The descriptor's own flags, or nothing.
    Descriptor,
    /// RWF_DSYNC on each write (pwritev2(2)).
    Dsync,
    /// A linked fdatasync.
    Fdatasync,
    /// A linked fsync.
    Fsync,
}

/// What could not be had.
#[derive(Debug)]
pub enum SetupError {
    /// Memory for the writes.
    Memory(io::Error),
    /// The ring itself: io_uring_setup(2).
    Ring(io::Error),
}

/// Whether this process may make a ring. The error is io_uring_setup(2)'s.
pub fn probe() -> io::Result<()> {
    IoUring::new(2).map(drop)
}

thread_local! {
    /// A ring that does nothing, for as long as its thread lives.
    ///
    /// Once a thread's last ring is gone, its io-wq workers end (io_wq_set_exit_on_idle in
    /// io_uring/io-wq.c, Linux 6.18.11 and 6.19.1), and a request that the next ring hands over just
    /// then is taken by none of them, for good.
    static IDLE: OnceCell<IoUring> = const { OnceCell::new() };
}

/// Sees to it that this thread has its idle ring.
fn keep_workers() -> io::Result<()> {
    IDLE.with(|idle| {
        if idle.get().is_none() {
            // Empty: nothing else sets it.
            let _ = idle.set(IoUring::new(1)?);
        }
        Ok(())
    })
}

/// Makes a ring, calls `work` with it, and waits for all that is then in flight. Refusals that can
/// be lived with are told by [`Ring::fallbacks`].
pub fn with_ring<R>(
    config: &Config<'_>,
    work: impl FnOnce(&mut Ring<'_>) -> R,
) -> Result<R, SetupError> {
    let memory = guard(config.memory, config.slots).map_err(SetupError::Memory)?;
    let mut fallbacks = Vec::new();
    keep_workers().map_err(SetupError::Ring)?;
    let ring = make(config, &mut fallbacks).map_err(SetupError::Ring)?;
    let unit_bytes = match config.memory {
        Memory::Slots(_) => memory.stride,
        Memory::Span { unit_bytes, .. } => unit_bytes,
    };
    let (file, file_flags) = register_file(&ring, config.fd, &mut fallbacks);
    let piece_bytes = register_memory(&ring, &memory, unit_bytes, &mut fallbacks);
    let enter_index = register_descriptor(&ring, &mut fallbacks);
    let mut ring = Ring {
        enter_index,
        file,
        file_flags,
        memory,
        piece_bytes,
        rw_flags: match config.durability {
            Durability::Dsync => libc::RWF_DSYNC,
            _ => 0,
        },
        sync: match config.durability {
            Durability::Fdatasync => Some(types::FsyncFlags::DATASYNC),
            Durability::Fsync => Some(types::FsyncFlags::empty()),
            _ => None,
        },
        skips_success: ring.params().is_feature_skip_cqe_on_success(),
        polled: config.iopoll,
        sqpoll: config.sqpoll,
        timed_waits: ring.params().is_feature_ext_arg(),
        slots: vec![Slot::default(); config.slots as usize].into_boxed_slice(),
        in_flight: 0,
        is_nudged: false,
        rescued: 0,
        fallbacks,
        bound: PhantomData,
        ring,
    };
    Ok(work(&mut ring))
}

fn guard<'a>(memory: Memory<'a>, slots: u32) -> io::Result<Guarded<'a>> {
    match memory {
        Memory::Slots(bytes) => {
            let stride = bytes.max(1).next_multiple_of(4096);
            let too_much = || io::Error::from_raw_os_error(libc::ENOMEM);
            let len = stride.checked_mul(slots as usize).ok_or_else(too_much)?;
            let mut owned = Aligned::new(len)?;
            Ok(Guarded {
                start: owned.as_mut_ptr(),
                len,
                stride,
                _keep: Keep::Owned(owned),
            })
        }
        Memory::Span { bytes, .. } => Ok(Guarded {
            // Never written through: `slot_mut` lends nothing where the stride is zero.
            start: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
            stride: 0,
            _keep: Keep::Borrowed(PhantomData),
        }),
    }
}

/// Makes the ring with the flags that suit one thread that both submits and reaps. DEFER_TASKRUN
/// is Linux 6.1, SINGLE_ISSUER 6.0; older kernels say EINVAL (io_uring_setup(2)).
fn make(config: &Config<'_>, fallbacks: &mut Vec<String>) -> io::Result<IoUring> {
    let links = matches!(config.durability, Durability::Fdatasync | Durability::Fsync);
    // And one for the no-op that wakes the kernel's workers.
    let entries = config.slots.max(1) * if links { 2 } else { 1 } + 1;
    let build = |single_issuer: bool, defer_taskrun: bool| {
        let mut builder = IoUring::builder();
        if single_issuer {
            builder.setup_single_issuer();
        }
        if defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if config.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        if config.iopoll {
            builder.setup_iopoll();
        }
        builder.build(entries)
    };
    let is_invalid = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    // With SQPOLL the kernel's own thread runs the task work, and the two flags exclude each
    // other: leaving DEFER_TASKRUN out is no step down there.
    if !config.sqpoll {
        match build(true, true) {
            Err(error) if is_invalid(&error) => fallbacks.push(
                "io_uring: this kernel has no DEFER_TASKRUN (6.1 has), went on without it".into(),
            ),
            other => return other,
        }
    }
    match build(true, false) {
        Err(error) if is_invalid(&error) => fallbacks.push(
            "io_uring: this kernel has no SINGLE_ISSUER (6.0 has), went on without it".into(),
        ),
        other => return other,
    }
    build(false, false)
}

fn register_file(
    ring: &IoUring,
    fd: BorrowedFd<'_>,
    fallbacks: &mut Vec<String>,
) -> (types::Fd, squeue::Flags) {
    match ring.submitter().register_files(&[fd.as_raw_fd()]) {
        Ok(()) => (types::Fd(0), squeue::Flags::FIXED_FILE),
        Err(error) => {
            fallbacks.push(format!(
                "io_uring: could not register the file ({error}), went on with it unregistered"
            ));
            (types::Fd(fd.as_raw_fd()), squeue::Flags::empty())
        }
    }
}

/// Registers the memory in pieces and gives their length.
fn register_memory(
    ring: &IoUring,
    memory: &Guarded<'_>,
    unit_bytes: usize,
    fallbacks: &mut Vec<String>,
) -> Option<usize> {
    let unit_bytes = unit_bytes.max(1);
    let piece_bytes = (MAX_PIECE_BYTES / unit_bytes).max(1) * unit_bytes;
    let pieces: Vec<libc::iovec> = (0..memory.len)
        .step_by(piece_bytes)
        .map(|at| libc::iovec {
            iov_base: memory.start.wrapping_add(at).cast(),
            iov_len: piece_bytes.min(memory.len - at),
        })
        .collect();
    // SAFETY: the pieces are consecutive parts of the memory, which outlives the ring: both are
    // fields of `Ring`, the ring dropped first, or borrowed for longer.
    let registered = unsafe { ring.submitter().register_buffers(&pieces) };
    match registered {
        Ok(()) => Some(piece_bytes),
        Err(error) => {
            fallbacks.push(unregistered(&error, memory.len));
            None
        }
    }
}

fn unregistered(error: &io::Error, len: usize) -> String {
    let limit = match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, _)) if error.raw_os_error() == Some(libc::ENOMEM) => format!(
            "; the limit on locked memory is {} KiB: raise it by ulimit -l, or run as root",
            soft / 1024
        ),
        _ => String::new(),
    };
    format!(
        "io_uring: could not register {len} bytes of buffers ({error}), went on with them \
         unregistered{limit}"
    )
}

/// `struct io_uring_rsrc_update` (io_uring_register(2)).
#[repr(C)]
struct DescriptorUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

const IORING_REGISTER_RING_FDS: u32 = 20;
const IORING_UNREGISTER_RING_FDS: u32 = 21;

/// Registers the ring's own descriptor for this thread, which spares each enter its look-up, and
/// gives its index. The crate's `Submitter::register_ring_fd` keeps the index in the submitter,
/// which a ring makes anew for each call, so it is done here.
fn register_descriptor(ring: &IoUring, fallbacks: &mut Vec<String>) -> Option<u32> {
    let mut update = DescriptorUpdate {
        // Any free index: the kernel writes back which.
        offset: u32::MAX,
        reserved: 0,
        data: ring.as_raw_fd() as u64,
    };
    // SAFETY: io_uring_register(2) with one update that lives until the call returns.
    let count = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            IORING_REGISTER_RING_FDS,
            &raw mut update,
            1,
        )
    };
    if count == 1 {
        return Some(update.offset);
    }
    let error = io::Error::last_os_error();
    fallbacks.push(format!(
        "io_uring: could not register the ring's descriptor ({error}; Linux 5.18 has it), went on \
         with it unregistered"
    ));
    None
}

/// Gives the index back. A failure leaves it taken until the thread ends, which is harmless.
pub(super) fn unregister_descriptor(ring: &IoUring, index: u32) {
    let update = DescriptorUpdate {
        offset: index,
        reserved: 0,
        data: 0,
    };
    // SAFETY: as in `register_descriptor`.
    unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            IORING_UNREGISTER_RING_FDS,
            &raw const update,
            1,
        );
    }
}
