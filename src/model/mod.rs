//! Plain data that all layers share, with no behaviour beyond parsing and printing itself.

pub mod cell;
pub mod claims;
pub mod devid;
pub mod drive;
pub mod durability;
pub mod facts;
#[cfg(test)]
pub(crate) mod fixture;
pub mod histogram;
pub mod record;
pub mod sample;
pub mod text;
pub mod timeline;
pub mod trace;
pub mod traffic;
pub mod units;
pub mod variant;
