//! What the kernel counts and reports while the engine writes. Nothing here touches the engine's
//! path.

pub mod attribute;
pub mod blockstat;
pub mod cached;
mod counter;
pub mod cpustat;
pub mod decode;
pub mod event;
pub mod format;
pub mod fsstat;
pub mod phases;
mod refused;
pub mod rwbs;
mod tracefs;
pub mod tracer;
pub mod workers;
