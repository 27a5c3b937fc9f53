//! Profiles: named sets of options in TOML, built in or in a file.

use std::time::Duration;

use serde::Deserialize;

use crate::model::cell::{EngineKind, FileState, Method, Pattern, Payload, WorkloadKind};

use super::load::{Library, LoadError, from_toml};
use super::settings::Options;
use super::value::{Bytes, Many, One, Pause, Share, Spread};
use super::workload::WorkloadOptions;

/// The profiles that the program carries, in the order in which they are listed.
pub const BUILT_IN: [(&str, &str); 8] = [
    ("default", include_str!("../../profiles/default.toml")),
    ("quick", include_str!("../../profiles/quick.toml")),
    ("full", include_str!("../../profiles/full.toml")),
    (
        "vendor-note",
        include_str!("../../profiles/vendor-note.toml"),
    ),
    (
        "postgres-wal",
        include_str!("../../profiles/postgres-wal.toml"),
    ),
    ("etcd-wal", include_str!("../../profiles/etcd-wal.toml")),
    (
        "ceph-journal",
        include_str!("../../profiles/ceph-journal.toml"),
    ),
    ("mysql-redo", include_str!("../../profiles/mysql-redo.toml")),
];

/// A named set of options.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name, or the path that it was read from.
    pub name: String,
    /// What it is for, in one line.
    pub about: String,
    /// What it sets.
    pub options: Options,
}

const LIBRARY: Library<Profile> = Library {
    kind: "profile",
    built_in: &BUILT_IN,
    parse,
};

/// Loads a built-in profile by its name, or a file: what has a `/` or ends in `.toml` is a path.
pub fn load(name_or_path: &str) -> Result<Profile, LoadError> {
    LIBRARY.load(name_or_path)
}

/// All built-in profiles.
pub fn built_in() -> Result<Vec<Profile>, LoadError> {
    LIBRARY.all()
}

/// Reads a profile from its text; `name` is for messages.
pub fn parse(name: &str, text: &str) -> Result<Profile, LoadError> {
    let keys: Keys = from_toml(name, text)?;
    let missing = || LoadError::parse(name, (1, "missing field `about`".to_owned()));
    Ok(Profile {
        name: name.to_owned(),
        about: keys.about.clone().ok_or_else(missing)?,
        options: keys.options(),
    })
}

/// The keys of a profile. Each axis takes one value or a list.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keys {
    about: Option<String>,
    sizes: Option<Many<Bytes>>,
    method: Option<Many<Method>>,
    direct: Option<Many<bool>>,
    queue_depth: Option<Many<u32>>,
    jobs: Option<Many<u32>>,
    pattern: Option<Many<Pattern>>,
    file_state: Option<Many<FileState>>,
    engine: Option<Many<EngineKind>>,
    span: Option<One<Bytes>>,
    rate: Option<Many<f64>>,
    payload: Option<One<Payload>>,
    precision: Option<One<Share>>,
    budget: Option<One<Duration>>,
    rounds: Option<One<u32>>,
    sqpoll: Option<One<bool>>,
    iopoll: Option<One<bool>>,
    workload: Option<WorkloadTable>,
}

/// The table `[workload]`, with the names of the command line's options.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    kind: Option<One<WorkloadKind>>,
    clients: Option<One<u32>>,
    group_commit: Option<One<bool>>,
    checkpoint_interval: Option<One<Duration>>,
    checkpoint_spread: Option<One<Spread>>,
    data: Option<One<Bytes>>,
    dirty: Option<One<f64>>,
    file_size: Option<One<Bytes>>,
    pause: Option<One<Pause>>,
    segment_size: Option<One<Bytes>>,
    duration: Option<One<Duration>>,
    repeat: Option<One<u32>>,
}

impl WorkloadTable {
    /// What it sets.
    pub(super) fn options(self) -> WorkloadOptions {
        WorkloadOptions {
            kind: self.kind.map(|one| one.0),
            clients: self.clients.map(|one| one.0),
            group_commit: self.group_commit.map(|one| one.0),
            checkpoint_interval: self.checkpoint_interval.map(|one| one.0),
            checkpoint_spread: self.checkpoint_spread.map(|one| one.0.0),
            data_bytes: self.data.map(|one| one.0.0),
            dirty_pages_per_s: self.dirty.map(|one| one.0),
            file_bytes: self.file_size.map(|one| one.0.0),
            pause: self.pause.map(|one| one.0.0),
            segment_bytes: self.segment_size.map(|one| one.0.0),
            duration: self.duration.map(|one| one.0),
            repeat: self.repeat.map(|one| one.0),
        }
    }
}

