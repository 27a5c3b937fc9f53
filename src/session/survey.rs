//! From what is wished for to a record with its targets and cells. Nothing is written here: a
//! device is claimed and judged, directories are looked at.

use std::path::{Path, PathBuf};

use crate::engine::{self, EngineError};
use crate::guard::{self, Confirmations, Permit, Refusal};
use crate::model::cell::{CellSpec, EngineKind, Method, Payload, Role};
use crate::model::durability::Durability;
use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::record::{
    Cell, Ended, Level, Note, Record, Run, SCHEMA, Target, TargetKind, Tool,
};
use crate::model::timeline::Workload;
use crate::model::units::show_bytes;
use crate::plan::{self, Matrix, Settings, TargetPlan, settings::MIN_ROUNDS};
use crate::sys::pulse;
use crate::sys::root::Root;
use crate::target;

use super::baseline::{DEVICE, device_plan, device_target};
use super::limits;
use super::prepare::{ends_in_time, silent};
use super::room::{Room, Shares, file_sets};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The verb: `raw`, `file`, `gap` or `validate`.
    pub verb: &'static str,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Directories to measure, each on its filesystem.
    pub directories: Vec<PathBuf>,
    /// Every mounted filesystem on a block device; one that can't be measured is told and left out.
    pub all: bool,
    /// A device to measure: the only target, or what directories are compared with.
    pub device: Option<PathBuf>,
    /// The device is written with fresh data.
    pub overwrite: bool,
    /// Compare directories with a baseline.
    pub compare: bool,
    /// The engine `sync` may stand in where io_uring is blocked.
    pub fallback: bool,
    /// The axes and the run control.
    pub settings: Settings,
    /// Axes whose cells are measured beside those of `settings`.
    pub also: Vec<Matrix>,
    /// What an inquiry into durability is told.
    pub durability: Option<Durability>,
    /// Decides the order of cells, random offsets and the payload.
    pub seed: u64,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The guard gives no right to write.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This host can't do it.
    #[error("{0}")]
    Cannot(String),
    /// A signal came while everything was prepared.
    #[error("interrupted before anything was measured; nothing is left behind")]
    Interrupted,
}

/// Why a run ended, as its record is to say, and what remains to be told once the record is kept: that
/// its device came into use. Any other error says nothing of what was measured.
pub(super) fn or_in_use(
    all: anyhow::Result<Ended>,
) -> anyhow::Result<(Ended, Option<anyhow::Error>)> {
    match all {
        Ok(ended) => Ok((ended, None)),
        Err(error) => match error.downcast_ref() {
            Some(SetupError::Refused(_)) => Ok((Ended::InUse, Some(error))),
            _ => Err(error),
        },
    }
}

impl From<EngineError> for SetupError {
    fn from(error: EngineError) -> SetupError {
        SetupError::Cannot(error.to_string())
    }
}

/// What will be measured, and what is known of it.
#[derive(Debug)]
pub struct Survey {
    /// The record, with targets and cells, before anything is measured.
    pub record: Record,
    /// The claimed device.
    pub(super) permit: Option<Permit>,
    /// The directories' mounts, by target.
    pub(super) mounts: Vec<(String, MountFacts)>,
    /// What these may take of their filesystems.
    pub(super) shares: Shares,
    /// Directories that fail are told and left out.
    pub(super) all: bool,
    pub(super) overwrite: bool,
    pub(super) insists_on_direct: bool,
    /// The sequential writes that make a drive steady, where a claim asks for them.
    pub(super) fill: Option<CellSpec>,
    /// What confirms that the device may be discarded.
    pub(super) purge: Option<String>,
    /// What runs over time, by target, in the order of `mounts`.
    pub(super) workloads: Vec<(String, Workload)>,
}

