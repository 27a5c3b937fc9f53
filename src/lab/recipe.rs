//! How each filesystem is made.

use std::path::Path;

use crate::model::variant::Variant;

/// The making of one kind of filesystem.
pub(super) struct Recipe {
    /// Its type, as mount(8) knows it.
    fs_type: &'static str,
    /// What makes it.
    pub(super) tool: &'static str,
    /// The package that has the tool, on Debian.
    pub(super) package: &'static str,
    /// Options that keep it from asking, and from putting work off until it is mounted.
    options: &'static [&'static str],
    /// How its journal is put on another device.
    pub(super) journal: ExternalJournal,
}

/// How a journal on another device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExternalJournal {
    /// It can't be.
    None,
    /// The device is made a journal first, then named: mke2fs(8).
    Ext,
    /// The device is named to mkfs.xfs(8) and to the mount (xfs(5)).
    Xfs,
}

const fn recipe(
    fs_type: &'static str,
    tool: &'static str,
    package: &'static str,
    options: &'static [&'static str],
    journal: ExternalJournal,
) -> Recipe {
    Recipe {
        fs_type,
        tool,
        package,
        options,
        journal,
    }
}

/// mke2fs(8): nothing is left to be initialised in the background of the measurement.
const EXT: &[&str] = &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// Every kind that can be made.
const RECIPES: [Recipe; 11] = [
    recipe("ext2", "mkfs.ext2", "e2fsprogs", EXT, ExternalJournal::None),
    recipe("ext3", "mkfs.ext3", "e2fsprogs", EXT, ExternalJournal::Ext),
    recipe("ext4", "mkfs.ext4", "e2fsprogs", EXT, ExternalJournal::Ext),
    recipe(
        "xfs",
        "mkfs.xfs",
        "xfsprogs",
        &["-q", "-f", "-K"],
        ExternalJournal::Xfs,
    ),
    recipe(
        "btrfs",
        "mkfs.btrfs",
        "btrfs-progs",
        &["-q", "-f", "-K"],
        ExternalJournal::None,
    ),
    recipe(
        "jfs",
        "mkfs.jfs",
        "jfsutils",
        &["-q"],
        ExternalJournal::None,
    ),
    recipe(
        "nilfs2",
        "mkfs.nilfs2",
        "nilfs-tools",
        &["-q", "-f", "-K"],
        ExternalJournal::None,
    ),
    recipe(
        "f2fs",
        "mkfs.f2fs",
        "f2fs-tools",
        &["-q", "-f"],
        ExternalJournal::None,
    ),
    recipe(
        "reiserfs",
        "mkfs.reiserfs",
        "reiserfsprogs",
        &["-q", "-f", "-f"],
        ExternalJournal::None,
    ),
    recipe(
        "bcachefs",
        "mkfs.bcachefs",
        "bcachefs-tools",
        &["-q", "-f"],
        ExternalJournal::None,
    ),
    recipe(
        "exfat",
        "mkfs.exfat",
        "exfatprogs",
        // It has no option to be quiet.
        &[],
        ExternalJournal::None,
    ),
];

/// The recipe of a filesystem; none if there is none.
pub(super) fn of(fs_type: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.fs_type == fs_type)
}

/// The kinds that there are recipes for.
pub(super) fn known() -> String {
    RECIPES.map(|recipe| recipe.fs_type).join(", ")
}

impl Recipe {
    /// The commands that make `variant` on `device`, in their order: a program and its arguments.
    pub(super) fn commands(
        &self,
        variant: &Variant,
        device: &Path,
        journal: Option<&Path>,
    ) -> Vec<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let mut main = words(&[self.tool]);
        main.extend(words(self.options));
        main.extend(variant.mkfs.iter().cloned());
        let mut commands = Vec::new();
        if let Some(journal) = journal {
            let journal = journal.display();
            match self.journal {
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
    pub(super) fn mount_options(&self, variant: &Variant, journal: Option<&Path>) -> Vec<String> {
        let mut options = variant.mount.clone();
        if let (ExternalJournal::Xfs, Some(journal)) = (self.journal, journal) {
            options.push(format!("logdev={}", journal.display()));
        }
        options
    }
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
        let recipe = of(fs_type).unwrap();
        let journal = journal.map(Path::new);
        let commands = recipe.commands(&variant(fs_type, mkfs), Path::new("/dev/a"), journal);
        commands.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn a_profiles_options_come_after_the_recipes() {
        let line = &lines("xfs", &["-l", "size=64m"], None)[0];
        assert_eq!(line, "mkfs.xfs -q -f -K -l size=64m /dev/a");
        assert!(of("ntfs").is_none());
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
            of(fs).unwrap().mount_options(&variant(fs, &[]), journal)
        };
        assert_eq!(options("xfs"), ["noatime", "logdev=/dev/b"]);
        assert_eq!(options("ext4"), ["noatime"]);
    }
}
