//! What is written, and where: pure, so that it can be tested without a device.

pub mod dirty;
pub mod log;
pub mod pattern;
pub mod payload;
pub mod stamp;
