//! What device-mapper devices are made of (include/uapi/linux/dm-ioctl.h). Nothing here changes one.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::model::devid::DevId;

/// `_IOWR(0xfd, 12, struct dm_ioctl)`.
const DM_TABLE_STATUS: libc::Ioctl = 0xC138_FD0C;
const DM_STATUS_TABLE_FLAG: u32 = 1 << 4;
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;
/// A pool's status is to be told without a commit, which waits where it is suspended.
const DM_NOFLUSH_FLAG: u32 = 1 << 11;
/// The kernel wipes its copy: a crypt target's table has the key.
const DM_SECURE_DATA_FLAG: u32 = 1 << 15;
const HEADER_BYTES: usize = 312;
const SPEC_BYTES: usize = 40;
const LARGEST_BYTES: usize = 16 << 20;

/// One line of a device's table, as `dmsetup table` and `dmsetup status` print it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmTarget {
    /// Where it begins on the device, in sectors of 512 bytes.
    pub start_sector: u64,
    /// Its length in these.
    pub sectors: u64,
    /// Its type: `linear`.
    pub kind: String,
    /// What comes after the type, separated by blanks.
    pub words: String,
}

/// `struct dm_ioctl`, with room for the answer behind it.
#[repr(C, align(8))]
struct Header {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// The table of a device. `control` is /dev/mapper/control; needs CAP_SYS_ADMIN.
pub fn table(control: impl AsFd, dev: DevId) -> io::Result<Vec<DmTarget>> {
    ask(control, dev, DM_STATUS_TABLE_FLAG)
}

/// The status of a device's targets, likewise.
pub fn status(control: impl AsFd, dev: DevId) -> io::Result<Vec<DmTarget>> {
    ask(control, dev, DM_NOFLUSH_FLAG)
}

fn ask(control: impl AsFd, dev: DevId, flags: u32) -> io::Result<Vec<DmTarget>> {
    let mut bytes = 16 << 10;
    loop {
        // Of whole headers, which keeps it aligned.
        let mut room: Vec<Header> = Vec::new();
        room.resize_with(bytes / HEADER_BYTES, Header::empty);
        let data_size = room.len() * HEADER_BYTES;
        room[0].version = [4, 0, 0];
        room[0].data_size = data_size as u32;
        room[0].data_start = HEADER_BYTES as u32;
        room[0].flags = flags | DM_SECURE_DATA_FLAG;
        room[0].dev = libc::makedev(dev.major, dev.minor);
        // SAFETY: the descriptor is open while it is borrowed; DM_TABLE_STATUS reads a `struct dm_ioctl`
        // and writes no more than its `data_size`, which is what the vector holds, and any bytes are valid
        // in its integers. The kernel keeps no pointer.
        let result = unsafe {
            libc::ioctl(
                control.as_fd().as_raw_fd(),
                DM_TABLE_STATUS,
                room.as_mut_ptr(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = &room[0];
        if header.flags & DM_BUFFER_FULL_FLAG == 0 {
            let count = header.target_count as usize;
            // SAFETY: the vector's elements are integers without padding between them, and live while the
            // slice does.
            let all = unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), data_size) };
            let answer = all.get(HEADER_BYTES..).unwrap_or_default();
            return targets(answer, count)
                .ok_or_else(|| io::Error::other("device-mapper gave a table that is cut short"));
        }
        if bytes >= LARGEST_BYTES {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        bytes *= 8;
    }
}

impl Header {
    fn empty() -> Header {
        Header {
            version: [0; 3],
            data_size: 0,
            data_start: 0,
            target_count: 0,
            open_count: 0,
            flags: 0,
            event_nr: 0,
            padding: 0,
            dev: 0,
            name: [0; 128],
            uuid: [0; 129],
            data: [0; 7],
        }
    }
}

/// The targets of an answer: each a `struct dm_target_spec`, whose `next` tells where the next one is from
/// the answer's start, and its text, which a zero ends. None if it is no such thing.
fn targets(answer: &[u8], count: usize) -> Option<Vec<DmTarget>> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let spec = answer.get(at..)?.get(..SPEC_BYTES)?;
        let words = answer.get(at + SPEC_BYTES..)?;
        let number = |from: usize| Some(u64::from_ne_bytes(spec[from..from + 8].try_into().ok()?));
        found.push(DmTarget {
            start_sector: number(0)?,
            sectors: number(8)?,
            kind: text(&spec[24..])?,
            words: text(words)?.trim().to_owned(),
        });
        at = u32::from_ne_bytes(spec[20..24].try_into().ok()?) as usize;
    }
    Some(found)
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(start: u64, sectors: u64, next: u32, kind: &str, words: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(start.to_ne_bytes());
        bytes.extend(sectors.to_ne_bytes());
        bytes.extend(0_i32.to_ne_bytes());
        bytes.extend(next.to_ne_bytes());
        let mut name = [0; 16];
        name[..kind.len()].copy_from_slice(kind.as_bytes());
        bytes.extend(name);
        bytes.extend(words.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn the_structure_is_as_large_as_the_request_number_says() {
        assert_eq!(size_of::<Header>(), HEADER_BYTES);
        assert_eq!((DM_TABLE_STATUS >> 16) as usize & 0x3FFF, HEADER_BYTES);
    }

    #[test]
    fn each_target_of_an_answer_is_read() {
        let first = spec(0, 2048, 56, "linear", "7:0 2048 ");
        assert_eq!(first.len(), 56);
        let both = [first, spec(2048, 8, 96, "zero", "")].concat();
        let found = targets(&both, 2).unwrap();
        assert_eq!(found[0].kind, "linear");
        assert_eq!(found[0].words, "7:0 2048");
        assert_eq!((found[1].start_sector, found[1].sectors), (2048, 8));
        assert_eq!(found[1].words, "");
        assert!(targets(&both, 3).is_none());
        assert!(targets(&both[..45], 1).is_none());
    }
}
