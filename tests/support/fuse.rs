//! A filesystem in memory that says of itself what a test wants: FUSE, spoken by this process
//! (include/uapi/linux/fuse.h), so that it needs neither a driver nor a library.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread::JoinHandle;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

/// How it behaves.
#[derive(Clone, Copy)]
pub struct Manners {
    /// The block of statfs(2), which the kernel names `f_bsize`.
    pub transfer_bytes: u32,
    /// What its counts of blocks are in, `f_frsize`.
    pub fragment_bytes: u32,
    /// Fragments in all; half of them are free.
    pub fragments: u64,
    /// The answer to a direct write of so many bytes; none: it is made.
    pub refuses: fn(u32) -> Option<i32>,
}

/// Mounted until it is dropped.
pub struct Fuse {
    point: TempDir,
    server: Option<JoinHandle<()>>,
}

impl Fuse {
    pub fn new(manners: Manners) -> Fuse {
        let point = super::folder();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.expect("/dev/fuse: modprobe fuse");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(
            Some("test"),
            point.path(),
            Some("fuse.test"),
            flags,
            Some(&*options),
        )
        .unwrap();
        let server = Server {
            device,
            manners,
            nodes: BTreeMap::from([(1, Node::default())]),
        };
        Fuse {
            point,
            server: Some(std::thread::spawn(|| server.serve())),
        }
    }

    pub fn path(&self) -> &Path {
        self.point.path()
    }

    pub fn dir(&self) -> &str {
        self.path().to_str().unwrap()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // The server ends with the filesystem.
        if umount2(self.path(), MntFlags::MNT_DETACH).is_ok() {
            let _ = self.server.take().map(JoinHandle::join);
        }
    }
}

/// A file, or a folder where it has no bytes.
#[derive(Default)]
struct Node {
    /// Of the folder that it is in; none once it is removed.
    parent: Option<u64>,
    name: String,
    bytes: Option<Vec<u8>>,
}

struct Server {
    device: File,
    manners: Manners,
    nodes: BTreeMap<u64, Node>,
}

type Answer = Result<Vec<u8>, i32>;

