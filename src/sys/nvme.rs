//! NVMe admin commands through the driver's passthrough ioctl, and only those that change nothing: a
//! [`Query`] is all that can be sent, and no variant of it is a write. Nothing here takes an opcode.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use thiserror::Error;

// include/uapi/linux/nvme_ioctl.h: _IO('N', 0x40), _IOWR('N', 0x41, struct nvme_admin_cmd).
const NVME_IOCTL_ID: libc::Ioctl = 0x4E40;
const NVME_IOCTL_ADMIN_CMD: libc::Ioctl = 0xC048_4E41;

// Opcodes of NVMe Base Specification 2.0, section 5.
const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0A;

/// Stands for all namespaces, or for the controller.
const ALL_NAMESPACES: u32 = u32::MAX;

/// A question to a controller. Sections are those of NVMe Base Specification 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Identify Controller (5.17.2.1): 4096 bytes.
    IdentifyController,
    /// Identify Namespace of the NVM command set (NVM Command Set Specification 1.0, 4.1.5.1): 4096
    /// bytes.
    IdentifyNamespace {
        /// Its number.
        nsid: u32,
    },
    /// Log page 00h (5.16.1.1): which log pages there are, 4 bytes for each of 256. Since NVMe 2.0;
    /// bit 5 of the controller's LPA tells whether it is there.
    SupportedLogPages,
    /// The newest entry of log page 01h (5.16.1.2): 64 bytes.
    LastError,
    /// Log page 02h (5.16.1.3), of the controller: 512 bytes.
    Smart,
    /// Log page C0h of the OCP Datacenter NVMe SSD Specification 2.0 (4.8.6): 512 bytes. Other
    /// vendors' C0h is another page: see its GUID.
    OcpSmart,
    /// Feature 06h as it is now (5.15, 5.27.1.4): whether the volatile write cache is on. No bytes,
    /// but a value.
    VolatileWriteCache,
}

/// What a controller answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The structure or page, as long as the query says.
    pub data: Vec<u8>,
    /// Dword 0 of the completion: a feature's value.
    pub value: u32,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum NvmeError {
    /// The kernel didn't pass the command on, or the controller didn't answer.
    #[error("{0}")]
    Kernel(#[from] io::Error),
    /// The controller refused: the status field of NVMe Base Specification 2.0, 4.5.
    #[error("the controller refused with NVMe status {0:#x}")]
    Refused(u16),
}

/// `struct nvme_passthru_cmd` of include/uapi/linux/nvme_ioctl.h, which `nvme_admin_cmd` is another
/// name of. Its 64-bit form differs in the result alone, and no feature asked for here has more than
/// 32 bits.
#[repr(C)]
#[derive(Default)]
struct PassthroughCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    /// 0 is the driver's own. A command that runs into it makes the driver reset the controller, so
    /// a shorter one would harm whoever uses the drive.
    timeout_ms: u32,
    result: u32,
}

impl Query {
    /// Bytes that the answer has.
    fn data_bytes(self) -> u32 {
        match self {
            Query::IdentifyController | Query::IdentifyNamespace { .. } => 4096,
            Query::SupportedLogPages => 1024,
            Query::LastError => 64,
            Query::Smart | Query::OcpSmart => 512,
            Query::VolatileWriteCache => 0,
        }
    }

    /// The command, without a place for its data.
    fn command(self) -> PassthroughCommand {
        // Get Log Page: the identifier, and from bit 16 on how many dwords less one (5.16).
        let log = |id: u32| PassthroughCommand {
            opcode: GET_LOG_PAGE,
            nsid: ALL_NAMESPACES,
            cdw10: id | ((self.data_bytes() / 4 - 1) << 16),
            ..PassthroughCommand::default()
        };
        // Identify: which structure (5.17).
        let identify = |nsid: u32, cns: u32| PassthroughCommand {
            opcode: IDENTIFY,
            nsid,
            cdw10: cns,
            ..PassthroughCommand::default()
        };
        match self {
            Query::IdentifyController => identify(0, 1),
            Query::IdentifyNamespace { nsid } => identify(nsid, 0),
            Query::SupportedLogPages => log(0x00),
            Query::LastError => log(0x01),
            Query::Smart => log(0x02),
            Query::OcpSmart => log(0xC0),
            Query::VolatileWriteCache => PassthroughCommand {
                opcode: GET_FEATURES,
                cdw10: 0x06,
                ..PassthroughCommand::default()
            },
        }
    }
}

