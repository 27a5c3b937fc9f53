//! Which request makes a transaction valid.

use super::Scope;
use super::pair::Done;
use crate::model::trace::Class;

/// For each request, in the order of issue: is it a commit block?
///
/// A journal write is one if it asked for a pre-flush or for FUA, as both jbd2's and XFS's do. Where
/// that isn't seen, because the block layer took the flags out before, it is one if it came out of a
/// flush sequence: right after a flush, and issued by the block layer's own worker. Where there are
/// no flushes either (`nobarrier`, or no volatile cache), it is the last write of its run.
pub(super) fn commit_blocks(requests: &[(Class, Done)], scope: &Scope) -> Vec<bool> {
    let mut marks = vec![false; requests.len()];
    let mut run = Vec::new();
    let mut after_flush = false;
    for (at, (class, done)) in requests.iter().enumerate() {
        match class {
            Class::Journal => {
                run.push(at);
                marks[at] = asks_for_order(done) || after_flush && is_block_worker(done);
                after_flush = false;
            }
            Class::Flush => after_flush = true,
            // Somebody else's request says nothing of ours.
            Class::Other | Class::Unknown => {}
            Class::Data | Class::Metadata => {
                end_run(&mut run, &mut marks);
                after_flush = false;
                marks[at] = *class == Class::Metadata && is_commit_superblock(done, scope);
            }
        }
    }
    end_run(&mut run, &mut marks);
    marks
}

fn end_run(run: &mut Vec<usize>, marks: &mut [bool]) {
    if let Some(last) = run.last().copied()
        && !run.iter().any(|at| marks[*at])
    {
        marks[last] = true;
    }
    run.clear();
}

fn asks_for_order(done: &Done) -> bool {
    let asked = done.asked.unwrap_or(done.flags);
    asked.preflush || asked.fua || done.flags.fua
}

/// After a pre-flush the block layer issues the write from its high-priority workqueue, kblockd,
/// whose workers' names end in H (block/blk-flush.c, kernel/workqueue.c).
fn is_block_worker(done: &Done) -> bool {
    let name = done.issuer.as_bytes();
    name.starts_with(b"kworker/") && name.ends_with(b"H")
}

fn is_commit_superblock(done: &Done, scope: &Scope) -> bool {
    let at = scope.fs().extras.commit_superblock_bytes;
    let at = at.and_then(|at| scope.target.start.checked_add(at));
    at.is_some() && done.offset_bytes == at
}
