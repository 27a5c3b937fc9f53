//! What a workload will need on a filesystem, and what it is compared with.

use std::path::Path;

use crate::engine;
use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::record::{Baseline, BaselineKind, Target, TargetKind};
use crate::model::timeline::{Checkpoint, Workload};
use crate::model::units::{show_amount, show_bytes};
use crate::plan::WorkloadPlan;
use crate::session::baseline::{DEVICE, device_target, no_baseline};
use crate::session::request::{RunRequest, SetupError};
use crate::session::room::Share;
use crate::session::survey::Survey;
use crate::sys::root::Root;
use crate::target;

/// A data file smaller than this is not worth checkpointing.
const LEAST_DATA_BYTES: u64 = 16 << 20;
/// Files that were removed take their room until the journal says so: twice what is there at a time.
const CHURNED_FILES: u64 = 2;

impl Survey {
    /// Plans `plan` at a directory.
    pub(in crate::session) fn add_workload(
        &mut self,
        root: &Root,
        (id, directory): (&str, &Path),
        (mount, stack): (MountFacts, Vec<DeviceFacts>),
        request: &RunRequest,
        plan: &WorkloadPlan,
    ) -> Result<(), SetupError> {
        let workload = fitted(plan, directory, &self.shares.share(&mount))?;
        check_raw(&workload, request)?;
        self.shares.promise(&mount, needed_bytes(&workload));
        if let (Workload::Checkpoint(fitted), Workload::Checkpoint(asked)) =
            (&workload, &plan.workload)
            && fitted.data_bytes < asked.data_bytes
        {
            let text = format!(
                "the data file has {}, which is what there is room for; --data gives another size",
                show_bytes(fitted.data_bytes)
            );
            self.remark(id, text);
        }
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
            target.baseline =
                Some(self.workload_baseline(root, &target, &mount, &workload, request));
        }
        self.record.targets.push(target);
        self.workloads.push((id.to_owned(), workload));
        self.mounts.push((id.to_owned(), mount));
        Ok(())
    }

    fn workload_baseline(
        &mut self,
        root: &Root,
        directory: &Target,
        mount: &MountFacts,
        workload: &Workload,
        request: &RunRequest,
    ) -> Baseline {
        if matches!(workload, Workload::Churn(_)) {
            return no_baseline(
                "churn makes and removes files, which a device doesn't have".to_owned(),
                "use `syncprof file`, and compare filesystems with each other".to_owned(),
            );
        }
        if let Err(error) = engine::probe(root) {
            return no_baseline(
                format!("the device's side writes by io_uring, which is not to be had: {error}"),
                "use `syncprof file`".to_owned(),
            );
        }
        if request.device.is_some() {
            return baseline(BaselineKind::Device, DEVICE.to_owned());
        }
        if mount.block_device.is_none() || directory.stack.is_empty() {
            let reason = format!("{} is not on one block device", mount.fs_type);
            return no_baseline(reason, "name a spare device with --raw DEVICE".to_owned());
        }
        let id = format!("{}.raw", directory.id);
        let path = format!("/dev/{}", directory.stack[0].name);
        let target = device_target(&id, path, directory.stack.clone());
        self.record.targets.push(target);
        baseline(BaselineKind::Extents, id)
    }
}

/// What is there on a device can't be written in groups: each record has its own place and bytes.
fn check_raw(workload: &Workload, request: &RunRequest) -> Result<(), SetupError> {
    let is_grouped = matches!(workload, Workload::Checkpoint(shape) if shape.group_commit);
    if is_grouped && request.device.is_some() && !request.overwrite {
        return Err(SetupError::Usage(
            "--group-commit with --raw needs --overwrite: without it, the device's own bytes are \
             written back, record by record"
                .to_owned(),
        ));
    }
    Ok(())
}

fn baseline(kind: BaselineKind, target: String) -> Baseline {
    Baseline {
        kind,
        target: Some(target),
        reason: None,
        remedy: None,
    }
}