/// Asks the controller of an NVMe device node. Needs CAP_SYS_ADMIN but for Identify on newer kernels.
pub fn ask(fd: impl AsFd, query: Query) -> Result<Answer, NvmeError> {
    let mut data = vec![0_u8; query.data_bytes() as usize];
    let mut command = PassthroughCommand {
        addr: data.as_mut_ptr() as u64,
        data_len: query.data_bytes(),
        ..query.command()
    };
    // SAFETY: NVME_IOCTL_ADMIN_CMD takes a `struct nvme_passthru_cmd`, which is integers only, and
    // `command` is a live, unshared one. The opcodes that a query has all bring data to the host, and
    // the kernel writes no more than `data_len` bytes of it at `addr`, which is just what `data`
    // holds; it outlives the call, which returns only when the command is done. A driver that the
    // number means something else to can't be told apart, but only NVMe knows 'N' with 0x41 and this
    // size; others fail with ENOTTY.
    let status = unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            NVME_IOCTL_ADMIN_CMD,
            &raw mut command,
        )
    };
    match status {
        0 => Ok(Answer {
            data,
            value: command.result,
        }),
        // Without the bits "more" and "do not retry".
        1.. => Err(NvmeError::Refused((status & 0x7FF) as u16)),
        _ => Err(io::Error::last_os_error().into()),
    }
}

/// The number of the namespace that a block device node stands for. Fails with ENOTTY on what is no
/// NVMe device.
pub fn namespace_id(fd: impl AsFd) -> io::Result<u32> {
    // SAFETY: NVME_IOCTL_ID takes no argument and writes nothing; its result is the number.
    let id = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), NVME_IOCTL_ID) };
    if id < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(id as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Query; 7] = [
        Query::IdentifyController,
        Query::IdentifyNamespace { nsid: 3 },
        Query::SupportedLogPages,
        Query::LastError,
        Query::Smart,
        Query::OcpSmart,
        Query::VolatileWriteCache,
    ];

    #[test]
    fn the_command_is_as_large_as_its_request_number_says() {
        assert_eq!(
            size_of::<PassthroughCommand>(),
            (NVME_IOCTL_ADMIN_CMD >> 16) as usize & 0x3FFF
        );
    }

    #[test]
    fn no_query_sends_data_to_the_drive() {
        for query in ALL {
            let command = query.command();
            assert!([0x02, 0x06, 0x0A].contains(&command.opcode), "{query:?}");
            // The two lowest bits of an opcode say where data goes: 01b is to the controller
            // (NVMe Base Specification 2.0, figure 87).
            assert_eq!(command.opcode & 1, 0, "{query:?}");
        }
    }

    #[test]
    fn a_log_page_is_asked_for_by_dwords_less_one() {
        assert_eq!(Query::Smart.command().cdw10, 0x007F_0002);
        assert_eq!(Query::LastError.command().cdw10, 0x000F_0001);
        assert_eq!(Query::SupportedLogPages.command().cdw10, 0x00FF_0000);
        assert_eq!(Query::OcpSmart.command().cdw10, 0x007F_00C0);
    }

    #[test]
    fn a_namespace_is_asked_for_by_its_number() {
        let command = Query::IdentifyNamespace { nsid: 3 }.command();
        assert_eq!((command.nsid, command.cdw10), (3, 0));
    }

    #[test]
    fn what_is_no_nvme_device_answers_nothing() {
        let file = tempfile::tempfile().unwrap();
        for query in ALL {
            let error = ask(&file, query).unwrap_err();
            assert!(matches!(error, NvmeError::Kernel(_)), "{error}");
        }
        assert!(namespace_id(&file).is_err());
    }
}
