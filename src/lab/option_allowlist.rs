//! Words of a profile that would lead a mkfs or a mount elsewhere: to a device or a file other than
//! those that the lab gives it. An image is built on without a question, so a profile must not be able
//! to name anything else.

use std::fmt;

use super::recipe;
use crate::fs::{ALL, Filesystem, Mkfs};
use crate::model::variant::Variant;

/// A word that may lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisallowedOption {
    /// The list that it stands in: `mkfs` or `mount`.
    pub key: &'static str,
    /// The word.
    pub word: String,
    why: &'static str,
}

impl fmt::Display for DisallowedOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: '{}' {}", self.key, self.word, self.why)
    }
}

const PATH: &str = "has a '/', and may name a device or a file other than the lab's own; leave it \
                    out (journal = 'external' puts a journal on a device of its own)";
const KEY: &str = "has a key that names a device or a file other than the lab's own; leave it out \
                   (journal = 'external' puts a journal on a device of its own)";
const BARE: &str =
    "is neither an option nor the value of one, so it would name a device; leave it out";
const UNKNOWN: &str =
    "is none of the options that are known to name no device and no file; leave it out";
const ALONE: &str = "needs a value behind it, or would take the device's name for one";

/// Keys whose value names, or may name, a device or a file on any filesystem: `source` does (fs_context.c).
const KEYS: [&str; 5] = ["dev", "devices", "filename", "journal_device", "source"];

/// The first word of a variant that may lead its mkfs or its mount elsewhere; none in what can't be
/// made at all.
pub fn disallowed_option(variant: &Variant) -> Option<DisallowedOption> {
    let stray = |key| {
        move |(word, why): (&String, _)| {
            let word = word.clone();
            DisallowedOption { key, word, why }
        }
    };
    let of_mkfs = match recipe::of(variant) {
        Some(mkfs) => stray_option(mkfs, &variant.mkfs),
        None => variant.mkfs.iter().find_map(leads_out),
    };
    let of_mkfs = of_mkfs.map(stray("mkfs"));
    of_mkfs.or_else(|| variant.mount.iter().find_map(leads_out).map(stray("mount")))
}

fn leads_out(word: &String) -> Option<(&String, &'static str)> {
    why_out(word).map(|why| (word, why))
}

/// What in a word, or in the value of an option, leads elsewhere. Suboptions stand between commas.
fn why_out(text: &str) -> Option<&'static str> {
    let is_key = |part: &str| {
        let key = part.split('=').next().unwrap_or_default().trim();
        let of_each = ALL.iter().filter_map(Filesystem::mkfs);
        let mut keys = of_each.flat_map(|mkfs| mkfs.device_keys).chain(&KEYS);
        keys.any(|known| key.eq_ignore_ascii_case(known))
    };
    match text.contains('/') {
        true => Some(PATH),
        false => text.split(',').any(is_key).then_some(KEY),
    }
}

/// What getopt_long(3) takes a word for.
enum Taken<'w> {
    /// Flags alone.
    Flags,
    /// An option with its value.
    Value(&'w str),
    /// An option whose value is the next word.
    Next,
    /// No option that is known.
    Unknown,
}

/// The first word of a mkfs's options that may lead elsewhere. One that isn't known is refused, since
/// nobody knows what a later version's will do.
fn stray_option<'w>(mkfs: &Mkfs, words: &'w [String]) -> Option<(&'w String, &'static str)> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(why) = why_out(word) {
            return Some((word, why));
        }
        let taken = match word.strip_prefix('-') {
            None | Some("") => return Some((word, BARE)),
            Some(rest) => match rest.strip_prefix('-') {
                Some(name) => long(mkfs, name),
                None => short(mkfs, rest),
            },
        };
        let stray = match taken {
            Taken::Flags => None,
            Taken::Unknown => Some((word, UNKNOWN)),
            Taken::Value(value) => why_out(value).map(|why| (word, why)),
            Taken::Next => match words.next() {
                Some(value) => leads_out(value),
                None => Some((word, ALONE)),
            },
        };
        if stray.is_some() {
            return stray;
        }
    }
    None
}

/// Flags may stand in one word, and a value right behind its option.
fn short<'w>(mkfs: &Mkfs, letters: &'w str) -> Taken<'w> {
    for (at, letter) in letters.char_indices() {
        if mkfs.valued.contains(letter) {
            return match &letters[at + letter.len_utf8()..] {
                "" => Taken::Next,
                value => Taken::Value(value),
            };
        }
        if !mkfs.flags.contains(letter) {
            return Taken::Unknown;
        }
    }
    Taken::Flags
}

