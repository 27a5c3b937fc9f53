//! `lab`: builds one filesystem after the other, measures each, prints the ranking.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::guard;
use crate::lab::{self, BuildError, Image, ImageError, MountPoint, Region, Stack};
use crate::model::cell::CellSpec;
use crate::model::facts::DevId;
use crate::model::record::{Ended, Level, Note, Record};
use crate::model::units::show_amount;
use crate::model::variant::{self, Variant};
use crate::plan::Settings;
use crate::plan::lab::LabProfile;
use crate::report;
use crate::session::{self, Bench, Hooks, Pace, Progress, Saver, SetupError, Wish};
use crate::sys::loopdev::LoopDevice;
use crate::sys::root::Root;

use super::args::Lab;
use super::config::{self, UsageError};
use super::confirm::confirmation;
use super::measure::{self, tracing};
use super::output::Terminal;
use super::screen::Screen;
use super::{signals, status};

/// An image where nothing else is asked for.
const IMAGE_BYTES: u64 = 1 << 30;
/// The part of it that is written raw, unless a span is asked for.
const RAW_BYTES: u64 = 64 << 20;
/// Less than this is no filesystem.
const LEAST_BYTES: u64 = 8 << 20;
/// The part of it for journals on a device of their own.
const JOURNAL_BYTES: u64 = 128 << 20;

pub(super) fn run(root: &Root, args: Lab, terminal: &Terminal) -> anyhow::Result<u8> {
    let (profile, settings) = config::lab(&args)?;
    if args.measure.control.dry_run {
        terminal.print(&dry_run(&profile))?;
        return Ok(status::MEASURED);
    }
    // Before there is any other thread, which would not share them.
    lab::private_mounts().map_err(|error| {
        SetupError::Cannot(format!(
            "cannot have mounts of its own: {error}; run as root, with CAP_SYS_ADMIN"
        ))
    })?;
    let stop = signals::watch().context("cannot watch for signals")?;
    let state = measure::usable_state_folder(terminal);
    let state = state.unwrap_or_else(std::env::temp_dir);
    let ground = Ground::prepare(root, &args, &profile, &settings, &state, &stop)?;
    let place = MountPoint::make(&state)
        .with_context(|| format!("cannot make a folder to mount on in {}", state.display()))?;
    let wish = measure::wish("lab", &args.measure, settings)?;
    let told = variant::Lab {
        profile: profile.name.clone(),
        question: profile.question.clone(),
        scratch: ground.describe(),
        is_image: matches!(ground, Ground::Image { .. }),
        remedies: profile.remedies.clone(),
    };
    let mut record = session::lab_record(root, &wish, told);
    let saver = Saver::new(
        measure::record_paths(args.measure.output.json.as_deref(), Some(&state), &record),
        &record,
    )?;
    let mut run = Run {
        root,
        args: &args,
        ground: &ground,
        place: &place,
        saver: &saver,
        stop: &stop,
        terminal,
        begun: Instant::now(),
        ended: Vec::new(),
    };
    run.all(&mut record, &profile.variants, &wish)?;
    terminal.print(&report::render(&record, &terminal.style()))?;
    for text in report::warnings(&record) {
        terminal.say(Level::Warning, &text);
    }
    for path in saver.paths() {
        let text = format!("the record is in {}", path.display());
        terminal.say(Level::Remark, &text);
    }
    Ok(status_of(&record))
}

fn dry_run(profile: &LabProfile) -> String {
    let (device, journal) = (Path::new("DEVICE"), Path::new("JOURNAL"));
    let lines = profile.variants.iter().map(|variant| {
        let commands = lab::commands(variant, device, Some(journal));
        format!("{}: {}\n", variant.name, commands.join("; "))
    });
    lines.collect()
}

fn status_of(record: &Record) -> u8 {
    let failed = |variant: &Variant| variant.failed.is_some();
    let has_failed = record
        .targets
        .iter()
        .filter_map(|t| t.variant.as_ref())
        .any(failed);
    match measure::status_of(record) {
        status::MEASURED if has_failed => status::FAILED,
        other => other,
    }
}

/// What filesystems are built on.
enum Ground {
    /// Parts of an image.
    Image {
        size_bytes: u64,
        folder: PathBuf,
        filesystem: LoopDevice,
        raw: LoopDevice,
        journal: Option<LoopDevice>,
    },
    /// A device that was named and confirmed.
    Device { path: PathBuf, dev: DevId },
}

