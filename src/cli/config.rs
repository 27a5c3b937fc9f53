//! What the arguments mean: a profile under them, and the defaults under that.

use std::path::PathBuf;

use crate::model::cell::FileState;
use crate::plan::lab::LabProfile;
use crate::plan::{self, Options, Settings};

use super::args::{AxesArgs, Control, Lab, Measure};

/// The arguments don't fit together, or a profile is not one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// What the arguments set, over the profile that they name, over the defaults. `trunc` measures the
/// file states `overwrite` and `trunc` beside those that are set.
pub(super) fn settings(measure: &Measure, trunc: bool) -> Result<Settings, UsageError> {
    let Measure { axes, control, .. } = measure;
    let typed = options(axes, control);
    let profile = match &control.profile {
        Some(name) => {
            plan::load(name)
                .map_err(|error| UsageError(error.to_string()))?
                .options
        }
        None => Options::default(),
    };
    let mut settings = typed.over(profile).settings();
    if trunc {
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
    let typed = options(&args.measure.axes, &args.measure.control);
    let settings = typed.over(profile.options.clone()).settings();
    Ok((profile, settings))
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
