//! `validate`: survey, confirm, prepare, try each claim, judge.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::analyse::verdict;
use crate::model::cell::Payload;
use crate::model::record::{Cell, Ended, Record};
use crate::plan::claims;
use crate::plan::settings::MIN_ROUNDS;
use crate::plan::{Matrix, Settings};
use crate::session::{
    self, Bench, Pace, SetupError, Survey, Tracing, TrialPlan, Trials, WriteTarget,
};
use crate::sys::pulse;
use crate::sys::root::Root;

use super::args::{TrialControl, Validate};
use super::config::UsageError;
use super::confirm;
use super::console::Console;
use super::measure::{cells_text, usable_state_folder};
use super::output::Terminal;
use super::trial::Trying;
use super::{signals, status};

pub(super) fn run(root: &Root, args: Validate, terminal: &Terminal) -> anyhow::Result<u8> {
    let stop = signals::watch().context("cannot watch for signals")?;
    let trials = trials(&args)?;
    let mut survey = session::survey_claims(root, trials)?;
    if args.control.dry_run {
        terminal.print(&cells_text(&survey))?;
        return Ok(status::MEASURED);
    }
    let state = usable_state_folder(terminal);
    let json = args.output.json.as_deref();
    let (record, ended) = match survey.record.cells.is_empty() {
        // No claim is to be run: only the verdicts that need no measurement.
        true => {
            let mut record = survey.record;
            record.run.ended = Some(Ended::Precise);
            let console = Console::open(root, state.as_deref(), json, &record, terminal)?;
            let ended = console.close(&record, Ok(()), None)?;
            (record, ended)
        }
        false => {
            let confirmed =
                confirm::confirmation(survey.confirmations(), Some(&args.writing), &stop)?;
            if args.state.purge {
                let word = confirm::purge(
                    survey.confirmations(),
                    args.state.confirm_purge.clone(),
                    &stop,
                )?;
                survey.purge_confirmed(word);
            }
            measured(
                root,
                survey,
                confirmed,
                &args,
                state.as_deref(),
                &stop,
                terminal,
            )?
        }
    };
    let fails = verdict::verdicts(&record)
        .iter()
        .any(|verdict| verdict.passed == Some(false));
    Ok(match ended {
        status::MEASURED if fails => status::FAILED,
        other => other,
    })
}

fn trials(args: &Validate) -> anyhow::Result<Trials> {
    let TrialControl {
        queue_depth,
        span,
        precision,
        budget,
        rounds,
        payload,
        seed,
        ..
    } = args.control;
    let claims = claims::load(&args.claims).map_err(|error| UsageError(error.to_string()))?;
    Ok(Trials {
        command: std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
        device: args.device.clone(),
        claims,
        as_if: args.as_if,
        overwrite: args.writing.overwrite,
        purge: args.state.purge,
        fill: !args.state.no_precondition,
        queue_depth,
        span_bytes: span,
        settings: Settings {
            matrix: Matrix::default(),
            payload: payload.unwrap_or(Payload::Random),
            precision,
            budget,
            rounds,
            min_rounds: rounds.unwrap_or(MIN_ROUNDS),
            insists_on_direct: false,
            workload: None,
        },
        seed: seed.unwrap_or_else(|| fastrand::u64(..) >> 32),
    })
}

/// Tries the claims, and tells what came of it: the record, and the exit status so far.
fn measured(
    root: &Root,
    survey: Survey,
    confirmed: Option<(String, bool)>,
    args: &Validate,
    state: Option<&Path>,
    stop: &AtomicBool,
    terminal: &Terminal,
) -> anyhow::Result<(Record, u8)> {
    let fill = survey.fill().cloned();
    let rounds = args.control.rounds;
    let confirmed = confirmed
        .as_ref()
        .map(|(word, force)| (word.as_str(), *force));
    let (mut record, places) = session::prepare(root, survey, confirmed, state, stop)?;
    let json = args.output.json.as_deref();
    let console = Console::open(root, state, json, &record, terminal)?;
    let saver = &console.saver;
    let mut trying = Trying::new(
        terminal,
        saver,
        stop,
        &record,
        args.state.steady_round,
        rounds,
    );
    purge(&mut record, &places, &trying, stop)?;
    let cells = record.cells.len();
    let course = TrialPlan {
        pace: Pace {
            budget_ns: record.run.budget_ns,
            min_rounds: record.run.min_rounds,
            rounds,
        },
        fill: fill
            .as_ref()
            .map(|spec| (cells, spec.axes.span_bytes, spec.axes.size_bytes)),
        round_ns: args.state.steady_round.as_nanos() as u64,
    };
    // The cell that fills the drive is the slicer's alone: nothing of it is measured.
    record.cells.extend(fill.map(Cell::new));
    let bench = Bench::new(root, &mut record, places, stop, Tracing::Off);
    record.cells.truncate(cells);
    let tried = session::validate(&mut record, &mut bench?, &course, &mut trying);
    let unsaved = trying.unsaved();
    let ended = console.close(&record, tried, unsaved)?;
    Ok((record, ended))
}

/// Discards the device, if that was allowed.
fn purge(
    record: &mut Record,
    places: &[(String, WriteTarget)],
    trying: &Trying<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let more = |done_bytes: u64| {
        trying.purging(done_bytes);
        pulse::beat();
        !stop.load(Ordering::Relaxed)
    };
    for (_, place) in places {
        let purged = session::purge(place, &more).map_err(SetupError::Refused)?;
        if stop.load(Ordering::Relaxed) {
            return Err(SetupError::Interrupted.into());
        }
        if let Some(validation) = &mut record.validation {
            validation.purged = purged;
        }
    }
    Ok(())
}
