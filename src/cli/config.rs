//! What the arguments mean: a profile under them, and the defaults under that.

use std::path::PathBuf;

use crate::model::cell::FileState;
use crate::plan::lab::LabProfile;
use crate::plan::{self, Options, Settings, WorkloadOptions, WorkloadPlan};

use super::args::{AxesArgs, Control, Lab, Measure, Trace, WorkloadArgs};

/// The arguments don't fit together, or a profile is not one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// What is asked for beside the arguments that all verbs have.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'a> {
    /// Measures the file states `overwrite` and `trunc` beside those that are set.
    pub(super) trunc: bool,
    /// A workload in place of cells, for verbs that can.
    pub(super) workload: Option<&'a WorkloadArgs>,
    /// Both sides are measured.
    pub(super) compare: bool,
}

/// What the arguments set, over the profile that they name, over the defaults.
pub(super) fn settings(measure: &Measure, beside: Beside<'_>) -> Result<Settings, UsageError> {
    let Measure { axes, control, .. } = measure;
    let mut typed = options(axes, control);
    if let Some(workload) = beside.workload {
        typed.workload = workload_options(workload);
    }
    let profile = match &control.profile {
        Some(name) => {
            plan::load(name)
                .map_err(|error| UsageError(error.to_string()))?
                .options
        }
        None => Options::default(),
    };
    let options = typed.over(profile);
    let workload = plan::workload(&options, beside.compare);
    let workload = workload.map_err(|error| UsageError(error.to_string()))?;
    if let Some(workload) = &workload {
        check_workload(workload, control, beside)?;
    }
    let mut settings = options.settings();
    settings.workload = workload;
    settings.insists_on_direct = axes.direct.contains(&true);
    if beside.trunc {
        let states = &mut settings.matrix.file_states;
        for state in [FileState::Overwrite, FileState::Trunc] {
            if !states.contains(&state) {
                states.push(state);
            }
        }
    }
    Ok(settings)
}

/// The lab profile that is named, and what is measured on each variant.
pub(super) fn lab(args: &Lab) -> Result<(LabProfile, Settings), UsageError> {
    if args.measure.control.profile.is_some() {
        return Err(UsageError(
            "a lab takes its profile by name or path, without --profile".to_owned(),
        ));
    }
    if args.writing.overwrite && args.device.is_none() {
        return Err(UsageError("--overwrite needs --device DEVICE".to_owned()));
    }
    let profile = plan::lab::load(&args.lab).map_err(|error| UsageError(error.to_string()))?;
    let mut typed = options(&args.measure.axes, &args.measure.control);
    typed.workload = workload_options(&args.workload);
    let mut options = typed.over(profile.options.clone());
    let mut settings = options.clone().settings();
    settings.insists_on_direct = args.measure.axes.direct.contains(&true);
    // Of the time that there is, each variant has its share.
    let count = u32::try_from(profile.variants.len()).unwrap_or(u32::MAX);
    options.budget = Some(settings.budget / count.max(1));
    let workload = plan::workload(&options, true);
    settings.workload = workload.map_err(|error| UsageError(error.to_string()))?;
    if let Some(workload) = &settings.workload {
        let beside = Beside {
            workload: Some(&args.workload),
            ..Beside::default()
        };
        check_workload(workload, &args.measure.control, beside)?;
    }
    Ok((profile, settings))
}

/// What a workload has no use for.
fn check_workload(
    plan: &WorkloadPlan,
    control: &Control,
    beside: Beside<'_>,
) -> Result<(), UsageError> {
    let kind = plan.workload.kind();
    if beside.workload.is_none() {
        let text =
            format!("the profile has workload {kind}, which needs files: use `syncprof file`");
        return Err(UsageError(text));
    }
    let useless = [
        (beside.trunc, "--trunc"),
        (control.fallback, "--fallback"),
        (control.trace == Trace::On, "--trace on"),
    ];
    match useless.iter().find(|(is_set, _)| *is_set) {
        None => Ok(()),
        Some((_, name)) => Err(UsageError(format!(
            "{name} doesn't apply to workload {kind}: leave it out"
        ))),
    }
}

