//! A lab's record: those of its variants, one after the other.

use crate::model::record::{Ended, Record, Target, TargetKind};
use crate::model::variant::{Lab, Variant};
use crate::sys::root::Root;

use super::request::RunRequest;
use super::targets::empty_record;

/// The record of a lab before anything is built.
pub fn lab_record(root: &Root, request: &RunRequest, lab: Lab) -> Record {
    Record {
        lab: Some(lab),
        ..empty_record(root, request, Vec::new())
    }
}

/// The record with a variant that was not built.
pub fn add_failed(record: &mut Record, variant: Variant) {
    let index = record.targets.len();
    record.targets.push(Target {
        id: format!("v{index}"),
        path: variant.name.clone(),
        kind: TargetKind::Directory,
        stack: Vec::new(),
        mount: None,
        beside: Vec::new(),
        idle: None,
        buffered: None,
        nocow: None,
        content: None,
        baseline: None,
        variant: Some(variant),
    });
}

/// The record with what was measured on a variant, in a record of its own. Names get a prefix, so that
/// they stay apart.
#[must_use]
pub fn with_variant(record: &Record, variant: &Variant, measured: &Record) -> Record {
    let mut all = record.clone();
    let prefix = format!("v{}.", record.targets.len());
    let named = |id: &str| format!("{prefix}{id}");
    for target in &measured.targets {
        let mut target = target.clone();
        target.id = named(&target.id);
        if target.kind == TargetKind::Directory {
            target.variant = Some(variant.clone());
        }
        if let Some(baseline) = &mut target.baseline {
            baseline.target = baseline.target.as_deref().map(named);
        }
        all.targets.push(target);
    }
    for cell in &measured.cells {
        let mut cell = cell.clone();
        cell.spec.id = named(&cell.spec.id);
        cell.spec.target = named(&cell.spec.target);
        all.cells.push(cell);
    }
    for timeline in &measured.timelines {
        let mut timeline = timeline.clone();
        timeline.target = named(&timeline.target);
        all.timelines.push(timeline);
    }
    // Variants are built on the same disks: from the first one's begin to the last one's end.
    for drive in &measured.drives {
        match all.drives.iter_mut().find(|known| known.dev == drive.dev) {
            Some(known) => known.after.clone_from(&drive.after),
            None => all.drives.push(drive.clone()),
        }
    }
    for note in &measured.notes {
        let mut note = note.clone();
        note.target = note.target.as_deref().map(named);
        if !all.notes.contains(&note) {
            all.notes.push(note);
        }
    }
    let first = record.cells.is_empty() && record.timelines.is_empty();
    all.run.rounds = match first {
        true => measured.run.rounds,
        false => record.run.rounds.min(measured.run.rounds),
    };
    all.run.elapsed_ns += measured.run.elapsed_ns;
    all
}

/// Why a lab ended, from why each variant did: what is said of all holds for the least precise.
pub fn ended(each: &[Ended]) -> Ended {
    const WORST_FIRST: [Ended; 7] = [
        Ended::Interrupted,
        Ended::InUse,
        Ended::Stalled,
        Ended::Changed,
        Ended::Budget,
        Ended::Rounds,
        Ended::Precise,
    ];
    let worst = WORST_FIRST.into_iter().find(|ended| each.contains(ended));
    worst.unwrap_or(Ended::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::BaselineKind;

    fn variant(name: &str) -> Variant {
        Variant {
            name: name.to_owned(),
            ..Variant::default()
        }
    }

    #[test]
    fn variants_stay_apart_and_keep_their_baselines() {
        let measured = Builder::new("lab")
            .device("t0")
            .directory("d0", "/mnt", BaselineKind::Device, Some("t0"))
            .cell("t0", None, 4096, 20e3, 100)
            .cell("d0", Some(FileState::Append), 4096, 80e3, 100)
            .record;
        let mut empty = Builder::new("lab").record;
        add_failed(&mut empty, variant("jfs"));
        let one = with_variant(&empty, &variant("ext4"), &measured);
        let two = with_variant(&one, &variant("xfs"), &measured);
        let ids: Vec<&str> = two.targets.iter().map(|t| t.id.as_str()).collect();
        assert_eq!(ids, ["v0", "v1.t0", "v1.d0", "v3.t0", "v3.d0"]);
        let baseline = two.targets[4].baseline.as_ref().unwrap();
        assert_eq!(baseline.target.as_deref(), Some("v3.t0"));
        assert!(two.targets[3].variant.is_none());
        assert_eq!(two.cells[3].spec.target, "v3.d0");
        assert_eq!(two.run.rounds, measured.run.rounds);
    }

    #[test]
    fn the_least_precise_variant_says_why_a_lab_ended() {
        assert_eq!(ended(&[Ended::Precise, Ended::Budget]), Ended::Budget);
        assert_eq!(ended(&[Ended::Precise]), Ended::Precise);
        assert_eq!(ended(&[]), Ended::Failed);
    }
}