impl Ground {
    fn prepare(
        root: &Root,
        args: &Lab,
        profile: &LabProfile,
        settings: &Settings,
        state: &Path,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Ground> {
        if let Some(path) = &args.device {
            return Ground::device(root, args, path, stop);
        }
        let folder = args.folder.clone().unwrap_or_else(|| state.to_owned());
        let size_bytes = args.image.unwrap_or(IMAGE_BYTES);
        let raw_bytes = settings.matrix.span_bytes.unwrap_or(RAW_BYTES);
        let external = profile
            .variants
            .iter()
            .any(|variant| variant.external_journal);
        let journal_bytes = if external { JOURNAL_BYTES } else { 0 };
        let filesystem_bytes = size_bytes.saturating_sub(raw_bytes + journal_bytes);
        if filesystem_bytes < LEAST_BYTES {
            return Err(UsageError(format!(
                "--image {} leaves too little for a filesystem beside {} that are written raw",
                show_amount(size_bytes),
                show_amount(raw_bytes),
            ))
            .into());
        }
        let image = Image::make(&folder, size_bytes, stop).map_err(setup)?;
        let attach = |offset_bytes, size_bytes| {
            let region = Region {
                offset_bytes,
                size_bytes,
            };
            image.attach(root, region).map_err(setup)
        };
        let journal = match external {
            true => Some(attach(raw_bytes, journal_bytes)?),
            false => None,
        };
        Ok(Ground::Image {
            size_bytes,
            raw: attach(0, raw_bytes)?,
            journal,
            filesystem: attach(raw_bytes + journal_bytes, filesystem_bytes)?,
            folder,
        })
    }

    /// The guard judges the device, and what was typed for it. The grant itself is given back, since
    /// mkfs and the mount claim the device for themselves.
    fn device(
        root: &Root,
        args: &Lab,
        path: &Path,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Ground> {
        if !args.writing.overwrite {
            let text = "--device needs --overwrite: filesystems are made on it, and destroy what it \
                        holds";
            return Err(UsageError(text.to_owned()).into());
        }
        let permit = guard::check(root, path).map_err(SetupError::Refused)?;
        let confirmed = confirmation(Some(permit.confirmations()), Some(&args.writing), stop)?;
        let dev = permit.facts().first().map(|device| device.dev);
        let (Some((word, force)), Some(dev)) = (confirmed, dev) else {
            return Err(UsageError(format!("{} is not confirmed", path.display())).into());
        };
        permit
            .overwrite(RAW_BYTES, &word, force)
            .map_err(SetupError::Refused)?;
        Ok(Ground::Device {
            path: path.to_owned(),
            dev,
        })
    }

    fn describe(&self) -> String {
        match self {
            Ground::Image {
                size_bytes, folder, ..
            } => format!(
                "an image of {} in {}",
                show_amount(*size_bytes),
                folder.display()
            ),
            Ground::Device { path, .. } => path.display().to_string(),
        }
    }

    /// Where a filesystem is made, and where its journal may lie. A device is judged anew.
    fn devices(&self, root: &Root) -> anyhow::Result<(&Path, Option<&Path>)> {
        match self {
            Ground::Image {
                filesystem,
                journal,
                ..
            } => Ok((
                filesystem.node(),
                journal.as_ref().map(|journal| journal.node().as_path()),
            )),
            Ground::Device { path, dev } => {
                let permit = guard::check(root, path).map_err(SetupError::Refused)?;
                let now = permit.facts().first().map(|device| device.dev);
                anyhow::ensure!(
                    now == Some(*dev),
                    "{} is another device than the one that was confirmed",
                    path.display()
                );
                Ok((path, None))
            }
        }
    }

    /// The device that the filesystem is compared with, and the word that confirms writing it. On a
    /// device that was named, the file's own blocks serve, where they can.
    fn raw(&self) -> Option<(&Path, String)> {
        let Ground::Image { raw, .. } = self else {
            return None;
        };
        let name = raw.node().file_name().unwrap_or_default();
        Some((raw.node(), name.to_string_lossy().into_owned()))
    }
}

fn setup(error: ImageError) -> SetupError {
    match error {
        ImageError::Interrupted => SetupError::Interrupted,
        other => SetupError::Cannot(other.to_string()),
    }
}

/// A lab that runs.
struct Run<'a> {
    root: &'a Root,
    args: &'a Lab,
    ground: &'a Ground,
    place: &'a MountPoint,
    saver: &'a Saver,
    stop: &'a Arc<AtomicBool>,
    terminal: &'a Terminal,
    begun: Instant,
    /// Why each variant so far ended.
    ended: Vec<Ended>,
}

impl Run<'_> {
    fn all(
        &mut self,
        record: &mut Record,
        variants: &[Variant],
        wish: &Wish,
    ) -> anyhow::Result<()> {
        let rounds = wish.settings.rounds;
        let mut screen = Screen::new(self.terminal, self.saver, self.stop, record, rounds);
        for (index, variant) in variants.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                self.ended.push(Ended::Interrupted);
                break;
            }
            let left = wish.settings.budget.saturating_sub(self.begun.elapsed());
            let share = left / (variants.len() - index) as u32;
            self.one(record, variant, wish, share, &mut screen)?;
        }
        record.run.ended = Some(session::ended(&self.ended));
        screen.after_round(record)?;
        match screen.unsaved() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Builds a variant, measures it, takes it down. What goes wrong is the variant's, and told in
    /// its row.
    fn one(
        &mut self,
        record: &mut Record,
        variant: &Variant,
        wish: &Wish,
        budget: Duration,
        screen: &mut Screen<'_>,
    ) -> anyhow::Result<()> {
        let (device, journal) = self.ground.devices(self.root)?;
        let mut variant = variant.clone();
        let built = lab::build(self.root, &variant, device, journal, self.place, self.stop);
        let stack = match built {
            Ok(stack) => stack,
            Err(BuildError::Interrupted) => return Ok(()),
            Err(error) => {
                variant.failed = Some(error.to_string());
                session::add_failed(record, variant);
                return Ok(());
            }
        };
        variant.commands.clone_from(&stack.commands);
        match self.measure(record, &variant, wish, budget, screen) {
            Ok(measured) => *record = measured,
            Err(error) => match error.downcast_ref::<SetupError>() {
                Some(SetupError::Interrupted) => {}
                _ => {
                    variant.failed = Some(format!("{error:#}"));
                    session::add_failed(record, variant);
                }
            },
        }
        self.take_down(record, stack);
        Ok(())
    }

    fn take_down(&self, record: &mut Record, stack: Stack<'_>) {
        if let Err(error) = stack.unmount() {
            record.notes.push(Note {
                level: Level::Warning,
                target: None,
                text: format!(
                    "a filesystem was not unmounted in time ({error}): what came after it \
                               may have been disturbed"
                ),
            });
        }
    }

    /// Measures the filesystem that is mounted: `record` with what came of it.
    fn measure(
        &mut self,
        record: &Record,
        variant: &Variant,
        wish: &Wish,
        budget: Duration,
        screen: &mut Screen<'_>,
    ) -> anyhow::Result<Record> {
        let raw = self.ground.raw();
        let mut wish = wish.clone();
        wish.directories = vec![self.place.path().to_owned()];
        wish.device = raw.as_ref().map(|(node, _)| (*node).to_owned());
        wish.overwrite = raw.is_some();
        wish.compare = true;
        wish.settings.budget = budget;
        let survey = session::survey(self.root, wish)?;
        let confirmed = raw.as_ref().map(|(_, word)| (word.as_str(), true));
        // Nothing outlives the mount, so the scratch folder needs no entry elsewhere.
        let (mut measured, places) =
            session::prepare(self.root, survey, confirmed, None, self.stop)?;
        let pace = Pace {
            budget_ns: measured.run.budget_ns,
            min_rounds: measured.run.min_rounds,
            rounds: self.args.measure.control.rounds,
        };
        let (stop, saver, terminal) = (self.stop, self.saver, self.terminal);
        let stalled = Box::new(|spec: &CellSpec, over| {
            measure::tell_stall(&spec.id, over, stop, saver, terminal)
        });
        let tracing = tracing(&self.args.measure);
        let mut bench = Bench::new(self.root, &mut measured, places, stop, tracing, stalled)?;
        let mut hooks = OneOfMany {
            screen,
            record,
            variant,
        };
        session::run(&mut measured, &mut bench, &pace, &mut hooks)?;
        self.ended.extend(measured.run.ended);
        Ok(session::with_variant(record, variant, &measured))
    }
}

/// Saves the whole lab's record after each round of a variant.
struct OneOfMany<'a, 's> {
    screen: &'a mut Screen<'s>,
    record: &'a Record,
    variant: &'a Variant,
}

impl Hooks for OneOfMany<'_, '_> {
    fn before_slice(&mut self, progress: &Progress, record: &Record) {
        self.screen.before_slice(progress, record);
    }

    fn after_round(&mut self, record: &Record) -> anyhow::Result<()> {
        let all = session::with_variant(self.record, self.variant, record);
        self.screen.after_round(&all)
    }

    fn precise(&self, record: &Record) -> bool {
        self.screen.precise(record)
    }

    fn interrupted(&self) -> bool {
        self.screen.interrupted()
    }
}
