//! From a claims file to the cells that try it. Nothing is written here: a device is claimed and
//! judged, and what can't be tried is left out, with the reason.

use std::path::PathBuf;

use crate::model::cell::{CellSpec, EngineKind, Method, Pattern, RingOptions};
use crate::model::claims::{
    Claim, Claims, Conditions, DriveState, Figure, Span, Trial, Validation,
};
use crate::model::facts::DeviceFacts;
use crate::model::record::Cell;
use crate::model::units::show_amount;
use crate::plan::comparable::drive_differs;
use crate::plan::{self, Matrix, Settings, Sizes, TargetPlan};
use crate::sys::root::Root;

use super::baseline::{DEVICE, device_plan};
use super::request::{RunRequest, SetupError};
use super::survey::Survey;

/// The queue depth of a rate whose claim leaves it unsaid: deep enough for the channels of a drive.
const RATE_DEPTH: u32 = 32;
/// The size of a throughput's writes whose claim leaves it unsaid: the one of SNIA's throughput test.
const THROUGHPUT_SIZE_BYTES: u64 = 128 << 10;
/// The size of other writes whose claim leaves it unsaid.
const SIZE_BYTES: u64 = 4 << 10;
/// The sequential writes that make a drive steady (SNIA SSS PTS 2.0.2, workload independent
/// preconditioning).
const FILL_SIZE_BYTES: u64 = 128 << 10;

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The command line, for the record.
    pub command: Vec<String>,
    /// The device.
    pub device: PathBuf,
    /// What is claimed.
    pub claims: Claims,
    /// Try what differs from the claims too.
    pub as_if: bool,
    /// The device is written with fresh data.
    pub overwrite: bool,
    /// All of it is discarded first.
    pub purge: bool,
    /// It is written twice over before a claim on its steady state.
    pub fill: bool,
    /// This queue depth, whatever is claimed.
    pub queue_depth: Option<u32>,
    /// This span, whatever is claimed.
    pub span_bytes: Option<u64>,
    /// The run control.
    pub settings: Settings,
    /// Decides the order of cells, random offsets and the payload.
    pub seed: u64,
}

/// Claims the device and plans the cells of each claim. No cell is left where no claim is about the
/// drive.
pub fn survey_claims(root: &Root, request: Trials) -> Result<Survey, SetupError> {
    let mut plain = RunRequest {
        verb: "validate",
        command: request.command.clone(),
        directories: Vec::new(),
        all: false,
        device: None,
        overwrite: request.overwrite,
        compare: false,
        fallback: false,
        also: Vec::new(),
        durability: None,
        settings: request.settings.clone(),
        seed: request.seed,
    };
    let mut survey = Survey::begin(root, &mut plain)?;
    survey.claim_device(root, &request.device)?;
    let stack = survey.ask_drives(root);
    let mut trials = Vec::new();
    for claim in &request.claims.claims {
        let trial = match trial(&mut survey, &request, claim, &stack) {
            Ok(trial) => trial,
            Err(why) => Trial {
                not_run: Some(why),
                ..Trial::default()
            },
        };
        trials.push(trial);
    }
    let wants_fill = survey.record.cells.iter().any(|cell| is_steady(&cell.spec));
    if wants_fill && request.fill {
        survey.fill = Some(fill_cell(&request, &stack)?);
    }
    survey.record.validation = Some(Validation {
        claims: request.claims,
        as_if: request.as_if,
        purged: false,
        trials,
    });
    Ok(survey)
}

/// Plans the cells of one claim; none where drive or state differ from it. Fails with why it can't
/// be run.
fn trial(
    survey: &mut Survey,
    request: &Trials,
    claim: &Claim,
    stack: &[DeviceFacts],
) -> Result<Trial, String> {
    let conditions = &claim.conditions;
    let state = conditions.state;
    let is_fresh = state == Some(DriveState::Fresh) && !request.purge;
    if !request.as_if && (!drive_differs(&request.claims, claim, stack).is_empty() || is_fresh) {
        return Ok(Trial::default());
    }
    let is_steady = state == Some(DriveState::Steady);
    if is_steady && !request.overwrite && !request.as_if {
        return Err(
            "it is about a steady drive, and the writes that make it steady destroy what it holds; \
             allow them with --overwrite"
                .to_owned(),
        );
    }
    let target = device_plan(DEVICE, stack, request.overwrite);
    let span_bytes = span(request, conditions, &target, stack)?;
    let mut specs = Vec::new();
    let method = conditions.method.unwrap_or(Method::None);
    let durable = (method == Method::None).then_some(Method::ODsync);
    for method in [Some(method), durable].into_iter().flatten() {
        let matrix = matrix(request, claim, method, span_bytes);
        let planned = plan::cells(&matrix, &target).map_err(|error| error.to_string())?;
        for mut spec in planned {
            if is_steady && request.overwrite {
                spec.id += STEADY;
            }
            specs.push(add(survey, spec));
        }
    }
    let mut ids = specs.into_iter();
    Ok(Trial {
        cell: ids.next(),
        durable_cell: ids.next(),
        ..Trial::default()
    })
}

