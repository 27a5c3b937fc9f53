use super::*;
use std::os::unix::fs::DirBuilderExt;
use tempfile::TempDir;

/// A state folder and a directory with a scratch folder.
struct Ground {
    state: TempDir,
    data: TempDir,
    folder: PathBuf,
}

impl Ground {
    /// A folder with a file in it, and no owner file.
    fn unclaimed() -> Ground {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = data.path().join(format!("{PREFIX}1"));
        fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
        Ground {
            state,
            data,
            folder,
        }
    }

    /// As a run that was killed leaves it.
    fn killed() -> Ground {
        let ground = Ground::unclaimed();
        let owner = ground.owner();
        ground.write(&ground.folder.join(OWNER_FILE), &owner);
        ground.write(&ground.entry(), &owner);
        ground
    }

    fn owner(&self) -> Owner {
        Owner::this_process(&Root::host(), &self.folder).unwrap()
    }

    fn entry(&self) -> PathBuf {
        self.state.path().join(format!("{PREFIX}1.json"))
    }

    fn write(&self, path: &Path, owner: &Owner) {
        fs::write(path, serde_json::to_string(owner).unwrap()).unwrap();
    }

    fn by_entry(&self) -> Vec<Leftover> {
        find(&Root::host(), Some(self.state.path()), &[])
    }

    fn by_name(&self) -> Vec<Leftover> {
        find(&Root::host(), None, &[self.data.path().to_owned()])
    }

    /// Found, but not removed; gives the reason.
    #[track_caller]
    fn stays(&self, found: &[Leftover]) -> String {
        assert_eq!(found.len(), 1);
        let error = remove(&found[0]).unwrap_err().to_string();
        assert!(self.folder.join("file").exists());
        error
    }
}

#[test]
fn what_is_no_file_in_the_state_folder_is_not_read() {
    let state = tempfile::tempdir().unwrap();
    let mode = nix::sys::stat::Mode::S_IRWXU;
    let pipe = state.path().join(format!("{PREFIX}1.json"));
    nix::unistd::mkfifo(&pipe, mode).unwrap();
    assert!(find(&Root::host(), Some(state.path()), &[]).is_empty());
}

#[test]
fn what_this_process_could_not_remove_is_its_own() {
    let ground = Ground::killed();
    let own = own(&Root::host(), Some(ground.state.path()));
    assert_eq!(own, std::slice::from_ref(&ground.folder));
}

#[test]
fn what_a_killed_run_left_is_found_by_either_way_and_removed() {
    let ground = Ground::killed();
    assert_eq!(ground.by_name().len(), 1);
    let (state, data) = (ground.state.path(), ground.data.path().to_owned());
    // Once, though both ways lead to it.
    let found = find(&Root::host(), Some(state), &[data]);
    assert_eq!(found.len(), 1);
    remove(&found[0]).unwrap();
    assert!(!ground.folder.exists() && !ground.entry().exists());
}

/// Its process may be one that cannot be seen from here, as in another PID namespace.
#[test]
fn what_is_locked_is_in_use_whoever_its_process_is() {
    for lock_entry in [false, true] {
        let ground = Ground::killed();
        let mut owner = ground.owner();
        owner.pid = u32::MAX;
        ground.write(&ground.folder.join(OWNER_FILE), &owner);
        ground.write(&ground.entry(), &owner);
        let path = if lock_entry {
            ground.entry()
        } else {
            ground.folder.clone()
        };
        let lock = File::open(path).unwrap();
        lock.try_lock().unwrap();
        assert!(ground.by_entry().is_empty());
        assert_eq!(ground.by_name().is_empty(), !lock_entry);
        drop(lock);
        assert_eq!(ground.by_entry().len(), 1);
    }
}

#[test]
fn a_running_process_of_an_earlier_version_which_took_no_lock_is_left_alone() {
    let ground = Ground::killed();
    let mut owner = Owner {
        machine: None,
        ..ground.owner()
    };
    let mut text = serde_json::to_value(&owner).unwrap();
    text.as_object_mut().unwrap().remove("machine");
    fs::write(ground.folder.join(OWNER_FILE), text.to_string()).unwrap();
    fs::write(ground.entry(), text.to_string()).unwrap();
    assert!(ground.by_entry().is_empty() && ground.by_name().is_empty());
    owner.start_ticks += 1;
    ground.write(&ground.folder.join(OWNER_FILE), &owner);
    assert_eq!(ground.by_name().len(), 1);
    ground.write(&ground.entry(), &owner);
    remove(&ground.by_entry()[0]).unwrap();
    assert!(!ground.folder.exists() && !ground.entry().exists());
}

#[test]
fn what_another_machine_left_is_not_this_ones_to_remove() {
    let ground = Ground::killed();
    let mut owner = ground.owner();
    owner.machine = Some("another".to_owned());
    ground.write(&ground.folder.join(OWNER_FILE), &owner);
    assert!(ground.by_name().is_empty());
    ground.write(&ground.entry(), &owner);
    assert!(ground.by_entry().is_empty() && ground.entry().exists());
}

