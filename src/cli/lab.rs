//! `lab`: builds one filesystem after the other, measures each, prints the ranking.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::lab::{self, BuildError, MountPoint, Site, Stack};
use crate::model::cell::Role;
use crate::model::record::{Ended, Level, Note, Record};
use crate::model::variant::{self, Variant};
use crate::plan::lab::LabProfile;
use crate::plan::{self, Settings, TargetPlan, WorkloadPlan};
use crate::session::{
    self, Bench, Hooks, Pace, Progress, RunRequest, SetupError, Survey, TimelineProgress,
    TimelineWatch,
};
use crate::sys::root::Root;

use super::args::Lab;
use super::config::{self, UsageError};
use super::console::Console;
use super::lab_storage::LabStorage;
use super::measure::{self, tracing};
use super::output::Terminal;
use super::screen::Screen;
use super::{signals, status};

pub(super) fn run(root: &Root, args: Lab, terminal: &Terminal) -> anyhow::Result<u8> {
    let (profile, settings) = config::lab(&args)?;
    if args.measure.control.dry_run {
        terminal.print(&dry_run(&profile, &settings)?)?;
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
    let ground = LabStorage::prepare(root, &args, &profile, &settings, &state, &stop)?;
    let place = MountPoint::make(&state)
        .with_context(|| format!("cannot make a folder to mount on in {}", state.display()))?;
    let request = measure::request("lab", &args.measure, settings)?;
    let told = variant::Lab {
        profile: profile.name.clone(),
        question: profile.question.clone(),
        scratch: ground.describe(),
        is_image: ground.is_image(),
        remedies: profile.remedies.clone(),
    };
    let mut record = session::lab_record(root, &request, told);
    record.notes = ground.notes()?;
    let json = args.measure.output.json.as_deref();
    let console = Console::open(root, Some(&state), json, &record, terminal)?;
    let mut run = Run {
        root,
        args: &args,
        ground: &ground,
        place: &place,
        stop: &stop,
        begun: Instant::now(),
        ended: Vec::new(),
    };
    let mut screen = Screen::new(
        terminal,
        &console.saver,
        &stop,
        &record,
        request.settings.rounds,
    );
    let measured = run.all(&mut record, &profile.variants, &request, &mut screen);
    let unsaved = screen.unsaved();
    let ended = console.close(&record, measured, unsaved)?;
    let mut variants = record.targets.iter().filter_map(|t| t.variant.as_ref());
    Ok(match ended {
        status::MEASURED if variants.any(|variant| variant.failed.is_some()) => status::FAILED,
        other => other,
    })
}

/// The commands of each variant, then the cells that each gets. What a filesystem can't take is
/// known once it is made.
fn dry_run(profile: &LabProfile, settings: &Settings) -> Result<String, UsageError> {
    let (device, journal) = (Path::new("DEVICE"), Path::new("JOURNAL"));
    let variants = profile.variants.iter().map(|variant| {
        let commands = lab::commands(variant, device, Some(journal));
        format!("{}: {}\n", variant.name, commands.join("; "))
    });
    if let Some(workload) = &settings.workload {
        let workload = format!("each {}\n", workload.workload.kind());
        return Ok(variants.chain([workload]).collect());
    }
    let target = TargetPlan {
        id: "each".to_owned(),
        role: Role::File,
        logical_block_bytes: 1,
        span_limit_bytes: u64::MAX,
    };
    let cells = plan::cells(&settings.matrix, &target);
    let cells = cells.map_err(|error| UsageError(error.to_string()))?;
    let cells = cells.iter().map(|cell| format!("{}\n", cell.id));
    Ok(variants.chain(cells).collect())
}

/// A lab that runs.
struct Run<'a> {
    root: &'a Root,
    args: &'a Lab,
    ground: &'a LabStorage,
    place: &'a MountPoint,
    stop: &'a Arc<AtomicBool>,
    begun: Instant,
    /// Why each variant so far ended.
    ended: Vec<Ended>,
}

