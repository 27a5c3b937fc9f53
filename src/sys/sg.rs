//! SCSI commands through SG_IO, and only those that change nothing: a [`Query`] is all that can be
//! sent, and no variant of it is a write. Nothing here takes a command block.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use thiserror::Error;

// include/scsi/sg.h
const SG_IO: libc::Ioctl = 0x2285;
const SG_DXFER_FROM_DEV: i32 = -3;
/// A drive that sleeps takes some seconds to wake up for ATA commands.
const TIMEOUT_MS: u32 = 20_000;
/// Bytes of a sense buffer: what the kernel keeps (SCSI_SENSE_BUFFERSIZE).
const SENSE_BYTES: usize = 96;

/// A question to a SCSI or ATA drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// MODE SENSE(6) of the caching page, its current values, without block descriptors (SPC-4 6.11,
    /// SBC-3 6.5.5).
    CachingPage,
    /// IDENTIFY DEVICE through SAT's ATA PASS-THROUGH(16) (SAT-3 12.2.3): 512 bytes.
    AtaIdentify,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ScsiError {
    /// The kernel didn't pass the command on.
    #[error("{0}")]
    Kernel(#[from] io::Error),
    /// The drive, or the way to it, refused.
    #[error(
        "refused with SCSI status {status:#x}, host status {host:#x}, driver status {driver:#x}"
    )]
    Refused {
        /// The drive's status byte.
        status: u8,
        /// The adapter's.
        host: u16,
        /// The driver's.
        driver: u16,
    },
}

/// `struct sg_io_hdr` of include/scsi/sg.h.
#[repr(C)]
struct Header {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut u8,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: u32,
    flags: u32,
    pack_id: i32,
    usr_ptr: *mut u8,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration: u32,
    info: u32,
}

impl Query {
    /// The most bytes that an answer has.
    fn data_bytes(self) -> usize {
        match self {
            // As much as sd asks for at most (drivers/scsi/sd.c): what no bridge chokes on.
            Query::CachingPage => 192,
            Query::AtaIdentify => 512,
        }
    }

    fn command(self) -> Vec<u8> {
        match self {
            // 08h: no block descriptors. 08h in the next: the caching page, current values.
            Query::CachingPage => vec![0x1A, 0x08, 0x08, 0, self.data_bytes() as u8, 0],
            // PIO data-in (4); 0Eh: from the device, in blocks, as many as the sector count says;
            // one sector; ECh: IDENTIFY DEVICE.
            Query::AtaIdentify => {
                vec![0x85, 4 << 1, 0x0E, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xEC, 0]
            }
        }
    }
}

/// Asks the drive of a SCSI disk's node. IDENTIFY needs CAP_SYS_RAWIO
/// (drivers/scsi/scsi_ioctl.c).
pub fn ask(fd: impl AsFd, query: Query) -> Result<Vec<u8>, ScsiError> {
    let mut data = vec![0_u8; query.data_bytes()];
    let mut sense = [0_u8; SENSE_BYTES];
    let command = query.command();
    let mut header = Header {
        interface_id: i32::from(b'S'),
        dxfer_direction: SG_DXFER_FROM_DEV,
        cmd_len: command.len() as u8,
        mx_sb_len: SENSE_BYTES as u8,
        iovec_count: 0,
        dxfer_len: data.len() as u32,
        dxferp: data.as_mut_ptr(),
        cmdp: command.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        usr_ptr: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: SG_IO takes a `struct sg_io_hdr`, and `header` is a live, unshared one. Its pointers
    // are to live buffers of the lengths that stand beside them: the kernel reads the command, and
    // writes no more than that to the data and the sense buffer, before the call returns. The
    // direction is from the device.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), SG_IO, &raw mut header) };
    if result < 0 {
        return Err(io::Error::last_os_error().into());
    }
    if (header.status, header.host_status, header.driver_status) != (0, 0, 0) {
        return Err(ScsiError::Refused {
            status: header.status,
            host: header.host_status,
            driver: header.driver_status,
        });
    }
    let missing = usize::try_from(header.resid).unwrap_or(0);
    data.truncate(data.len().saturating_sub(missing));
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_large_as_the_kernel_s() {
        assert_eq!(size_of::<Header>(), 88);
    }

    #[test]
    fn no_query_is_a_command_that_writes() {
        assert_eq!(Query::CachingPage.command()[0], 0x1A, "MODE SENSE(6)");
        let identify = Query::AtaIdentify.command();
        assert_eq!((identify[0], identify[14]), (0x85, 0xEC));
        assert_eq!(identify[1] >> 1, 4, "PIO data-in");
        assert_eq!(identify[2] & 0x08, 0x08, "from the device");
    }

    #[test]
    fn what_is_no_scsi_disk_answers_nothing() {
        let file = tempfile::tempfile().unwrap();
        for query in [Query::CachingPage, Query::AtaIdentify] {
            let error = ask(&file, query).unwrap_err();
            assert!(matches!(error, ScsiError::Kernel(_)), "{error}");
        }
    }
}
