//! The right to write, and the offsets that it covers.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::fcntl::OFlag;

use super::layout::{self, Block, Run};
use super::node::Node;
use super::refusal::Refusal;
use crate::model::record::Content;
use crate::sys::buffer::Aligned;
use crate::sys::ioctl;
use crate::sys::root::Root;

/// A device is discarded in pieces of this size, so that one can be left in between.
const DISCARD_BYTES: u64 = 16 << 30;

/// The right to write certain bytes of a block device. Only the guard makes one. The claim on the
/// device lasts until the grant and all descriptors from it are dropped.
#[derive(Debug)]
pub struct WriteGrant {
    root: Root,
    node: Arc<Node>,
    reach: Reach,
}

/// The bytes that a grant covers.
#[derive(Debug)]
enum Reach {
    /// From the device's start.
    Span {
        span_bytes: u64,
        preserved: Option<Preserved>,
        /// It may be discarded.
        purge: bool,
    },
    /// The blocks of files, one a lane.
    Files(Vec<PinnedFile>),
}

/// What a span held.
#[derive(Debug)]
pub(super) struct Preserved {
    pub(super) bytes: Aligned,
    pub(super) content: Content,
}

/// A file whose blocks were granted, and where they were.
#[derive(Debug)]
pub(super) struct PinnedFile {
    pub(super) file: File,
    pub(super) size_bytes: u64,
    pub(super) runs: Vec<Run>,
}

/// A device that is open for writing by a grant. What is written must stay within the offsets that
/// the grant gives.
#[derive(Debug)]
pub struct GrantedFd {
    file: File,
    /// Keeps the claim.
    _node: Arc<Node>,
}

impl AsFd for GrantedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl WriteGrant {
    pub(super) fn on_span(
        root: Root,
        node: Node,
        span_bytes: u64,
        preserved: Option<Preserved>,
    ) -> WriteGrant {
        WriteGrant {
            root,
            node: Arc::new(node),
            reach: Reach::Span {
                span_bytes,
                preserved,
                purge: false,
            },
        }
    }

    pub(super) fn purging(mut self) -> WriteGrant {
        if let Reach::Span {
            purge, preserved, ..
        } = &mut self.reach
        {
            *purge = preserved.is_none();
        }
        self
    }

    pub(super) fn on_files(root: Root, node: Node, files: Vec<PinnedFile>) -> WriteGrant {
        WriteGrant {
            root,
            node: Arc::new(node),
            reach: Reach::Files(files),
        }
    }

    /// The length of each file whose blocks the grant covers, by lane. None for a grant on a span.
    pub fn file_bytes(&self) -> impl Iterator<Item = u64> {
        self.files().iter().map(|file| file.size_bytes)
    }

    /// What the span held; none but for a preserving grant.
    pub fn content(&self) -> Option<Content> {
        self.preserve().map(|preserved| preserved.content)
    }

    /// The bytes that the span held, from the device's start: the only ones that may be written,
    /// each to its own place. None but for a preserving grant.
    pub fn preserved(&self) -> Option<&Aligned> {
        self.preserve().map(|preserved| &preserved.bytes)
    }

    fn preserve(&self) -> Option<&Preserved> {
        match &self.reach {
            Reach::Span { preserved, .. } => preserved.as_ref(),
            Reach::Files(_) => None,
        }
    }

    /// Opens the device for writing, with flags such as O_DIRECT and O_DSYNC besides, and checks
    /// that it is still the device that was judged. Refuses a grant on files without O_DIRECT.
    pub fn open(&self, flags: OFlag) -> Result<GrantedFd, Refusal> {
        if !self.files().is_empty() && !flags.contains(OFlag::O_DIRECT) {
            return Err(Refusal::NeedsDirect {
                device: self.node.name.clone(),
            });
        }
        let flags = (flags & !OFlag::O_ACCMODE) | OFlag::O_WRONLY;
        let file = self.node.reopen(&self.root, "open it for writing", flags)?;
        Ok(GrantedFd {
            file,
            _node: Arc::clone(&self.node),
        })
    }

    /// Discards all that a purging grant covers, piece by piece; `more` is asked before each, with
    /// the bytes that are done, whether to go on. False if it said no, and for any other grant.
    pub fn discard(&self, more: &dyn Fn(u64) -> bool) -> Result<bool, Refusal> {
        let &Reach::Span {
            span_bytes,
            purge: true,
            ..
        } = &self.reach
        else {
            return Ok(false);
        };
        let device = self
            .node
            .reopen(&self.root, "open it for writing", OFlag::O_RDWR)?;
        let mut done = 0;
        while done < span_bytes {
            if !more(done) {
                return Ok(false);
            }
            self.is_still_free()?;
            let piece = DISCARD_BYTES.min(span_bytes - done);
            ioctl::discard(&device, done, piece).map_err(|source| Refusal::NoDiscard {
                device: self.node.name.clone(),
                source,
            })?;
            done += piece;
        }
        Ok(true)
    }

    /// How many blocks of `size_bytes` each of `lanes` lanes has in a span; 0 for a grant on files.
    pub fn blocks_each(&self, lanes: usize, size_bytes: u64) -> u64 {
        match &self.reach {
            Reach::Span { span_bytes, .. } => {
                span_bytes / (lanes as u64).max(1) / size_bytes.max(1)
            }
            Reach::Files(_) => 0,
        }
    }

    /// The device offsets of one lane's blocks of `size_bytes`, in order: an even part of a span,
    /// or the blocks of the lane's file, of which those that the device doesn't hold in one piece
    /// are left out. Empty if there is no room for one, or no such lane.
    pub fn offsets(&self, lane: usize, lanes: usize, size_bytes: u64) -> Vec<u64> {
        match &self.reach {
            Reach::Span { span_bytes, .. } => {
                layout::lane_of_span(*span_bytes, lane, lanes, size_bytes)
            }
            Reach::Files(_) => self
                .blocks(lane, size_bytes)
                .map(|block| block.device_bytes)
                .collect(),
        }
    }

    /// The offsets in the lane's file of the same blocks, in the same order, as
    /// [`WriteGrant::offsets`] gives. Empty for a grant on a span.
    pub fn file_offsets(&self, lane: usize, size_bytes: u64) -> Vec<u64> {
        self.blocks(lane, size_bytes)
            .map(|block| block.file_bytes)
            .collect()
    }

    fn blocks(&self, lane: usize, size_bytes: u64) -> impl Iterator<Item = Block> {
        self.files()
            .get(lane)
            .map(|file| layout::blocks(&file.runs, size_bytes))
            .unwrap_or_default()
            .into_iter()
    }

    pub(super) fn files(&self) -> &[PinnedFile] {
        match &self.reach {
            Reach::Files(files) => files,
            Reach::Span { .. } => &[],
        }
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }
}