impl Run<'_> {
    fn all(
        &mut self,
        record: &mut Record,
        variants: &[Variant],
        request: &RunRequest,
        screen: &mut Screen<'_>,
    ) -> anyhow::Result<()> {
        for (index, variant) in variants.iter().enumerate() {
            if self.ended.contains(&Ended::Interrupted) {
                break;
            }
            let left = request.settings.budget.saturating_sub(self.begun.elapsed());
            let share = left / (variants.len() - index) as u32;
            self.one(record, variant, request, share, screen)?;
        }
        record.run.ended = Some(session::ended(&self.ended));
        screen.after_round(record)
    }

    /// Builds a variant, measures it, takes it down. What goes wrong is the variant's, and told in
    /// its row.
    fn one(
        &mut self,
        record: &mut Record,
        variant: &Variant,
        request: &RunRequest,
        budget: Duration,
        screen: &mut Screen<'_>,
    ) -> anyhow::Result<()> {
        let (device, journal) = self.ground.devices()?;
        let site = Site {
            device,
            journal,
            place: self.place,
            verify: &|| self.ground.verify(),
        };
        let mut variant = variant.clone();
        let built = lab::build(self.root, &variant, &site, self.stop);
        let stack = match built {
            Ok(stack) => stack,
            Err(BuildError::Interrupted) => {
                self.ended.push(Ended::Interrupted);
                return Ok(());
            }
            Err(error) => {
                variant.failed = Some(error.to_string());
                session::add_failed(record, variant);
                return Ok(());
            }
        };
        variant.commands.clone_from(&stack.commands);
        variant.mkfs_version.clone_from(&stack.mkfs_version);
        match self.measure(record, &variant, request, budget, screen) {
            Ok(measured) => *record = measured,
            Err(error) => match error.downcast_ref::<SetupError>() {
                Some(SetupError::Interrupted) => self.ended.push(Ended::Interrupted),
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
        request: &RunRequest,
        budget: Duration,
        screen: &mut Screen<'_>,
    ) -> anyhow::Result<Record> {
        let raw = self.ground.raw();
        let mut request = request.clone();
        request.directories = vec![self.place.path().to_owned()];
        request.device = raw.as_ref().map(|(node, _)| (*node).to_owned());
        request.overwrite = raw.is_some();
        request.compare = true;
        request.settings.budget = budget;
        let workload = request.settings.workload.clone();
        let survey = session::survey(self.root, request)?;
        let confirmed = raw.as_ref().map(|(_, word)| (word.as_str(), true));
        let mut hooks = OneOfMany {
            screen,
            record,
            variant,
        };
        let measured = match workload {
            Some(plan) => self.over_time(survey, confirmed, &plan, &mut hooks)?,
            None => self.cells(survey, confirmed, &mut hooks)?,
        };
        self.ended.extend(measured.run.ended);
        Ok(session::with_variant(record, variant, &measured))
    }

    /// Measures cells. Nothing outlives the mount, so the scratch folder needs no entry elsewhere.
    fn cells(
        &self,
        survey: Survey,
        confirmed: Option<(&str, bool)>,
        hooks: &mut OneOfMany<'_, '_>,
    ) -> anyhow::Result<Record> {
        let (mut measured, places) =
            session::prepare(self.root, survey, confirmed, None, self.stop)?;
        let pace = Pace {
            budget_ns: measured.run.budget_ns,
            min_rounds: measured.run.min_rounds,
            rounds: self.args.measure.control.rounds,
        };
        let tracing = tracing(&self.args.measure);
        let mut bench = Bench::new(self.root, &mut measured, places, self.stop, tracing)?;
        session::run(&mut measured, &mut bench, &pace, hooks)?;
        Ok(measured)
    }

    /// Runs a workload over time; like [`Run::cells`].
    fn over_time(
        &self,
        survey: Survey,
        confirmed: Option<(&str, bool)>,
        plan: &WorkloadPlan,
        watch: &mut OneOfMany<'_, '_>,
    ) -> anyhow::Result<Record> {
        let (mut measured, mut grounds) =
            session::prepare_workloads(self.root, survey, confirmed, None, self.stop)?;
        let (root, stop) = (self.root, self.stop);
        session::run_workloads(root, &mut measured, &mut grounds, plan, stop, watch)?;
        Ok(measured)
    }
}

/// Saves the whole lab's record after each round or stretch of a variant.
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

impl TimelineWatch for OneOfMany<'_, '_> {
    fn tick(&mut self, progress: &TimelineProgress<'_>) {
        self.screen.tick(progress);
    }

    fn after_stretch(&mut self, record: &Record) -> anyhow::Result<()> {
        let all = session::with_variant(self.record, self.variant, record);
        self.screen.after_stretch(&all)
    }
}
