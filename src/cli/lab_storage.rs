//! What a lab builds its filesystems on: parts of an image, or devices that were named.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::guard::{self, ReservedDevice};
use crate::lab::{self, Image, ImageError, Region};
use crate::model::record::{Level, Note};
use crate::model::units::show_amount;
use crate::plan::Settings;
use crate::plan::lab::LabProfile;
use crate::session::SetupError;
use crate::sys::loopdev::LoopDevice;
use crate::sys::root::Root;

use super::args::{Lab, Writing};
use super::config::UsageError;
use super::confirm::confirmation;

/// An image where nothing else is asked for.
const IMAGE_BYTES: u64 = 1 << 30;
/// The part of it that is written raw, unless a span is asked for.
const RAW_BYTES: u64 = 64 << 20;
/// Less than this is no filesystem.
const LEAST_BYTES: u64 = 8 << 20;
/// The part of it for journals on a device of their own.
const JOURNAL_BYTES: u64 = 128 << 20;
/// Where an image is made if the state folder's filesystem has no room.
const SPACIOUS: &str = "/var/tmp";

/// What filesystems are built on.
pub(super) enum LabStorage {
    /// Parts of an image.
    Image {
        size_bytes: u64,
        folder: PathBuf,
        filesystem: LoopDevice,
        raw: LoopDevice,
        journal: Option<LoopDevice>,
    },
    /// Devices that were named and confirmed.
    Device {
        filesystem: Named,
        journal: Option<Named>,
    },
}

/// A device that was named and confirmed.
pub(super) struct Named {
    /// As it was typed.
    path: PathBuf,
    kept: Box<ReservedDevice>,
}

impl LabStorage {
    /// Makes the image, or has the devices judged and confirmed. `state` is where the image is made
    /// if nothing else is asked for.
    pub(super) fn prepare(
        root: &Root,
        args: &Lab,
        profile: &LabProfile,
        settings: &Settings,
        state: &Path,
        stop: &AtomicBool,
    ) -> anyhow::Result<LabStorage> {
        let Some(path) = &args.device else {
            return LabStorage::image(root, args, profile, settings, state, stop);
        };
        if !args.writing.overwrite {
            let text = "--device needs --overwrite: filesystems are made on it, and destroy what it \
                        holds";
            return Err(UsageError(text.to_owned()).into());
        }
        let filesystem = Named::confirmed(root, path, &args.writing, stop)?;
        let writing = Writing {
            confirm: args.confirm_journal.clone(),
            ..args.writing.clone()
        };
        let journal = args.journal_device.as_ref();
        let journal = journal.map(|path| Named::confirmed(root, path, &writing, stop));
        let journal = journal.transpose()?;
        if let Some(journal) = &journal {
            refuse_shared(&filesystem, journal)?;
        }
        Ok(LabStorage::Device {
            filesystem,
            journal,
        })
    }

    fn image(
        root: &Root,
        args: &Lab,
        profile: &LabProfile,
        settings: &Settings,
        state: &Path,
        stop: &AtomicBool,
    ) -> anyhow::Result<LabStorage> {
        let size_bytes = args.image.unwrap_or(IMAGE_BYTES);
        let folder = args.folder.clone();
        let folder = folder.unwrap_or_else(|| place(state, size_bytes));
        let raw_bytes = settings.matrix.span_bytes.unwrap_or(RAW_BYTES);
        let mut variants = profile.variants.iter();
        let journal_bytes = match variants.any(|variant| variant.external_journal) {
            true => JOURNAL_BYTES,
            false => 0,
        };
        let filesystem_bytes = size_bytes.saturating_sub(raw_bytes.saturating_add(journal_bytes));
        if filesystem_bytes < LEAST_BYTES {
            let beside = match journal_bytes {
                0 => String::new(),
                bytes => format!(" and {} for journals on their own", show_amount(bytes)),
            };
            return Err(UsageError(format!(
                "--image {} leaves too little for a filesystem beside {} that are written raw{beside}",
                show_amount(size_bytes),
                show_amount(raw_bytes),
            ))
            .into());
        }
        let image = Image::make(&folder, state, size_bytes, stop).map_err(setup)?;
        let attach = |offset_bytes, size_bytes| {
            let region = Region {
                offset_bytes,
                size_bytes,
            };
            image.attach(root, region, stop).map_err(setup)
        };
        let journal = (journal_bytes > 0).then(|| attach(raw_bytes, journal_bytes));
        Ok(LabStorage::Image {
            size_bytes,
            raw: attach(0, raw_bytes)?,
            journal: journal.transpose()?,
            filesystem: attach(raw_bytes + journal_bytes, filesystem_bytes)?,
            folder,
        })
    }

