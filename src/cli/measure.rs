//! `raw`, `file` and `gap`: survey, confirm, prepare, measure, print.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Context;

use crate::model::record::{Level, Record};
use crate::plan::{Settings, WorkloadPlan};
use crate::scratch;
use crate::session::{self, Bench, Pace, RunRequest, Survey, Tracing, WorkloadDirs};
use crate::sys::pulse;
use crate::sys::root::Root;

use super::args::{File, Gap, Measure, Raw, Trace, Writing};
use super::config::{self, Beside, UsageError};
use super::confirm::confirmation;
use super::console::Console;
use super::output::Terminal;
use super::screen::Screen;
use super::{signals, status};

pub(super) fn raw(root: &Root, args: Raw, terminal: &Terminal) -> anyhow::Result<u8> {
    if args.measure.axes.payload.is_some() && !args.writing.overwrite {
        return Err(UsageError(
            "--payload needs --overwrite: without it, the device's own bytes are written back"
                .to_owned(),
        )
        .into());
    }
    if !args.measure.axes.file_state.is_empty() {
        let text = "--file-state says what a file's blocks are like, and a device has no files; use \
                    `syncprof file` or `syncprof gap`";
        return Err(UsageError(text.to_owned()).into());
    }
    let settings = config::settings(&args.measure, Beside::default())?;
    let mut request = request("raw", &args.measure, settings)?;
    request.device = Some(args.device);
    run(root, request, &args.measure, Some(&args.writing), terminal)
}

pub(super) fn file(root: &Root, args: File, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut request = request(
        "file",
        &args.measure,
        config::settings(
            &args.measure,
            Beside {
                trunc: args.trunc,
                workload: Some(&args.workload),
                compare: false,
            },
        )?,
    )?;
    request.directories = args.directories;
    run(root, request, &args.measure, None, terminal)
}

pub(super) fn gap(root: &Root, args: Gap, terminal: &Terminal) -> anyhow::Result<u8> {
    if args.writing.overwrite && args.raw.is_none() {
        return Err(UsageError("--overwrite needs --raw DEVICE".to_owned()).into());
    }
    let mut request = request(
        "gap",
        &args.measure,
        config::settings(
            &args.measure,
            Beside {
                trunc: args.trunc,
                workload: Some(&args.workload),
                compare: true,
            },
        )?,
    )?;
    request.directories = args.directories;
    if request.directories.is_empty() && !args.all {
        request.directories.push(PathBuf::from("."));
    }
    request.all = args.all;
    request.device = args.raw;
    request.compare = true;
    run(root, request, &args.measure, Some(&args.writing), terminal)
}

pub(super) fn request(
    verb: &'static str,
    measure: &Measure,
    settings: Settings,
) -> anyhow::Result<RunRequest> {
    Ok(RunRequest {
        verb,
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        directories: Vec::new(),
        all: false,
        device: None,
        overwrite: false,
        compare: false,
        fallback: measure.control.fallback,
        settings,
        seed: measure
            .control
            .seed
            .unwrap_or_else(|| fastrand::u64(..) >> 32),
        also: Vec::new(),
        durability: None,
    })
}

/// Surveys, asks for the confirmation that is needed, measures in rounds and prints.
pub(super) fn run(
    root: &Root,
    mut request: RunRequest,
    measure: &Measure,
    writing: Option<&Writing>,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let stop = signals::watch().context("cannot watch for signals")?;
    request.overwrite = writing.is_some_and(|writing| writing.overwrite);
    let rounds = request.settings.rounds;
    let workload = request.settings.workload.clone();
    let tracing = tracing(measure);
    let json = measure.output.json.as_deref();
    let survey = session::survey(root, request)?;
    // Whose devices they are, for whoever watches.
    pulse::keep(&serde_json::to_vec(&survey.record)?);
    if measure.control.dry_run {
        terminal.print(&cells_text(&survey))?;
        return Ok(status::MEASURED);
    }
    let state = usable_state_folder(terminal);
    tell_leftovers(root, state.as_deref(), terminal);
    let confirmed = confirmation(survey.confirmations(), writing, &stop)?;
    let confirmed = confirmed
        .as_ref()
        .map(|(word, force)| (word.as_str(), *force));
    if let Some(plan) = workload {
        let prepared = session::prepare_workloads(root, survey, confirmed, state.as_deref(), &stop);
        let (record, grounds) = prepared?;
        let console = Console::open(root, state.as_deref(), json, &record, terminal)?;
        return over_time(console, (record, grounds), &plan, &stop);
    }
    let (mut record, places) = session::prepare(root, survey, confirmed, state.as_deref(), &stop)?;
    let console = Console::open(root, state.as_deref(), json, &record, terminal)?;
    let pace = Pace {
        budget_ns: record.run.budget_ns,
        min_rounds: record.run.min_rounds,
        rounds,
    };
    let mut bench = Bench::new(root, &mut record, places, &stop, tracing)?;
    let mut screen = Screen::new(terminal, &console.saver, &stop, &record, rounds);
    let measured = session::run(&mut record, &mut bench, &pace, &mut screen);
    let unsaved = screen.unsaved();
    drop(bench);
    console.close(&record, measured, unsaved)
}

