use super::*;
use crate::model::cell::Method;
use crate::model::fixture;
use proptest::prelude::*;

const RECEIVED: &str = "2026-01-02T03:04:05Z";

fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(folder.path()).unwrap()
}

fn wrote(store: &Store, pledge: &Manifest, sequence: u64) {
    let (mut log, _) = store.begin(pledge).unwrap().unwrap();
    log.wrote(sequence).unwrap();
}

#[test]
fn a_run_is_there_after_the_witness_began_anew() {
    let folder = tempfile::tempdir().unwrap();
    let pledge = fixture::pledge(1);
    {
        let store = open(&folder);
        let (mut log, sequence) = store.begin(&pledge).unwrap().unwrap();
        assert_eq!(sequence, 0);
        log.wrote(7).unwrap();
    }
    let store = open(&folder);
    let run = store.find(&pledge.id).unwrap().unwrap();
    assert_eq!((run.promised, run.ended), (7, false));
    assert_eq!(run.pledge, pledge);
    let (mut log, sequence) = store.begin(&pledge).unwrap().unwrap();
    assert_eq!(sequence, 7);
    log.ended(9).unwrap();
    assert!(store.begin(&pledge).unwrap().is_none(), "it is over");
    let otherwise = Manifest {
        window: 2,
        ..pledge.clone()
    };
    let refused = store.begin(&otherwise);
    assert!(matches!(refused, Err(StoreError::Known(_))));
    let newest = store.newest(&pledge.device).unwrap().unwrap();
    assert_eq!((newest.promised, newest.ended), (9, true));
}

#[test]
fn a_log_that_has_grown_is_short_again_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (store, pledge) = (open(&folder), fixture::pledge(1));
    let (mut log, _) = store.begin(&pledge).unwrap().unwrap();
    let (mut other, _) = store.begin(&pledge).unwrap().unwrap();
    (1..=50).for_each(|sequence| log.wrote(sequence).unwrap());
    let counts = Counts::default();
    store
        .checked(&pledge.id, "boot".to_owned(), counts)
        .unwrap();
    let lines = || {
        fs::read_to_string(store.path(&pledge.id))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(lines(), 52);
    log.added_bytes = MOST_ADDED_BYTES;
    log.wrote(51).unwrap();
    assert_eq!(lines(), 3);
    let found = || store.find(&pledge.id).unwrap().unwrap();
    assert_eq!((found().promised, found().checks.len()), (51, 1));
    // What goes on with the file of before is no promise.
    assert!(other.wrote(52).is_err());
    other.added_bytes = MOST_ADDED_BYTES + 1;
    other.shorten().unwrap();
    log.wrote(52).unwrap();
    assert_eq!((found().promised, lines()), (52, 4));
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "the run's file and the lock");
}

#[test]
fn a_line_that_was_cut_off_counts_for_nothing_and_spoils_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (store, pledge) = (open(&folder), fixture::pledge(1));
    wrote(&store, &pledge, 7);
    let path = store.path(&pledge.id);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"wrote\":1234");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(store.find(&pledge.id).unwrap().unwrap().promised, 7);
    wrote(&store, &pledge, 8);
    assert_eq!(store.find(&pledge.id).unwrap().unwrap().promised, 8);
}

#[test]
fn a_link_in_the_folder_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let link = |name: &str| {
        let _ = fs::remove_file(folder.path().join(name));
        std::os::unix::fs::symlink(&target, folder.path().join(name)).unwrap();
    };
    link("lock");
    assert!(Store::open(folder.path()).is_err() && !target.exists());
    fs::remove_file(folder.path().join("lock")).unwrap();
    let (store, pledge) = (open(&folder), fixture::pledge(1));
    wrote(&store, &pledge, 7);
    let path = store.path(&pledge.id);
    fs::rename(&path, &target).unwrap();
    link(path.file_name().unwrap().to_str().unwrap());
    let before = fs::read(&target).unwrap();
    assert!(store.begin(&pledge).is_err());
    assert_eq!(fs::read(&target).unwrap(), before);
}

