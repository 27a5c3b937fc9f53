//! The witness: a second machine that remembers what a device promised, while the first loses its
//! power.
//!
//! The machine with the device is the client. It writes records ([`crate::workload::stamp`]), and
//! reports each to the witness once the device acknowledged it. The witness has a report on its own
//! disk before it answers. The client doesn't wait for the answer, which would give the device time to
//! bring to its medium what it had said was there; but it lets only a bounded number of reports be
//! unanswered. What the witness holds was promised; what it doesn't hold may have been.

pub mod codec;
mod compare;
pub mod message;
mod peer;
mod server;
pub mod store;

pub use codec::CodecError;
pub use compare::{Comparer, Comparison};
pub use peer::{Found, Peer, PeerError, Reports};
pub use server::Server;
pub use store::{Store, StoreError};