/// The workload with a data file that the filesystem has room for. Refuses one that doesn't fit.
fn fitted(plan: &WorkloadPlan, directory: &Path, share: &Share) -> Result<Workload, SetupError> {
    let workload = plan.workload.clone();
    let allowed_bytes = share.allowed_bytes;
    let workload = match workload {
        Workload::Checkpoint(asked) if !plan.is_data_given => {
            Workload::Checkpoint(fit_data(asked, allowed_bytes))
        }
        other => other,
    };
    let needed_bytes = needed_bytes(&workload);
    if needed_bytes <= allowed_bytes {
        return Ok(workload);
    }
    let smaller = match workload {
        Workload::Checkpoint(_) => "--data",
        Workload::Churn(_) => "--file-size",
        Workload::WalAppend(_) => "--segment-size",
    };
    Err(SetupError::Cannot(format!(
        "{}: the workload needs {}, but {}; ask for less with {smaller}, or free some space",
        directory.display(),
        show_amount(needed_bytes),
        share.rule(),
    )))
}

fn fit_data(asked: Checkpoint, allowed_bytes: u64) -> Checkpoint {
    let room_bytes = allowed_bytes.saturating_sub(asked.log_bytes);
    let fitting_bytes = room_bytes / asked.page_bytes * asked.page_bytes;
    Checkpoint {
        data_bytes: asked.data_bytes.min(fitting_bytes.max(LEAST_DATA_BYTES)),
        ..asked
    }
}

/// The most that a workload's files take at a time.
fn needed_bytes(workload: &Workload) -> u64 {
    match workload {
        Workload::Checkpoint(checkpoint) => {
            checkpoint.log_bytes.saturating_add(checkpoint.data_bytes)
        }
        Workload::Churn(churn) => churn.file_bytes.saturating_mul(CHURNED_FILES),
        Workload::WalAppend(wal) => {
            // Recycled ones, and as many that are made anew with the one that is being written.
            let segments = u64::from(2 * wal.kept_segments + 1);
            wal.segment_bytes.saturating_mul(segments)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::WorkloadKind;
    use crate::plan::{Options, WorkloadOptions, workload};
    use crate::session::room::Shares;

    fn plan(kind: WorkloadKind, data_bytes: Option<u64>) -> WorkloadPlan {
        let options = Options {
            workload: WorkloadOptions {
                kind: Some(kind),
                data_bytes,
                ..WorkloadOptions::default()
            },
            ..Options::default()
        };
        workload(&options, false).unwrap().unwrap()
    }

    fn mount(free_mib: u64) -> MountFacts {
        MountFacts {
            size_bytes: Some(1 << 40),
            free_bytes: Some((free_mib << 20) + (1 << 40) / 20),
            ..crate::model::fixture::mount("/data")
        }
    }

    fn fit(plan: &WorkloadPlan, free_mib: u64) -> Result<Workload, SetupError> {
        let share = Shares::default().share(&mount(free_mib));
        fitted(plan, Path::new("/data"), &share)
    }

    #[test]
    fn a_data_file_takes_what_there_is_room_for_unless_it_was_asked_for() {
        let data_mib = |workload: Workload| match workload {
            Workload::Checkpoint(checkpoint) => checkpoint.data_bytes >> 20,
            _ => panic!("not a checkpoint"),
        };
        let chosen = plan(WorkloadKind::Checkpoint, None);
        assert_eq!(data_mib(fit(&chosen, 1 << 20).unwrap()), 256);
        assert_eq!(data_mib(fit(&chosen, 164).unwrap()), 100);
        assert!(fit(&chosen, 70).is_err());
        let asked = plan(WorkloadKind::Checkpoint, Some(1 << 30));
        let error = fit(&asked, 164).unwrap_err().to_string();
        assert!(
            error.contains("--data") && error.contains("/data"),
            "{error}"
        );
    }

    #[test]
    fn each_workload_names_what_makes_it_smaller() {
        for (kind, option) in [
            (WorkloadKind::Churn, "--file-size"),
            (WorkloadKind::WalAppend, "--segment-size"),
        ] {
            let error = fit(&plan(kind, None), 1).unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
    }
}
