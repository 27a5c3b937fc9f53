//! From what is wished for to a record with its targets and cells. Nothing is written here: a
//! device is claimed and judged, directories are looked at.

use std::path::{Path, PathBuf};

use crate::engine::{self};
use crate::guard::{self, Refusal};
use crate::model::cell::{CellSpec, EngineKind, Method, Payload, Role};
use crate::model::facts::DeviceFacts;
use crate::model::record::{Cell, Level, Note, Record, Run, SCHEMA, Target, TargetKind, Tool};
use crate::model::units::show_bytes;
use crate::plan::{self, Matrix, TargetPlan, settings::MIN_ROUNDS};
use crate::sys::pulse;
use crate::sys::root::Root;
use crate::target;

use super::baseline::{DEVICE, device_plan, device_target};
use super::limits;
use super::patience::{ends_in_time, silent};
use super::request::{RunRequest, SetupError};
use super::room::{Room, Shares, file_sets};
use super::survey::Survey;

/// Looks at everything that `request` names and plans the cells.
pub fn survey(root: &Root, mut request: RunRequest) -> Result<Survey, SetupError> {
    let mut survey = Survey::begin(root, &mut request)?;
    if let Some(path) = &request.device {
        pulse::does(&format!("looking at {}", path.display()));
        survey.add_device(root, path, &request)?;
    }
    let mut directories = match request.all {
        true => mounted_directories(root)?,
        false => request.directories.clone(),
    };
    // What is known to answer nothing is told with its remedy; what else doesn't is left out.
    survey.leave_out_stopped(root, &mut directories)?;
    if request.all {
        directories = survey.answering(root, directories);
    }
    survey.shares = Shares::of(root, &directories);
    for (index, directory) in directories.iter().enumerate() {
        let id = format!("d{index}");
        pulse::does(&format!("looking at {}", directory.display()));
        match survey.add_directory(root, &id, directory, &request) {
            Err(error) if request.all => {
                survey.warn(
                    None,
                    format!("{} is left out: {error}", directory.display()),
                );
            }
            other => other?,
        }
    }
    if survey.record.cells.is_empty() && survey.workloads.is_empty() {
        return Err(SetupError::Cannot(match request.all {
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
fn allow_engines(
    root: &Root,
    request: &mut RunRequest,
    notes: &mut Vec<Note>,
) -> Result<(), SetupError> {
    let is_unused = request.settings.workload.is_some();
    let wants_uring = |matrix: &Matrix| matrix.engines.contains(&EngineKind::Uring);
    let is_wanted = wants_uring(&request.settings.matrix) || request.also.iter().any(wants_uring);
    if is_unused || !is_wanted {
        return Ok(());
    }
    let Err(error) = engine::probe(root) else {
        return Ok(());
    };
    if !request.fallback {
        return Err(error.into());
    }
    let text = format!("{error}; the engine sync is used instead, as --fallback allows");
    notes.push(Note {
        level: Level::Fallback,
        target: None,
        text,
    });
    for matrix in [&mut request.settings.matrix]
        .into_iter()
        .chain(&mut request.also)
    {
        let engines = &mut matrix.engines;
        engines.retain(|engine| *engine != EngineKind::Uring);
        if !engines.contains(&EngineKind::Sync) {
            engines.push(EngineKind::Sync);
        }
    }
    Ok(())
}

pub(super) fn empty_record(root: &Root, request: &RunRequest, notes: Vec<Note>) -> Record {
    let settings = &request.settings;
    Record {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        host: target::host(root),
        run: Run {
            verb: request.verb.to_owned(),
            command: request.command.clone(),
            started: jiff::Timestamp::now().to_string(),
            elapsed_ns: 0,
            seed: request.seed,
            precision: settings.precision,
            budget_ns: settings.budget.as_nanos() as u64,
            min_rounds: match &settings.workload {
                Some(plan) => plan.repeat,
                None => settings.rounds.unwrap_or(MIN_ROUNDS),
            },
            rounds: 0,
            ended: None,
            payload: match (request.verb, request.overwrite) {
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
        durability: request.durability.clone(),
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
            let (owned, path) = (root.clone(), directory.clone());
            match ends_in_time(root, None, move || drop(target::mount_of(&owned, &path))) {
                true => left.push(directory),
                false => self.warn(None, silent(&name)),
            }
        }
        left
    }

    /// One without targets.
    pub(super) fn begin(root: &Root, request: &mut RunRequest) -> Result<Survey, SetupError> {
        let mut notes = Vec::new();
        limits::check([&request.settings.matrix].into_iter().chain(&request.also))?;
        limits::check_time(&request.settings)?;
        allow_engines(root, request, &mut notes)?;
        Ok(Survey {
            record: empty_record(root, request, notes),
            permit: None,
            mounts: Vec::new(),
            shares: Shares::default(),
            all: request.all,
            overwrite: request.overwrite,
            insists_on_direct: request.settings.insists_on_direct,
            fill: None,
            purge: None,
            workloads: Vec::new(),
        })
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

    fn add_device(
        &mut self,
        root: &Root,
        path: &Path,
        request: &RunRequest,
    ) -> Result<(), SetupError> {
        let stack = self.claim_device(root, path)?;
        if !request.compare {
            let plan = device_plan(DEVICE, &stack, request.overwrite);
            self.add_cells(&plan, request)?;
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
        request: &RunRequest,
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
        if let Some(plan) = &request.settings.workload {
            return self.add_workload(root, (id, &directory), (mount, stack), request, plan);
        }
        let room = Room::of(self.shares.share(&mount), request);
        room.check_wish(&directory, request)?;
        let plan = room.plan(id, &stack, &mount);
        let file_cells = self
            .add_cells(&plan, request)
            .map_err(|error| match error {
                SetupError::Usage(text) if request.directories.len() > 1 => {
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
        if request.compare {
            target.baseline = Some(self.add_baseline(&target, &mount, &file_cells, request));
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

    fn add_cells(
        &mut self,
        plan: &TargetPlan,
        request: &RunRequest,
    ) -> Result<Vec<CellSpec>, SetupError> {
        let mut specs: Vec<CellSpec> = Vec::new();
        for matrix in [&request.settings.matrix].into_iter().chain(&request.also) {
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