/// Looks at everything that `wish` names and plans the cells.
pub fn survey(root: &Root, mut wish: Wish) -> Result<Survey, SetupError> {
    let mut survey = Survey::begin(root, &mut wish)?;
    if let Some(path) = &wish.device {
        pulse::does(&format!("looking at {}", path.display()));
        survey.add_device(root, path, &wish)?;
    }
    let mut directories = match wish.all {
        true => mounted_directories(root)?,
        false => wish.directories.clone(),
    };
    // What is known to answer nothing is told with its remedy; what else doesn't is left out.
    survey.leave_out_stopped(root, &mut directories)?;
    if wish.all {
        directories = survey.answering(root, directories);
    }
    survey.shares = Shares::of(root, &directories);
    for (index, directory) in directories.iter().enumerate() {
        let id = format!("d{index}");
        pulse::does(&format!("looking at {}", directory.display()));
        match survey.add_directory(root, &id, directory, &wish) {
            Err(error) if wish.all => {
                survey.warn(
                    None,
                    format!("{} is left out: {error}", directory.display()),
                );
            }
            other => other?,
        }
    }
    if survey.record.cells.is_empty() && survey.workloads.is_empty() {
        return Err(SetupError::Cannot(match wish.all {
            true => {
                let notes = survey.record.notes.iter().map(|note| note.text.as_str());
                let why: Vec<&str> = notes.collect();
                let why = why.join("; ");
                format!("no mounted filesystem can be measured; see `syncprof list`: {why}")
            }
            false => "there is nothing to measure".to_owned(),
        }));
    }
    survey.tell_double_flush();
    survey.ask_drives(root);
    Ok(survey)
}

/// Sees whether io_uring is to be had, where it is asked for.
fn allow_engines(root: &Root, wish: &mut Wish, notes: &mut Vec<Note>) -> Result<(), SetupError> {
    let is_unused = wish.settings.workload.is_some();
    let wants_uring = |matrix: &Matrix| matrix.engines.contains(&EngineKind::Uring);
    let is_wanted = wants_uring(&wish.settings.matrix) || wish.also.iter().any(wants_uring);
    if is_unused || !is_wanted {
        return Ok(());
    }
    let Err(error) = engine::probe(root) else {
        return Ok(());
    };
    if !wish.fallback {
        return Err(error.into());
    }
    let text = format!("{error}; the engine sync is used instead, as --fallback allows");
    notes.push(Note {
        level: Level::Fallback,
        target: None,
        text,
    });
    for matrix in [&mut wish.settings.matrix]
        .into_iter()
        .chain(&mut wish.also)
    {
        let engines = &mut matrix.engines;
        engines.retain(|engine| *engine != EngineKind::Uring);
        if !engines.contains(&EngineKind::Sync) {
            engines.push(EngineKind::Sync);
        }
    }
    Ok(())
}

pub(super) fn empty_record(root: &Root, wish: &Wish, notes: Vec<Note>) -> Record {
    let settings = &wish.settings;
    Record {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        host: target::host(root),
        run: Run {
            verb: wish.verb.to_owned(),
            command: wish.command.clone(),
            started: jiff::Timestamp::now().to_string(),
            elapsed_ns: 0,
            seed: wish.seed,
            precision: settings.precision,
            budget_ns: settings.budget.as_nanos() as u64,
            min_rounds: match &settings.workload {
                Some(plan) => plan.repeat,
                None => settings.rounds.unwrap_or(MIN_ROUNDS),
            },
            rounds: 0,
            ended: None,
            payload: match (wish.verb, wish.overwrite) {
                ("raw" | "validate" | "durability", false) => Payload::Preserve,
                _ => settings.payload,
            },
        },
        targets: Vec::new(),
        cells: Vec::new(),
        timelines: Vec::new(),
        notes,
        validation: None,
        lab: None,
        drives: Vec::new(),
        durability: wish.durability.clone(),
    }
}

/// Where each filesystem that sits on a block device is mounted, writable: its first mount point.
fn mounted_directories(root: &Root) -> Result<Vec<PathBuf>, SetupError> {
    let mounts = target::mounts(root)
        .map_err(|error| SetupError::Cannot(format!("cannot read the mounts: {error}")))?;
    let mut seen = Vec::new();
    let mut directories = Vec::new();
    for mount in mounts {
        let Some(dev) = mount.block_device else {
            continue;
        };
        if !mount.is_read_only() && Path::new(&mount.mount_point).is_dir() && !seen.contains(&dev) {
            seen.push(dev);
            directories.push(PathBuf::from(mount.mount_point));
        }
    }
    Ok(directories)
}