/// An option that is cut short, which getopt_long(3) would take for the whole, is unknown.
fn long<'w>(mkfs: &Mkfs, text: &'w str) -> Taken<'w> {
    match text.split_once('=') {
        Some((name, value)) if mkfs.long_valued.contains(&name) => Taken::Value(value),
        None if mkfs.long_valued.contains(&text) => Taken::Next,
        None if mkfs.long_flags.contains(&text) => Taken::Flags,
        _ => Taken::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stray(fs_type: &str, mkfs: &str, mount: &str) -> Option<(String, &'static str)> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let variant = Variant {
            fs_type: fs_type.to_owned(),
            mkfs: words(mkfs),
            mount: words(mount),
            ..Variant::default()
        };
        disallowed_option(&variant).map(|stray| (stray.word, stray.why))
    }

    #[track_caller]
    fn strays(fs_type: &str, mkfs: &str, word: &str, why: &str) {
        assert_eq!(
            stray(fs_type, mkfs, ""),
            Some((word.to_owned(), why)),
            "{mkfs}"
        );
    }

    #[test]
    fn what_leads_to_no_other_device_is_let_through() {
        for (fs_type, mkfs) in [
            (
                "ext4",
                "-b 1024 -J size=4 -O ^has_journal,^64bit -Eoffset=1 -qF",
            ),
            ("xfs", "-b size=1024 -l size=64m -L label -i maxpct=5"),
            ("btrfs", "--data=single -m dup --csum xxhash -O ^no-holes"),
            ("reiserfs", "-s 513 --format 3.6"),
            ("bcachefs", "--compression=lz4"),
        ] {
            assert_eq!(stray(fs_type, mkfs, ""), None, "{mkfs}");
        }
        let mount = "data=journal noatime nobarrier commit=5";
        assert_eq!(stray("ext4", "", mount), None);
    }

    #[test]
    fn another_device_or_file_is_found_wherever_it_stands() {
        strays("btrfs", "/dev/sdc", "/dev/sdc", PATH);
        strays("btrfs", "-f sdc", "sdc", BARE);
        strays("btrfs", "-dsingle --label x sdc", "sdc", BARE);
        strays("xfs", "-l size=64m,logdev=sdc", "size=64m,logdev=sdc", KEY);
        strays("xfs", "-llogdev=sdc", "-llogdev=sdc", KEY);
        strays("xfs", "-r rtdev=sdc", "rtdev=sdc", KEY);
        strays("xfs", "-d name=sdc", "name=sdc", KEY);
        strays("ext4", "-J device=UUID=1", "device=UUID=1", KEY);
        strays("ext4", "-qJdevice=LABEL=x", "-qJdevice=LABEL=x", KEY);
        strays("ntfs", "-q x/y", "x/y", PATH);
    }

    #[test]
    fn an_option_that_may_name_one_is_not_taken() {
        for (fs_type, mkfs) in [
            ("ext4", "-z undo"),
            ("ext4", "-d folder"),
            ("xfs", "-p protofile"),
            ("btrfs", "--rootdir=folder"),
            ("btrfs", "--root folder"),
            ("jfs", "-j sdc"),
            ("jfs", "-qjsdc"),
            ("f2fs", "-c sdc"),
            ("reiserfs", "--journal-device sdc"),
            ("bcachefs", "--discard sdc"),
            ("btrfs", "--"),
        ] {
            assert_eq!(
                stray(fs_type, mkfs, "").map(|(_, why)| why),
                Some(UNKNOWN),
                "{mkfs}"
            );
        }
        strays("btrfs", "-", "-", BARE);
        strays("ext4", "-q -L", "-L", ALONE);
    }

    #[test]
    fn a_mount_names_no_other_device() {
        for (word, why) in [
            ("journal_path=/dev/sdc", PATH),
            ("noatime,rtdev=sdc", KEY),
            ("LOGDEV=sdc", KEY),
        ] {
            assert_eq!(stray("xfs", "", word), Some((word.to_owned(), why)));
        }
        let keys = "dev device devices file filename jdev journal_dev journal_device journal_path \
                    logdev name rtdev source";
        for key in keys.split(' ') {
            let word = format!("{key}=sdc");
            assert_eq!(stray("xfs", "", &word), Some((word, KEY)));
        }
    }
}
