//! `syncprof` measures what a synchronous write costs on the bare device, what it costs through
//! the filesystem, and how big the gap is.
//!
//! The modules are layers: an import points only to a module further down in this list, which
//! `tests/layers.rs` checks. ARCHITECTURE.md says why.

#![warn(clippy::unwrap_used, clippy::expect_used)]

pub mod cli;

pub mod report;

pub mod analyse;

pub mod session;

pub mod plan;

pub mod engine;
pub mod lab;
pub mod observe;
pub mod witness;

pub mod workload;

pub mod guard;
pub mod scratch;

pub mod target;

pub mod sys;

pub mod fs;

pub mod model;
