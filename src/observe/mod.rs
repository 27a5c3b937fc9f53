//! What the kernel counts and reports while the engine writes. Nothing here touches the engine's
//! path.

pub mod attribute;
pub mod blockstat;
pub mod event;
pub mod phases;
pub mod rwbs;
pub mod workers;