impl Survey {
    /// The writes that fill the drive, where a claim asks for them.
    pub fn fill(&self) -> Option<&CellSpec> {
        self.fill.as_ref()
    }

    /// The drive may be discarded, which `word` confirms: whether it is the right one, the guard
    /// decides.
    pub fn purge_confirmed(&mut self, word: String) {
        self.purge = Some(word);
    }
}

/// What the names of cells on a steady drive end in: they share no measurement with others.
const STEADY: &str = "/steady";

pub(super) fn is_steady(spec: &CellSpec) -> bool {
    spec.id.ends_with(STEADY)
}

/// Adds a cell unless there is an equal one already, and gives its `id`.
fn add(survey: &mut Survey, mut spec: CellSpec) -> String {
    let cells = &mut survey.record.cells;
    let mut number = 2;
    let base = spec.id.clone();
    while let Some(known) = cells.iter().find(|cell| cell.spec.id == spec.id) {
        if known.spec.axes == spec.axes {
            return spec.id;
        }
        // Only their spans can differ, which the names of cells leave out.
        spec.id = match base.strip_suffix(STEADY) {
            Some(base) => format!("{base}/span{number}{STEADY}"),
            None => format!("{base}/span{number}"),
        };
        number += 1;
    }
    let id = spec.id.clone();
    cells.push(Cell::new(spec));
    id
}

/// The claim's span, or all that may be written where it leaves it unsaid.
fn span(
    request: &Trials,
    conditions: &Conditions,
    target: &TargetPlan,
    stack: &[DeviceFacts],
) -> Result<u64, String> {
    let most_bytes = target.span_limit_bytes;
    let device_bytes = stack.first().map_or(0, |device| device.size_bytes);
    let wanted_bytes = match (request.span_bytes, conditions.span, conditions.state) {
        (Some(bytes), _, _) | (None, Some(Span::Bytes(bytes)), _) => bytes,
        (None, Some(Span::Whole), _) => device_bytes,
        (None, None, _) => most_bytes,
    };
    if wanted_bytes > device_bytes {
        return Err(format!(
            "its span of {} is more than the {} that the device has",
            show_amount(wanted_bytes),
            show_amount(device_bytes)
        ));
    }
    if wanted_bytes > most_bytes && !request.as_if {
        return Err(format!(
            "its span of {} is more than the {} that can be kept and written back; allow writing \
             other bytes with --overwrite",
            show_amount(wanted_bytes),
            show_amount(most_bytes)
        ));
    }
    Ok(wanted_bytes.min(most_bytes))
}

fn matrix(request: &Trials, claim: &Claim, method: Method, span_bytes: u64) -> Matrix {
    let conditions = &claim.conditions;
    let figure = claim.bound.map(|bound| bound.figure);
    let size_bytes = conditions.size_bytes.unwrap_or(match figure {
        Some(Figure::ThroughputBytesPerS) => THROUGHPUT_SIZE_BYTES,
        _ => SIZE_BYTES,
    });
    // The best for the claim: a latency is shortest with one write in flight.
    let depth = conditions.queue_depth.unwrap_or(match figure {
        Some(figure) if !figure.is_latency() => RATE_DEPTH,
        _ => 1,
    });
    let direct = conditions.direct.unwrap_or(true);
    let depth = request.queue_depth.unwrap_or(depth);
    // io_uring hands buffered writes to worker threads, whose microseconds are not the drive's.
    let waits = !direct && depth == 1 && matches!(method, Method::Fdatasync | Method::Fsync);
    Matrix {
        sizes: Sizes::Given(vec![size_bytes]),
        methods: vec![method],
        direct: vec![direct],
        queue_depths: vec![depth],
        jobs: vec![conditions.jobs.unwrap_or(1)],
        patterns: vec![conditions.pattern.unwrap_or(Pattern::Seq)],
        file_states: Vec::new(),
        engines: vec![if waits {
            EngineKind::Sync
        } else {
            EngineKind::Uring
        }],
        ring: RingOptions::default(),
        span_bytes: Some(span_bytes),
        rates_per_s: vec![None],
    }
}

/// The cell that writes the whole device, or the span that was asked for, in order.
fn fill_cell(request: &Trials, stack: &[DeviceFacts]) -> Result<CellSpec, SetupError> {
    let target = device_plan(DEVICE, stack, true);
    let matrix = Matrix {
        sizes: Sizes::Given(vec![FILL_SIZE_BYTES]),
        methods: vec![Method::None],
        queue_depths: vec![RATE_DEPTH],
        span_bytes: Some(request.span_bytes.unwrap_or(target.span_limit_bytes)),
        ..Matrix::default()
    };
    let cells = plan::cells(&matrix, &target).map_err(|error| {
        SetupError::Usage(format!(
            "preconditioning: {error}; leave it out with --no-precondition"
        ))
    })?;
    cells
        .into_iter()
        .next()
        .ok_or_else(|| SetupError::Cannot("preconditioning has no cell".to_owned()))
}