    /// It is an image on another filesystem.
    pub(super) fn is_image(&self) -> bool {
        matches!(self, LabStorage::Image { .. })
    }

    pub(super) fn describe(&self) -> String {
        match self {
            LabStorage::Image {
                size_bytes, folder, ..
            } => format!(
                "an image of {} in {}",
                show_amount(*size_bytes),
                folder.display()
            ),
            LabStorage::Device {
                filesystem,
                journal,
            } => match journal {
                Some(journal) => format!(
                    "{}, journals on {}",
                    filesystem.path.display(),
                    journal.path.display()
                ),
                None => filesystem.path.display().to_string(),
            },
        }
    }

    /// What is not as it was asked for.
    pub(super) fn notes(&self) -> anyhow::Result<Vec<Note>> {
        let LabStorage::Image { filesystem, .. } = self else {
            return Ok(Vec::new());
        };
        Ok(match filesystem.is_direct()? {
            true => Vec::new(),
            false => vec![Note {
                level: Level::Fallback,
                target: None,
                text: "the image's filesystem does no direct I/O for it: what is written goes \
                       through the page cache, also on the raw side; name another directory with \
                       --in"
                    .to_owned(),
            }],
        })
    }

    /// Where a filesystem is made, and where its journal may lie. Devices that were named are judged
    /// anew.
    pub(super) fn devices(&self) -> anyhow::Result<(&Path, Option<&Path>)> {
        match self {
            LabStorage::Image {
                filesystem,
                journal,
                ..
            } => Ok((
                filesystem.node(),
                journal.as_ref().map(|journal| journal.node().as_path()),
            )),
            LabStorage::Device {
                filesystem,
                journal,
            } => {
                let journal = journal.as_ref().map(Named::judged_again);
                Ok((filesystem.judged_again()?, journal.transpose()?))
            }
        }
    }

    /// Checks that the nodes still lead to the devices that were confirmed. Those of an image are held.
    pub(super) fn verify(&self) -> Result<(), String> {
        let LabStorage::Device {
            filesystem,
            journal,
        } = self
        else {
            return Ok(());
        };
        let mut named = [Some(filesystem), journal.as_ref()].into_iter().flatten();
        named
            .try_for_each(|named| named.kept.verify())
            .map_err(|refusal| refusal.to_string())
    }

    /// The device that the filesystem is compared with, and the word that confirms writing it. On a
    /// device that was named, the file's own blocks serve, where they can.
    pub(super) fn raw(&self) -> Option<(&Path, String)> {
        let LabStorage::Image { raw, .. } = self else {
            return None;
        };
        let name = raw.node().file_name().unwrap_or_default();
        Some((raw.node(), name.to_string_lossy().into_owned()))
    }
}

impl Named {
    /// The guard judges the device, and what was typed for it.
    fn confirmed(
        root: &Root,
        path: &Path,
        writing: &Writing,
        stop: &AtomicBool,
    ) -> anyhow::Result<Named> {
        let permit = guard::check(root, path).map_err(SetupError::Refused)?;
        let confirmed = confirmation(Some(permit.confirmations()), Some(writing), stop)?;
        let Some((word, force)) = confirmed else {
            return Err(UsageError(format!("{} is not confirmed", path.display())).into());
        };
        Ok(Named {
            path: path.to_owned(),
            kept: Box::new(permit.keep(&word, force).map_err(SetupError::Refused)?),
        })
    }

    /// The device's node, if nobody has come to use it, and it is still the one that was confirmed.
    fn judged_again(&self) -> anyhow::Result<&Path> {
        self.kept.judge_again().map_err(SetupError::Refused)?;
        Ok(self.kept.path())
    }
}

/// A journal that lies where the filesystem does would be destroyed by its making.
fn refuse_shared(filesystem: &Named, journal: &Named) -> Result<(), UsageError> {
    if !filesystem.kept.shares_bytes_with(&journal.kept) {
        return Ok(());
    }
    Err(UsageError(format!(
        "--journal-device {} shares its bytes with --device {}; name another device",
        journal.path.display(),
        filesystem.path.display()
    )))
}

/// Where an image is made: in the state folder, or where more room is usual if it has too little.
fn place(state: &Path, size_bytes: u64) -> PathBuf {
    let spacious = Path::new(SPACIOUS);
    match !lab::has_room(state, size_bytes) && lab::has_room(spacious, size_bytes) {
        true => spacious.to_owned(),
        false => state.to_owned(),
    }
}

fn setup(error: ImageError) -> SetupError {
    match error {
        ImageError::Interrupted => SetupError::Interrupted,
        other => SetupError::Cannot(other.to_string()),
    }
}