fn workload_options(args: &WorkloadArgs) -> WorkloadOptions {
    WorkloadOptions {
        kind: args.workload,
        clients: args.clients,
        group_commit: args.group_commit.then_some(true),
        checkpoint_interval: args.checkpoint_interval,
        checkpoint_spread: args.checkpoint_spread,
        data_bytes: args.data,
        dirty_pages_per_s: args.dirty,
        file_bytes: args.file_size,
        pause: args.pause,
        segment_bytes: args.segment_size,
        duration: args.duration,
        repeat: args.repeat,
    }
}

fn options(axes: &AxesArgs, control: &Control) -> Options {
    fn given<T: Clone>(list: &[T]) -> Option<Vec<T>> {
        (!list.is_empty()).then(|| list.to_vec())
    }
    Options {
        sizes: given(&axes.sizes),
        method: given(&axes.method),
        direct: given(&axes.direct),
        queue_depth: given(&axes.queue_depth),
        jobs: given(&axes.jobs),
        pattern: given(&axes.pattern),
        file_state: given(&axes.file_state),
        engine: given(&axes.engine),
        span_bytes: axes.span,
        rate_per_s: given(&axes.rate),
        payload: axes.payload,
        precision: control.precision,
        budget: control.budget,
        rounds: control.rounds,
        sqpoll: axes.sqpoll.then_some(true),
        iopoll: axes.iopoll.then_some(true),
        workload: WorkloadOptions::default(),
    }
}

/// The folder for records and for entries of scratch folders: `$XDG_STATE_HOME/syncprof`, by
/// default `~/.local/state/syncprof` (XDG Base Directory Specification). None where neither
/// variable is set.
pub(super) fn state_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME");
    let state = state.or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("syncprof"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Verb};
    use crate::model::cell::Method;

    fn gap(typed: &[&str], trunc: bool) -> Result<Settings, UsageError> {
        let cli = Cli::parse_from(["syncprof", "gap"].iter().chain(typed));
        let Verb::Gap(args) = cli.verb else {
            panic!("not gap")
        };
        let beside = Beside {
            trunc,
            workload: Some(&args.workload),
            compare: true,
        };
        settings(&args.measure, beside)
    }

    #[test]
    fn what_nobody_sets_has_its_default() {
        assert_eq!(gap(&[], false).unwrap(), Options::default().settings());
    }

    #[test]
    fn what_is_typed_wins_over_the_profile_that_fills_the_rest() {
        for profile in plan::profile::built_in().unwrap() {
            let untouched = gap(&["--profile", &profile.name], false).unwrap();
            assert_eq!(untouched, profile.options.clone().settings());
            let typed = [
                "--profile",
                &profile.name,
                "--method",
                "fsync",
                "--budget",
                "7s",
            ];
            let mut wanted = untouched;
            wanted.matrix.methods = vec![Method::Fsync];
            wanted.budget = std::time::Duration::from_secs(7);
            assert_eq!(gap(&typed, false).unwrap(), wanted);
        }
    }

    #[test]
    fn trunc_is_measured_beside_overwrite_and_typed_direct_insists() {
        let settings = gap(&["--file-state", "append,trunc", "--direct", "on"], true).unwrap();
        let states = [FileState::Append, FileState::Trunc, FileState::Overwrite];
        assert_eq!(settings.matrix.file_states, states);
        assert!(settings.insists_on_direct);
    }

    #[test]
    fn a_workload_takes_no_option_of_cells() {
        let error = gap(&["--workload", "churn", "--trace", "on"], false).unwrap_err();
        let wanted = "--trace on doesn't apply to workload churn: leave it out";
        assert_eq!(error.to_string(), wanted);
    }
}