#[test]
fn a_run_that_may_have_overwritten_another_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let [first, silent, second, idle] = [1, 2, 3, 4].map(fixture::pledge);
    let newest = || store.newest(&first.device).unwrap().unwrap();
    wrote(&store, &first, 9);
    assert_eq!(store.later(&newest()).unwrap(), None);
    // Its first record may have been written, and not been reported any more.
    store.begin(&silent).unwrap();
    let run = store.find(&first.id).unwrap().unwrap();
    assert_eq!(store.later(&run).unwrap(), Some(silent.id.clone()));
    assert_eq!(newest().pledge.id, silent.id);
    wrote(&store, &second, 1);
    assert_eq!(store.later(&run).unwrap(), Some(second.id.clone()));
    // This one said that it wrote nothing.
    let (mut log, _) = store.begin(&idle).unwrap().unwrap();
    log.ended(0).unwrap();
    assert_eq!(newest().pledge.id, second.id);
    assert_eq!(store.later(&newest()).unwrap(), None);
}

#[test]
fn cuts_are_counted_by_device_and_by_what_was_found_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let lost = Counts {
        lost: 1,
        ..Counts::default()
    };
    let other = |id: u32| {
        let mut pledge = fixture::pledge(id);
        pledge.device.name = "sdz".to_owned();
        pledge
    };
    let flushed = Manifest {
        method: Method::Fdatasync,
        ..fixture::pledge(5)
    };
    // Intact after a cut, then overwritten; lost after a cut; checked without a cut; another device;
    // another method.
    let alike = [1, 2, 3].map(fixture::pledge);
    for pledge in alike.iter().chain([&other(4), &flushed]) {
        wrote(&store, pledge, 1);
    }
    let id = |n: u32| fixture::pledge(n).id;
    let later = || "later".to_owned();
    store.checked(&id(1), later(), Counts::default()).unwrap();
    store.checked(&id(1), later(), lost).unwrap();
    store.checked(&id(2), later(), lost).unwrap();
    let same = fixture::pledge(3).boot_id;
    let tally = store.checked(&id(3), same, lost).unwrap();
    let expected = Tally {
        runs: 3,
        cuts: 2,
        survived: 1,
    };
    assert_eq!(tally, expected);
    let tally = store.checked(&flushed.id, later(), Counts::default());
    let expected = Tally {
        runs: 1,
        cuts: 1,
        survived: 1,
    };
    assert_eq!(tally.unwrap(), expected);
}

#[test]
fn an_id_names_no_file_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("state")).unwrap();
    let line = Line::Begun {
        received: RECEIVED.to_owned(),
        pledge: fixture::pledge(1),
    };
    let line = super::super::codec::line(&line).unwrap();
    fs::write(folder.path().join("outside.jsonl"), line).unwrap();
    assert_eq!(store.find("../outside").unwrap(), None);
}

#[test]
fn two_witnesses_share_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(&folder);
    assert!(matches!(
        Store::open(folder.path()),
        Err(StoreError::InUse(_))
    ));
    drop(first);
    open(&folder);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(Run::parse(bytes.as_slice()).unwrap(), None);
    }

    #[test]
    fn of_a_file_that_is_cut_anywhere_whole_lines_count(keep in any::<proptest::sample::Index>()) {
        let begun = Line::Begun { received: RECEIVED.to_owned(), pledge: fixture::pledge(1) };
        let mut bytes = super::super::codec::line(&begun).unwrap();
        let first = bytes.len();
        for sequence in 1..=50 {
            bytes.extend(super::super::codec::line(&Line::Wrote(sequence)).unwrap());
        }
        let kept = &bytes[..keep.index(bytes.len())];
        let lines = kept.iter().filter(|&&byte| byte == b'\n').count() as u64;
        match Run::parse(kept).unwrap() {
            None => prop_assert!(kept.len() < first),
            Some(run) => prop_assert_eq!(run.promised, lines - 1),
        }
    }
}
