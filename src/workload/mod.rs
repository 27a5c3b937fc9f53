//! What is written, and where: pure, so that it can be tested without a device.

pub mod pattern;
pub mod payload;
pub mod stamp;
