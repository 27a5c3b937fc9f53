//! What a record means: pure functions of it, so that a corrected formula judges old records anew.

pub mod gap;
pub mod interval;
pub mod spread;
pub mod stop;
pub mod trunc;
