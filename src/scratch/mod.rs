//! Scratch files: a folder of our own below the directory that is measured, the files in it, and
//! what is left of them after a kill.
//!
//! Nothing outside that folder is written, and the folder goes away with its [`Scratch`], on every
//! way out that runs destructors. What a SIGKILL leaves is found by `leftover`.

mod dir_handle;
mod file;
mod folder;
mod leftover;
mod owner;

pub use file::{Opened, ScratchFile, open_flags};
pub use folder::{Scratch, ScratchError};
pub use leftover::{Leftover, find, left_alone, own, remove};