/// Whoever may write in a directory may give a folder that is root's the name of a scratch folder.
#[test]
fn a_name_alone_has_no_file_removed() {
    let ground = Ground::unclaimed();
    assert!(ground.stays(&ground.by_name()).contains("not empty"));
    fs::write(ground.folder.join(OWNER_FILE), "").unwrap();
    assert!(ground.stays(&ground.by_name()).contains("not empty"));
    fs::write(ground.folder.join(OWNER_FILE), "{}").unwrap();
    assert!(ground.stays(&ground.by_name()).contains(OWNER_FILE));
    let mut owner = ground.owner();
    owner.folder.set_file_name(format!("{PREFIX}2"));
    ground.write(&ground.folder.join(OWNER_FILE), &owner);
    assert!(ground.stays(&ground.by_name()).contains(OWNER_FILE));
    let elsewhere = ground.data.path().join("elsewhere");
    ground.write(&elsewhere, &ground.owner());
    fs::remove_file(ground.folder.join(OWNER_FILE)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, ground.folder.join(OWNER_FILE)).unwrap();
    assert!(ground.stays(&ground.by_name()).contains(OWNER_FILE));
}

#[test]
fn an_owner_file_that_is_another_users_says_nothing() {
    if !crate::sys::is_root() {
        return;
    }
    let ground = Ground::killed();
    let owner_file = ground.folder.join(OWNER_FILE);
    std::os::unix::fs::chown(&owner_file, Some(65_534), None).unwrap();
    assert!(ground.stays(&ground.by_name()).contains(OWNER_FILE));
}

#[test]
fn an_entry_that_tells_another_story_has_no_file_removed() {
    let ground = Ground::killed();
    let mut owner = ground.owner();
    owner.start_ticks += 1;
    ground.write(&ground.entry(), &owner);
    assert!(ground.stays(&ground.by_entry()).contains(OWNER_FILE));
    assert!(ground.entry().exists());
}

#[test]
fn what_a_kill_left_half_made_goes() {
    for file in [None, Some(OWNER_FILE)] {
        let ground = Ground::unclaimed();
        fs::remove_file(ground.folder.join("file")).unwrap();
        if let Some(name) = file {
            fs::write(ground.folder.join(name), "").unwrap();
        }
        ground.write(&ground.entry(), &ground.owner());
        remove(&ground.by_entry()[0]).unwrap();
        assert!(!ground.folder.exists() && !ground.entry().exists());
    }
}

#[test]
fn an_entry_whose_folder_is_gone_goes() {
    let ground = Ground::killed();
    fs::remove_dir_all(&ground.folder).unwrap();
    assert!(ground.by_entry().is_empty() && !ground.entry().exists());
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let data = tempfile::tempdir().unwrap();
    let precious = data.path().join("precious");
    fs::create_dir(&precious).unwrap();
    std::os::unix::fs::symlink(&precious, data.path().join(format!("{PREFIX}3"))).unwrap();
    assert!(find(&Root::host(), None, &[data.path().to_owned()]).is_empty());
}

fn told(ground: &Ground) -> Vec<(PathBuf, String)> {
    let (state, data) = (Some(ground.state.path()), [ground.data.path().to_owned()]);
    let found = find(&Root::host(), state, &data);
    left_alone(&Root::host(), state, &data, &found)
}

#[test]
fn what_stays_is_told_with_the_reason() {
    let ground = Ground::killed();
    assert_eq!(told(&ground), [], "it is found");
    let mut owner = ground.owner();
    owner.machine = Some("another".to_owned());
    ground.write(&ground.folder.join(OWNER_FILE), &owner);
    fs::remove_file(ground.entry()).unwrap();
    let [(folder, why)] = &told(&ground)[..] else {
        panic!("{:?}", told(&ground));
    };
    assert_eq!(*folder, ground.folder);
    assert!(why.contains("another machine (another)"), "{why}");
    let lock = File::open(&ground.folder).unwrap();
    lock.try_lock().unwrap();
    ground.write(&ground.folder.join(OWNER_FILE), &ground.owner());
    assert!(told(&ground)[0].1.contains("goes on (process "));
}

/// As once the filesystem is unmounted: the state folder's entry stays for when it comes back.
#[test]
fn an_entry_that_stays_is_told() {
    let ground = Ground::killed();
    let unmounted = ground.data.path().with_extension("away");
    fs::rename(ground.data.path(), &unmounted).unwrap();
    let found = find(&Root::host(), Some(ground.state.path()), &[]);
    let told = left_alone(&Root::host(), Some(ground.state.path()), &[], &found);
    fs::rename(&unmounted, ground.data.path()).unwrap();
    assert!(told[0].1.contains("is not there"), "{told:?}");
    assert!(told[0].1.contains(ground.entry().to_str().unwrap()));
}

#[test]
fn a_directory_that_cannot_be_looked_into_is_told() {
    let nowhere = PathBuf::from("/nowhere/at/all");
    let told = left_alone(&Root::host(), None, std::slice::from_ref(&nowhere), &[]);
    assert_eq!(told.len(), 1);
    assert!(told[0].1.contains("No such file"), "{told:?}");
}
