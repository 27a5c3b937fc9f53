//! Profiles of the lab: variants of filesystems, and what is measured on each.

use serde::Deserialize;

use super::load::{Library, LoadError, from_toml};
use super::profile::{Keys, WorkloadTable};
use super::settings::Options;
use crate::lab;
use crate::model::variant::{Remedy, Variant};

/// The profiles that the program carries, in the order in which they are listed.
pub const BUILT_IN: [(&str, &str); 9] = [
    (
        "journal-modes",
        include_str!("../../profiles/lab/journal-modes.toml"),
    ),
    (
        "journal-size",
        include_str!("../../profiles/lab/journal-size.toml"),
    ),
    ("trunc", include_str!("../../profiles/lab/trunc.toml")),
    ("barriers", include_str!("../../profiles/lab/barriers.toml")),
    ("fs-tour", include_str!("../../profiles/lab/fs-tour.toml")),
    (
        "block-matrix",
        include_str!("../../profiles/lab/block-matrix.toml"),
    ),
    (
        "vendor-note-remedies",
        include_str!("../../profiles/lab/vendor-note-remedies.toml"),
    ),
    (
        "checkpoint-tour",
        include_str!("../../profiles/lab/checkpoint-tour.toml"),
    ),
    (
        "ordered-vs-writeback",
        include_str!("../../profiles/lab/ordered-vs-writeback.toml"),
    ),
];

/// A question, and the filesystems that answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct LabProfile {
    /// Its name, or the path that it was read from.
    pub name: String,
    /// What it is for, in one line.
    pub about: String,
    /// What its table answers.
    pub question: String,
    /// What is measured on each variant.
    pub options: Options,
    /// The filesystems, in their order.
    pub variants: Vec<Variant>,
    /// Changes whose gain is to be told.
    pub remedies: Vec<Remedy>,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    question: String,
    #[serde(default)]
    cells: Keys,
    /// In place of cells.
    #[serde(default)]
    workload: WorkloadTable,
    #[serde(default)]
    variant: Vec<One>,
    #[serde(default)]
    matrix: Vec<Many>,
    #[serde(default)]
    remedy: Vec<Remedy>,
}

/// One variant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    name: Option<String>,
    fs: String,
    #[serde(default)]
    mkfs: Vec<String>,
    #[serde(default)]
    mount: Vec<String>,
    #[serde(default)]
    journal: Journal,
}

/// The product of what is listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    fs: Vec<String>,
    #[serde(default = "plain")]
    mkfs: Vec<Vec<String>>,
    #[serde(default = "plain")]
    mount: Vec<Vec<String>>,
    #[serde(default = "internal")]
    journal: Vec<Journal>,
}

/// Where a journal lies.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Journal {
    #[default]
    Internal,
    External,
}

fn plain() -> Vec<Vec<String>> {
    vec![Vec::new()]
}

fn internal() -> Vec<Journal> {
    vec![Journal::Internal]
}

const LIBRARY: Library<LabProfile> = Library {
    kind: "profile",
    built_in: &BUILT_IN,
    parse,
};

/// Loads a built-in profile by its name, or a file: what has a `/` or ends in `.toml` is a path.
pub fn load(name_or_path: &str) -> Result<LabProfile, LoadError> {
    LIBRARY.load(name_or_path)
}

/// All built-in profiles.
pub fn built_in() -> Result<Vec<LabProfile>, LoadError> {
    LIBRARY.all()
}

/// Reads a profile from its text; `name` is for messages.
pub fn parse(name: &str, text: &str) -> Result<LabProfile, LoadError> {
    let file: File = from_toml(name, text)?;
    let mut variants: Vec<Variant> = file.variant.into_iter().map(One::variant).collect();
    variants.extend(file.matrix.iter().flat_map(Many::variants));
    let wrong = |word: &str, message: String| LoadError::Parse {
        name: name.to_owned(),
        line: text
            .lines()
            .position(|line| line.contains(word))
            .unwrap_or(0)
            + 1,
        message,
    };
    // An image is built on without a question, so what a profile names must be the lab's own.
    if let Some(stray) = variants.iter().find_map(lab::disallowed_option) {
        let quoted = ['"', '\''].map(|quote| format!("{quote}{}{quote}", stray.word));
        let as_written = quoted.iter().find(|word| text.contains(word.as_str()));
        return Err(wrong(as_written.unwrap_or(&stray.word), stray.to_string()));
    }
    for (index, variant) in variants.iter().enumerate() {
        if variants[..index]
            .iter()
            .any(|other| other.name == variant.name)
        {
            let text = format!("two variants are named '{}'", variant.name);
            return Err(wrong(&variant.fs_type, text));
        }
    }
    if variants.is_empty() {
        return Err(wrong("", "no [[variant]] and no [[matrix]]".to_owned()));
    }
    for side in file
        .remedy
        .iter()
        .flat_map(|remedy| [&remedy.from, &remedy.to])
    {
        if !variants.iter().any(|variant| variant.name == side.variant) {
            let text = format!("remedy: there is no variant '{}'", side.variant);
            return Err(wrong(&side.variant, text));
        }
    }
    Ok(LabProfile {
        name: name.to_owned(),
        about: file.about,
        question: file.question,
        options: Options {
            workload: file.workload.options(),
            ..file.cells.options()
        },
        variants,
        remedies: file.remedy,
    })
}

