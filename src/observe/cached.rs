//! Counts the pages of a file that come into the page cache, those that are gone again at once among
//! them.

use std::ffi::CString;

use super::workers::tracepoint_id;
use crate::sys::perf::{Counter, Tracepoint};
use crate::sys::root::Root;

/// Hit by each folio that is added (`__filemap_add_folio` in mm/filemap.c). Built into every kernel.
const TRACEPOINT: &str = "events/filemap/mm_filemap_add_to_page_cache/id";

/// A count of the additions that the calling thread makes for the inode; none where this process may not
/// count, or the kernel has no such event.
pub fn inserts(root: &Root, inode: u64) -> Option<Counter> {
    let id = tracepoint_id(root, TRACEPOINT, "CONFIG_TRACEPOINTS").ok()?;
    let filter = CString::new(format!("i_ino == {inode}")).ok()?;
    let filter = Some(filter.as_c_str());
    Counter::open(Tracepoint { id, filter }).ok()
}