impl Survey {
    /// Those of `directories` whose filesystem can be looked at: its superblock is read for that.
    fn answering(&mut self, root: &Root, directories: Vec<PathBuf>) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for directory in directories {
            let name = directory.display().to_string();
            pulse::does(&format!("looking at {name}"));
            let (root, path) = (root.clone(), directory.clone());
            match ends_in_time(move || drop(target::mount_of(&root, &path))) {
                true => left.push(directory),
                false => self.warn(None, silent(&name)),
            }
        }
        left
    }

    /// One without targets.
    pub(super) fn begin(root: &Root, wish: &mut Wish) -> Result<Survey, SetupError> {
        let mut notes = Vec::new();
        limits::check([&wish.settings.matrix].into_iter().chain(&wish.also))?;
        limits::check_time(&wish.settings)?;
        allow_engines(root, wish, &mut notes)?;
        Ok(Survey {
            record: empty_record(root, wish, notes),
            permit: None,
            mounts: Vec::new(),
            shares: Shares::default(),
            all: wish.all,
            overwrite: wish.overwrite,
            insists_on_direct: wish.settings.insists_on_direct,
            fill: None,
            purge: None,
            workloads: Vec::new(),
        })
    }

    /// What `--overwrite` of the claimed device must be confirmed with; none if no device was named.
    pub fn confirmations(&self) -> Option<Confirmations> {
        self.permit.as_ref().map(Permit::confirmations)
    }

    pub(super) fn warn(&mut self, target: Option<&str>, text: String) {
        let target = target.map(str::to_owned);
        self.record.notes.push(Note {
            level: Level::Warning,
            target,
            text,
        });
    }

    /// Before a directory is looked at, which could wait for ever: refuses what answers nothing, or of all
    /// filesystems leaves it out.
    fn leave_out_stopped(
        &mut self,
        root: &Root,
        directories: &mut Vec<PathBuf>,
    ) -> Result<(), SetupError> {
        for directory in std::mem::take(directories) {
            let named = directory.display().to_string();
            match target::stopped_below(root, &directory) {
                None => directories.push(directory),
                Some(stopped) if self.all => {
                    let refusal = Refusal::Stopped { named, stopped };
                    self.warn(None, format!("{refusal}; it is left out"));
                }
                Some(stopped) => return Err(Refusal::Stopped { named, stopped }.into()),
            }
        }
        Ok(())
    }

    fn add_device(&mut self, root: &Root, path: &Path, wish: &Wish) -> Result<(), SetupError> {
        let stack = self.claim_device(root, path)?;
        if !wish.compare {
            let plan = device_plan(DEVICE, &stack, wish.overwrite);
            self.add_cells(&plan, wish)?;
        }
        Ok(())
    }

    /// Claims a device and makes it the target [`DEVICE`]; gives its stack.
    pub(super) fn claim_device(
        &mut self,
        root: &Root,
        path: &Path,
    ) -> Result<Vec<DeviceFacts>, SetupError> {
        let permit = guard::check(root, path)?;
        let stack = permit.facts().to_vec();
        let target = device_target(DEVICE, path.display().to_string(), stack.clone());
        self.record.targets.push(target);
        // A lab's image is its own, without a name for others.
        if self.record.run.verb != "lab" {
            permit
                .doubts(!self.overwrite)
                .into_iter()
                .for_each(|doubt| self.warn(Some(DEVICE), doubt));
        }
        self.permit = Some(permit);
        Ok(stack)
    }

    /// Says where the targets lie on what is below them, and asks the drives there what they say of
    /// themselves; gives the first target's stack
    /// with it.
    pub(super) fn ask_drives(&mut self, root: &Root) -> Vec<DeviceFacts> {
        for target in &mut self.record.targets {
            target::locate(root, &mut target.stack);
        }
        let targets = self.record.targets.iter_mut();
        target::ask_drives(root, targets.flat_map(Target::devices_mut));
        let first = self.record.targets.first();
        first.map_or_else(Vec::new, |target| target.stack.clone())
    }

    fn add_directory(
        &mut self,
        root: &Root,
        id: &str,
        directory: &Path,
        wish: &Wish,
    ) -> Result<(), SetupError> {
        let directory = real_directory(directory)?;
        let mount = target::mount_of(root, &directory).map_err(|error| {
            SetupError::Cannot(format!(
                "cannot find the mount of {}: {error}",
                directory.display()
            ))
        })?;
        if mount.is_read_only() {
            return Err(SetupError::Cannot(format!(
                "{}: {} is mounted read-only; mount it writable, or name another directory",
                directory.display(),
                mount.mount_point,
            )));
        }
        let stack = mount
            .block_device
            .and_then(|dev| target::stack(root, dev).ok());
        let stack = stack.unwrap_or_default();
        if let Some(plan) = &wish.settings.workload {
            return self.add_workload(root, (id, &directory), (mount, stack), wish, plan);
        }
        let room = Room::of(self.shares.share(&mount), wish);
        room.check_wish(&directory, wish)?;
        let plan = room.plan(id, &stack, &mount);
        let file_cells = self.add_cells(&plan, wish).map_err(|error| match error {
            SetupError::Usage(text) if wish.directories.len() > 1 => {
                SetupError::Usage(format!("{}: {text}", directory.display()))
            }
            other => other,
        })?;
        let mut target = Target {
            id: id.to_owned(),
            path: directory.display().to_string(),
            kind: TargetKind::Directory,
            stack,
            mount: Some(mount.clone()),
            beside: target::beside(root, &mount),
            idle: None,
            buffered: None,
            nocow: None,
            content: None,
            baseline: None,
            variant: None,
        };
        if wish.compare {
            target.baseline = Some(self.add_baseline(&target, &mount, &file_cells, wish));
        }
        let raw = format!("{id}.raw");
        let specs = self.record.cells.iter().map(|cell| &cell.spec);
        let specs = specs.filter(|spec| spec.target == id || spec.target == raw);
        let needed_bytes = room.check_sets(&directory, &file_sets(specs))?;
        self.shares.promise(&mount, needed_bytes);
        self.record.targets.push(target);
        self.mounts.push((id.to_owned(), mount));
        Ok(())
    }

    /// A raw side driven by plain system calls pays for more than the device: `engine::sync` says
    /// why. A filesystem doesn't do that, so the gap can even turn round.
    fn tell_double_flush(&mut self) {
        let flushes_twice = |spec: &CellSpec| {
            spec.role == Role::Raw
                && spec.axes.engine == EngineKind::Sync
                && matches!(
                    spec.axes.method,
                    Method::ODsync | Method::OSync | Method::RwfDsync
                )
        };
        let cells = self.record.cells.iter();
        let Some(cell) = cells.map(|cell| &cell.spec).find(|s| flushes_twice(s)) else {
            return;
        };
        let target = cell.target.clone();
        let text = format!(
            "raw writes of the engine sync flush once more than those of io_uring: Linux syncs a \
             block device again behind each {} write that a system call waits for",
            cell.axes.method
        );
        self.remark(&target, text);
    }

    fn add_cells(&mut self, plan: &TargetPlan, wish: &Wish) -> Result<Vec<CellSpec>, SetupError> {
        let mut specs: Vec<CellSpec> = Vec::new();
        for matrix in [&wish.settings.matrix].into_iter().chain(&wish.also) {
            let more = plan::cells(matrix, plan);
            let more = more.map_err(|error| SetupError::Usage(error.to_string()))?;
            for spec in more {
                // Two matrices may come to the same cell.
                if !specs.iter().any(|known| known.id == spec.id) {
                    specs.push(spec);
                }
            }
            for skip in plan::skipped(matrix, plan) {
                let text = format!(
                    "{} is left out: {}",
                    show_bytes(skip.size_bytes),
                    skip.reason
                );
                self.remark(&plan.id, text);
            }
        }
        self.record
            .cells
            .extend(specs.iter().cloned().map(Cell::new));
        Ok(specs)
    }

    pub(super) fn remark(&mut self, target: &str, text: String) {
        let target = Some(target.to_owned());
        self.record.notes.push(Note {
            level: Level::Remark,
            target,
            text,
        });
    }
}

fn real_directory(path: &Path) -> Result<PathBuf, SetupError> {
    let usage = |what: String| SetupError::Usage(format!("{}: {what}", path.display()));
    let directory = path.canonicalize().map_err(|error| {
        usage(format!(
            "{error}; name a directory on the filesystem to measure"
        ))
    })?;
    // That may be longer than a path may be.
    let found = directory
        .metadata()
        .map_err(|error| usage(error.to_string()))?;
    if found.is_dir() && directory.to_str().is_none() {
        return Err(usage(
            "its path is not UTF-8, which a record cannot hold; rename it, or bind it to another \
             name (mount --bind)"
                .to_owned(),
        ));
    }
    if found.is_dir() {
        return Ok(directory);
    }
    Err(usage(
        "is not a directory; name one, or use `syncprof raw` for a block device".to_owned(),
    ))
}
