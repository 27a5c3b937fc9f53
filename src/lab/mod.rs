//! Builds filesystems on scratch space, and takes everything down again.
//!
//! All of it happens in a mount namespace of this process's own, on loop devices that the kernel
//! detaches with their last user, over an image that has no name. So whatever ends the process,
//! `kill -9` too, leaves nothing but an empty folder to mount on, which [`leftovers`] finds, and on
//! filesystems that make no nameless files, rarely an image, which [`old_images`] finds.

mod command;
mod image;
mod option_allowlist;
mod recipe;
mod stack;

pub use image::{Image, ImageError, OldImage, Region, has_room, old_images};
pub use option_allowlist::{DisallowedOption, disallowed_option};
pub use stack::{
    BuildError, MountPoint, OldMountPoint, Site, Stack, build, commands, leftovers, private_mounts,
};