/// The number at `at` bytes into a request.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap();
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two halves of a word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Server {
    fn serve(mut self) {
        let mut request = vec![0; (1 << 20) + 8192];
        // ENODEV once it is unmounted.
        while let Ok(len) = self.device.read(&mut request) {
            let (opcode, unique, node) = (half(&request, 4), word(&request, 8), word(&request, 16));
            // FORGET and BATCH_FORGET want no answer.
            if matches!(opcode, 2 | 42) {
                continue;
            }
            let (errno, data) = match self.answer(opcode, node, &request[40..len]) {
                Ok(data) => (0, data),
                Err(errno) => (-errno, Vec::new()),
            };
            let mut reply = (16 + data.len() as u32).to_le_bytes().to_vec();
            reply.extend(errno.to_le_bytes());
            reply.extend(unique.to_le_bytes());
            reply.extend(data);
            let _ = self.device.write_all(&reply);
        }
    }

    fn answer(&mut self, opcode: u32, node: u64, body: &[u8]) -> Answer {
        match opcode {
            // INIT: 7.31, with ASYNC_READ, BIG_WRITES and MAX_PAGES, 1 MiB a write.
            26 => {
                let flags = 1 | 1 << 5 | 1 << 22;
                let mut answer = words(&[
                    pair(7, 31),
                    pair(1 << 17, flags),
                    pair(64 | 48 << 16, 1 << 20),
                ]);
                answer.extend(words(&[pair(1, 256), 0, 0, 0, 0]));
                Ok(answer)
            }
            // LOOKUP
            1 => self.entry(self.find(node, &text(body))?),
            // GETATTR, SETATTR: of all that can be set, the length alone counts.
            3 => Ok([words(&[0, 0]), self.attributes(node)?].concat()),
            4 => {
                if half(body, 0) & 8 != 0 {
                    self.bytes(node)?.resize(word(body, 16) as usize, 0);
                }
                Ok([words(&[0, 0]), self.attributes(node)?].concat())
            }
            // MKDIR, CREATE
            9 => self.add(node, text(&body[8..]), None),
            35 => {
                let entry = self.add(node, text(&body[16..]), Some(Vec::new()))?;
                Ok([entry, words(&[0, 0])].concat())
            }
            // UNLINK, RMDIR
            10 | 11 => {
                let found = self.find(node, &text(body))?;
                self.nodes.get_mut(&found).ok_or(libc::ENOENT)?.parent = None;
                Ok(Vec::new())
            }
            // RENAME
            12 => {
                let old = text(&body[8..]);
                let new = text(&body[8 + old.len() + 1..]);
                let (to, moved) = (word(body, 0), self.find(node, &old)?);
                if let Ok(replaced) = self.find(to, &new) {
                    self.nodes.get_mut(&replaced).ok_or(libc::ENOENT)?.parent = None;
                }
                let moved = self.nodes.get_mut(&moved).ok_or(libc::ENOENT)?;
                (moved.parent, moved.name) = (Some(to), new);
                Ok(Vec::new())
            }
            // OPEN, OPENDIR
            14 | 27 => Ok(words(&[0, 0])),
            // READ
            15 => {
                let (from, len) = (word(body, 8) as usize, half(body, 16) as usize);
                let bytes = self.bytes(node)?;
                let from = from.min(bytes.len());
                Ok(bytes[from..(from + len).min(bytes.len())].to_vec())
            }
            // WRITE
            16 => {
                let (from, len) = (word(body, 8) as usize, half(body, 16));
                let is_direct = half(body, 32) & libc::O_DIRECT as u32 != 0;
                if let Some(errno) = (self.manners.refuses)(len).filter(|_| is_direct) {
                    return Err(errno);
                }
                let bytes = self.bytes(node)?;
                let end = from + len as usize;
                bytes.resize(bytes.len().max(end), 0);
                bytes[from..end].copy_from_slice(&body[40..40 + len as usize]);
                Ok(words(&[pair(len, 0)]))
            }
            // STATFS
            17 => {
                let Manners {
                    transfer_bytes,
                    fragment_bytes,
                    fragments,
                    ..
                } = self.manners;
                let free = fragments / 2;
                let sizes = words(&[fragments, free, free, 1000, 1000]);
                let units = words(&[pair(transfer_bytes, 255), pair(fragment_bytes, 0), 0, 0, 0]);
                Ok([sizes, units].concat())
            }
            // RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR, ACCESS
            18 | 20 | 25 | 29 | 30 | 34 => Ok(Vec::new()),
            28 => Ok(self.list(node, word(body, 8) as usize)),
            _ => Err(libc::ENOSYS),
        }
    }

    fn find(&self, parent: u64, name: &str) -> Result<u64, i32> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| node.parent == Some(parent) && node.name == name);
        found.map(|(&number, _)| number).ok_or(libc::ENOENT)
    }

    fn bytes(&mut self, node: u64) -> Result<&mut Vec<u8>, i32> {
        let node = self.nodes.get_mut(&node).ok_or(libc::ENOENT)?;
        node.bytes.as_mut().ok_or(libc::EISDIR)
    }

    fn add(&mut self, parent: u64, name: String, bytes: Option<Vec<u8>>) -> Answer {
        let number = self.nodes.last_key_value().map_or(1, |(last, _)| last + 1);
        self.nodes.insert(
            number,
            Node {
                parent: Some(parent),
                name,
                bytes,
            },
        );
        self.entry(number)
    }

    fn entry(&self, number: u64) -> Answer {
        Ok([words(&[number, 0, 0, 0, 0]), self.attributes(number)?].concat())
    }

    fn attributes(&self, number: u64) -> Answer {
        let node = self.nodes.get(&number).ok_or(libc::ENOENT)?;
        let len = node.bytes.as_ref().map_or(0, Vec::len) as u64;
        let mode = if node.bytes.is_some() {
            0o100_600
        } else {
            0o040_700
        };
        let times = [0, 0, 0, 0, 0];
        let numbers = [number, len, len.div_ceil(512)];
        // Links and mode; owner is root; blksize.
        let rest = [pair(mode, 1), 0, pair(0, 4096), 0];
        Ok([
            words(&numbers),
            words(&times[..3]),
            vec![0; 12],
            words(&rest)[..28].to_vec(),
        ]
        .concat())
    }

    /// READDIR, past the first `from` entries.
    fn list(&self, parent: u64, from: usize) -> Vec<u8> {
        let nodes = self
            .nodes
            .iter()
            .filter(|(_, node)| node.parent == Some(parent));
        let mut entries = Vec::new();
        for (index, (number, node)) in nodes.enumerate().skip(from) {
            entries.extend(words(&[
                *number,
                index as u64 + 1,
                pair(node.name.len() as u32, 0),
            ]));
            entries.extend(node.name.as_bytes());
            entries.resize(entries.len().next_multiple_of(8), 0);
        }
        entries
    }
}
