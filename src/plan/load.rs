//! The one way to a profile, a lab or claims: by a built-in name, or from a TOML file.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::sys::text;

use super::value;

/// More than anybody writes by hand.
const MOST_BYTES: u64 = 1 << 20;

/// Why a profile, a lab or claims cannot be used. One line each.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Neither built in nor a file.
    #[error("no {kind} '{name}': give the path of a TOML file, or one of {known}")]
    Unknown {
        /// `profile` or `claims`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The built-in ones.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {kind} {path}: {source}", path = path.display())]
    Read {
        /// `profile` or `claims`.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Its text is not what it should be.
    #[error("{name}:{line}: {message}")]
    Parse {
        /// The file, or the built-in name.
        name: String,
        /// Counted from 1.
        line: usize,
        /// The key and what is wrong with it.
        message: String,
    },
}

impl LoadError {
    pub(super) fn parse(name: &str, (line, message): (usize, String)) -> LoadError {
        LoadError::Parse {
            name: name.to_owned(),
            line,
            message,
        }
    }
}

/// Built-in texts with their names, and what reads one.
pub(super) struct Library<T> {
    pub(super) kind: &'static str,
    pub(super) built_in: &'static [(&'static str, &'static str)],
    pub(super) parse: fn(&str, &str) -> Result<T, LoadError>,
}

impl<T> Library<T> {
    /// What has a `/` or ends in `.toml`, and is not built in, is a path.
    pub(super) fn load(&self, name_or_path: &str) -> Result<T, LoadError> {
        if let Some((name, text)) = self.built_in.iter().find(|(name, _)| *name == name_or_path) {
            return (self.parse)(name, text);
        }
        let path = Path::new(name_or_path);
        if !name_or_path.contains('/') && path.extension().is_none_or(|ext| ext != "toml") {
            let names: Vec<&str> = self.built_in.iter().map(|(name, _)| *name).collect();
            return Err(LoadError::Unknown {
                kind: self.kind,
                name: name_or_path.to_owned(),
                known: names.join(", "),
            });
        }
        let text = text::read(path, MOST_BYTES).map_err(|source| LoadError::Read {
            kind: self.kind,
            path: path.to_owned(),
            source,
        })?;
        (self.parse)(name_or_path, &text)
    }

    pub(super) fn all(&self) -> Result<Vec<T>, LoadError> {
        let texts = self.built_in.iter();
        texts.map(|(name, text)| (self.parse)(name, text)).collect()
    }
}

/// A file's tables; `name` is for messages.
pub(super) fn from_toml<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, LoadError> {
    toml::from_str(text).map_err(|error| LoadError::parse(name, value::error_line(text, &error)))
}

#[cfg(test)]
mod tests {
    use crate::plan::{claims, lab, profile};

    #[test]
    fn an_unknown_name_lists_the_built_in_ones_of_its_kind() {
        for (error, wanted) in [
            (
                profile::load("nosuch").unwrap_err(),
                "no profile 'nosuch': give the path of a TOML file, or one of default, quick, full, \
                 vendor-note, postgres-wal, etcd-wal, ceph-journal, mysql-redo",
            ),
            (
                lab::load("nosuch").unwrap_err(),
                "no profile 'nosuch': give the path of a TOML file, or one of journal-modes, \
                 journal-size, trunc, barriers, fs-tour, block-matrix, vendor-note-remedies, \
                 checkpoint-tour, ordered-vs-writeback",
            ),
        ] {
            assert_eq!(error.to_string(), wanted);
        }
        let error = claims::load("nosuch").unwrap_err().to_string();
        let start =
            "no claims 'nosuch': give the path of a TOML file, or one of huawei-es3000-v1, ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn a_missing_file_is_named_with_its_kind_and_reason() {
        let path = "/nonexistent/x.toml";
        let reason = "/nonexistent/x.toml: No such file or directory (os error 2)";
        for (error, kind) in [
            (profile::load(path).unwrap_err(), "profile"),
            (lab::load(path).unwrap_err(), "profile"),
            (claims::load(path).unwrap_err(), "claims"),
        ] {
            assert_eq!(error.to_string(), format!("cannot read {kind} {reason}"));
        }
    }
}
