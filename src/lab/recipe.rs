//! The commands that make a filesystem, and the options of its mount.

use std::path::Path;

use crate::fs::{ALL, ExternalJournal, Filesystem, Mkfs};
use crate::model::variant::Variant;

/// How a variant is made; none if the lab can't.
pub(super) fn of(variant: &Variant) -> Option<&'static Mkfs> {
    Filesystem::of(&variant.fs_type).mkfs()
}

/// The filesystems that can be made.
pub(super) fn known() -> String {
    let known = ALL.iter().filter(|fs| fs.mkfs().is_some());
    known.map(|fs| fs.name).collect::<Vec<_>>().join(", ")
}

/// What makes a variant.
pub(super) fn tool(variant: &Variant) -> String {
    format!("mkfs.{}", variant.fs_type)
}

/// The commands that make `variant` on `device`, in their order: a program and its arguments.
pub(super) fn commands(
    mkfs: &Mkfs,
    variant: &Variant,
    device: &Path,
    journal: Option<&Path>,
) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let mut main = vec![tool(variant)];
    main.extend(words(mkfs.options));
    main.extend(variant.mkfs.iter().cloned());
    let mut commands = Vec::new();
    if let Some(journal) = journal {
        let journal = journal.display();
        match mkfs.external_journal {
            ExternalJournal::Ext => {
                let mut first = words(&["mke2fs", "-q", "-F", "-O", "journal_dev"]);
                first.extend(block_size(&variant.mkfs));
                first.push(journal.to_string());
                commands.push(first);
                main.extend(["-J".to_owned(), format!("device={journal}")]);
            }
            ExternalJournal::Xfs => main.extend(["-l".to_owned(), format!("logdev={journal}")]),
            ExternalJournal::None => {}
        }
    }
    main.push(device.display().to_string());
    commands.push(main);
    commands
}

/// The options of its mount.
pub(super) fn mount_options(mkfs: &Mkfs, variant: &Variant, journal: Option<&Path>) -> Vec<String> {
    let mut options = variant.mount.clone();
    if let (ExternalJournal::Xfs, Some(journal)) = (mkfs.external_journal, journal) {
        options.push(format!("logdev={}", journal.display()));
    }
    options
}

/// A journal device has the block size of its filesystem, which for mke2fs is 4 KiB but on small
/// filesystems, where it is named here.
fn block_size(mkfs: &[String]) -> Vec<String> {
    let given = mkfs.windows(2).find(|pair| pair[0] == "-b");
    let size = given.map_or_else(|| "4096".to_owned(), |pair| pair[1].clone());
    vec!["-b".to_owned(), size]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(fs_type: &str, mkfs: &[&str]) -> Variant {
        Variant {
            fs_type: fs_type.to_owned(),
            mkfs: mkfs.iter().map(|word| (*word).to_owned()).collect(),
            mount: vec!["noatime".to_owned()],
            ..Variant::default()
        }
    }

    fn lines(fs_type: &str, mkfs: &[&str], journal: Option<&str>) -> Vec<String> {
        let variant = variant(fs_type, mkfs);
        let journal = journal.map(Path::new);
        let commands = commands(
            of(&variant).unwrap(),
            &variant,
            Path::new("/dev/a"),
            journal,
        );
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn a_profiles_options_come_after_the_recipes() {
        let line = &lines("xfs", &["-l", "size=64m"], None)[0];
        assert_eq!(line, "mkfs.xfs -q -f -K -l size=64m /dev/a");
        assert!(of(&variant("ntfs", &[])).is_none());
    }

    #[test]
    fn an_external_journal_is_made_and_named() {
        let ext4 = lines("ext4", &["-b", "1024"], Some("/dev/b"));
        assert_eq!(ext4[0], "mke2fs -q -F -O journal_dev -b 1024 /dev/b");
        assert!(ext4[1].ends_with("-J device=/dev/b /dev/a"), "{}", ext4[1]);
        let xfs = lines("xfs", &[], Some("/dev/b"));
        assert!(xfs[0].ends_with("-l logdev=/dev/b /dev/a"), "{}", xfs[0]);
        let options = |fs: &str| {
            let journal = Some(Path::new("/dev/b"));
            let variant = variant(fs, &[]);
            mount_options(of(&variant).unwrap(), &variant, journal)
        };
        assert_eq!(options("xfs"), ["noatime", "logdev=/dev/b"]);
        assert_eq!(options("ext4"), ["noatime"]);
    }
}