impl One {
    fn variant(self) -> Variant {
        let external_journal = self.journal == Journal::External;
        let name = self
            .name
            .unwrap_or_else(|| name(&self.fs, &self.mkfs, &self.mount, external_journal));
        Variant {
            name,
            fs_type: self.fs,
            mkfs: self.mkfs,
            mount: self.mount,
            external_journal,
            ..Variant::default()
        }
    }
}

impl Many {
    fn variants(&self) -> Vec<Variant> {
        let mut variants = Vec::new();
        for fs in &self.fs {
            for mkfs in &self.mkfs {
                for mount in &self.mount {
                    for &journal in &self.journal {
                        let one = One {
                            name: None,
                            fs: fs.clone(),
                            mkfs: mkfs.clone(),
                            mount: mount.clone(),
                            journal,
                        };
                        variants.push(one.variant());
                    }
                }
            }
        }
        variants
    }
}

/// What a variant without a name is called: its type and its options.
fn name(fs: &str, mkfs: &[String], mount: &[String], external_journal: bool) -> String {
    let mut words = vec![fs.to_owned()];
    if !mkfs.is_empty() {
        words.push(mkfs.join(" "));
    }
    if !mount.is_empty() {
        words.push(mount.join(","));
    }
    if external_journal {
        words.push("external journal".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_built_in_profile_parses() {
        for profile in built_in().unwrap() {
            assert!(!profile.about.contains('\n') && !profile.question.is_empty());
            assert_eq!(load(&profile.name).unwrap(), profile);
        }
    }

    #[test]
    fn a_matrix_expands_to_its_product() {
        let text = "about = 'a'\nquestion = 'q'\n[cells]\nsizes = '4k'\n[[matrix]]\n\
                    fs = ['ext3', 'ext4']\nmkfs = [['-b', '1024'], []]\n\
                    mount = [[], ['data=journal', 'noatime']]";
        let profile = parse("p", text).unwrap();
        let names: Vec<&str> = profile.variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[0], "ext3 -b 1024");
        assert_eq!(names[1], "ext3 -b 1024 data=journal,noatime");
        assert_eq!(names[6], "ext4");
        assert_eq!(profile.options.sizes, Some(vec![4096]));
    }

    #[test]
    fn errors_name_line_and_key() {
        for (text, line, part) in [
            ("about = 'a'\nquestion = 'q'", 1, "no [[variant]]"),
            (
                "about = 'a'\nquestion = 'q'\n[[variant]]\nfs = 'xfs'\nmkfsopts = []",
                5,
                "`mkfsopts`",
            ),
            (
                "about = 'a'\nquestion = 'q'\n[cells]\nsize = '4k'",
                4,
                "`size`",
            ),
            (
                "about = 'a'\nquestion = 'q'\n[[variant]]\nfs = 'xfs'\n[[variant]]\nfs = 'xfs'",
                4,
                "two variants are named 'xfs'",
            ),
            (
                "about = 'a /dev/sdc'\nquestion = 'q'\n[[variant]]\nfs = 'btrfs'\n\
                 mkfs = ['-q', '/dev/sdc']",
                5,
                "mkfs: '/dev/sdc' has a '/'",
            ),
            (
                "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext4', 'xfs']\n\
                 mount = [[],\n['logdev=sdc']]",
                6,
                "mount: 'logdev=sdc' has a key",
            ),
        ] {
            let message = message(text);
            assert!(
                message.starts_with(&format!("p.toml:{line}: ")),
                "{message}"
            );
            assert!(
                message.contains(part) && !message.contains('\n'),
                "{message}"
            );
        }
    }
}
