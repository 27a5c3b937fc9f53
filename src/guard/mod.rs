//! The guard: decides whether a device may be written, and is the only maker of [`WriteGrant`].
//!
//! [`check`] claims a device and judges it. Its [`Permit`] becomes a grant by [`Permit::preserve`],
//! which writes back what is there, or by [`Permit::overwrite`]. [`extents`] grants writes to the
//! blocks of files of a mounted filesystem, through the device below it. While a grant is used,
//! [`Lookout`] sees whether its device came into use. What other programs are to write, as mkfs is,
//! becomes [`ReservedDevice`] by [`Permit::keep`].
//!
//! Decisions rest on open descriptors and device numbers, never on names: names move
//! (axboe/fio#1382, axboe/fio#1637).

mod check;
mod content;
mod extents;
mod grant;
mod hold;
mod judge;
mod layout;
mod lookout;
mod no_extents;
mod node;
mod permit;
mod proof;
mod refusal;
mod reserved;
pub mod signature;

pub use check::{check, writable};
pub use extents::extents;
pub use grant::{GrantedFd, WriteGrant};
pub use lookout::Lookout;
pub use no_extents::NoExtents;
pub use permit::{Confirmations, MAX_PRESERVED_BYTES, Permit};
pub use refusal::Refusal;
pub use reserved::ReservedDevice;