/// Keeps and prints a record that is whole.
pub(super) fn tell(
    root: &Root,
    measure: &Measure,
    record: &Record,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    let state = usable_state_folder(terminal);
    let json = measure.output.json.as_deref();
    Console::open(root, state.as_deref(), json, record, terminal)?.close(record, Ok(()), None)
}

/// Runs workloads over time.
fn over_time(
    console: Console<'_>,
    (mut record, mut grounds): (Record, WorkloadDirs),
    plan: &WorkloadPlan,
    stop: &AtomicBool,
) -> anyhow::Result<u8> {
    let mut screen = Screen::new(console.terminal, &console.saver, stop, &record, None);
    let measured = session::run_workloads(
        console.root,
        &mut record,
        &mut grounds,
        plan,
        stop,
        &mut screen,
    );
    let unsaved = screen.unsaved();
    drop(grounds);
    console.close(&record, measured, unsaved)
}

/// Whether to trace, as it was typed.
pub(super) fn tracing(measure: &Measure) -> Tracing {
    match measure.control.trace {
        Trace::Auto => Tracing::Auto,
        Trace::On => Tracing::On,
        Trace::Off => Tracing::Off,
    }
}

pub(super) fn cells_text(survey: &Survey) -> String {
    let cells = survey.record.cells.iter().map(|cell| cell.spec.id.clone());
    let all = cells.chain(survey.workload_names());
    all.map(|name| name + "\n").collect()
}

/// The state folder, made if it isn't there. Where it can't be, that is told: records are then kept
/// only where `--json` says, and `syncprof clean` must be told where to look.
pub(super) fn usable_state_folder(terminal: &Terminal) -> Option<PathBuf> {
    let made = config::state_folder().context("neither XDG_STATE_HOME nor HOME is set");
    let made = made.and_then(|folder| {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        try_out(&folder).with_context(|| format!("cannot write in {}", folder.display()))?;
        Ok(folder)
    });
    match made {
        Ok(folder) => Some(folder),
        Err(error) => {
            let text = format!("no state folder: {error:#}; keep the record with --json FILE");
            terminal.say(Level::Warning, &text);
            None
        }
    }
}

/// Writes a file there and removes it. A new one: the folder may be somebody else's, as that of the
/// user is who called sudo(8), and a link that they laid there would be followed.
fn try_out(folder: &Path) -> io::Result<()> {
    let name = format!(".{}-{:08x}.tmp", std::process::id(), fastrand::u32(..));
    write_new(&folder.join(name))
}

fn write_new(path: &Path) -> io::Result<()> {
    let written = fs::File::create_new(path)?.write_all(b"syncprof");
    written.and(fs::remove_file(path))
}

fn tell_leftovers(root: &Root, state: Option<&Path>, terminal: &Terminal) {
    let left = scratch::find(root, state, &[]);
    if !left.is_empty() {
        let text = format!(
            "an earlier run left {} scratch folder{} behind; `syncprof clean` removes them",
            left.len(),
            if left.len() == 1 { "" } else { "s" },
        );
        terminal.say(Level::Warning, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_folder_follows_no_link_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        try_out(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let (precious, link) = (folder.path().join("precious"), folder.path().join("link"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let error = write_new(&link).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