impl Keys {
    /// What they set.
    pub(super) fn options(self) -> Options {
        Options {
            sizes: self
                .sizes
                .map(|s| s.0.into_iter().map(|size| size.0).collect()),
            method: self.method.map(|many| many.0),
            direct: self.direct.map(|many| many.0),
            queue_depth: self.queue_depth.map(|many| many.0),
            jobs: self.jobs.map(|many| many.0),
            pattern: self.pattern.map(|many| many.0),
            file_state: self.file_state.map(|many| many.0),
            engine: self.engine.map(|many| many.0),
            span_bytes: self.span.map(|one| one.0.0),
            rate_per_s: self.rate.map(|many| many.0),
            payload: self.payload.map(|one| one.0),
            precision: self.precision.map(|one| one.0.0),
            budget: self.budget.map(|one| one.0),
            rounds: self.rounds.map(|one| one.0),
            sqpoll: self.sqpoll.map(|one| one.0),
            iopoll: self.iopoll.map(|one| one.0),
            workload: self.workload.unwrap_or_default().options(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_built_in_profile_parses_and_says_what_it_is_for() {
        for profile in built_in().unwrap() {
            assert!(!profile.about.is_empty() && !profile.about.contains('\n'));
            assert_eq!(load(&profile.name).unwrap(), profile);
        }
    }

    #[test]
    fn one_value_and_a_list_mean_the_same() {
        let one = parse(
            "p",
            "about = 'x'\nsizes = '4k'\nmethod = 'fsync'\ndirect = 'off'",
        );
        let list = parse(
            "p",
            "about = 'x'\nsizes = [4096]\nmethod = ['fsync']\ndirect = [false]",
        );
        assert_eq!(one.unwrap(), list.unwrap());
    }

    #[test]
    fn every_key_is_read() {
        let text = "about = 'all'\nsizes = [512, '1m']\nmethod = 'o_sync'\ndirect = true\n\
                    queue_depth = [1, 2]\njobs = 3\npattern = 'rand'\nfile_state = 'overwrite'\n\
                    engine = 'null'\nspan = '8m'\nrate = 100\npayload = '50%'\nprecision = '2%'\n\
                    budget = '3m'\nrounds = 9\nsqpoll = true\niopoll = 'on'";
        let options = parse("p", text).unwrap().options;
        assert_eq!(options.sizes, Some(vec![512, 1 << 20]));
        assert_eq!(options.queue_depth, Some(vec![1, 2]));
        assert_eq!(options.rate_per_s, Some(vec![100.0]));
        assert_eq!(options.precision, Some(0.02));
        assert_eq!(options.budget, Some(Duration::from_secs(180)));
        let Options {
            method: Some(_),
            direct: Some(_),
            jobs: Some(_),
            pattern: Some(_),
            file_state: Some(_),
            engine: Some(_),
            span_bytes: Some(_),
            payload: Some(_),
            rounds: Some(9),
            sqpoll: Some(true),
            iopoll: Some(true),
            ..
        } = options
        else {
            panic!("a key was lost: {options:?}");
        };
    }

    #[test]
    fn errors_name_file_line_and_key_in_one_line() {
        for (text, line, part) in [
            ("about = 'x'\nsize = '4k'", 2, "`size`"),
            ("about = 'x'\n\nsizes = '4kb'", 3, "sizes: bad size '4kb'"),
            (
                "about = 'x'\nmethod = ['fsync',\n  'odsync']",
                3,
                "unknown method 'odsync'",
            ),
            ("about = 'x'\nprecision = 5", 2, "precision: "),
            ("about = 'x'\njobs = -1", 2, "jobs: "),
            ("about = 'x'\nbudget =", 2, "budget: "),
            ("about = 'x'\njobs = []", 2, "jobs: "),
            ("sizes = 4096", 1, "`about`"),
        ] {
            let message = message(text);
            assert!(
                message.starts_with(&format!("p.toml:{line}: ")),
                "{message}"
            );
            assert!(message.contains(part), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
