//! First inputs, from what the tests have: `corpus/TARGET/NAME`.
#![allow(dead_code)] // Each target uses its own part of this.

use std::fs;
use std::path::{Path, PathBuf};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Keeps a first input of a target.
pub fn keep(target: &str, name: &str, input: &[u8]) {
    let folder = Path::new(HERE).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a folder for first inputs");
    fs::write(folder.join(name), input).expect("a first input");
}

/// The files in a folder of the repository, each with its path and bytes, in the order of their names.
pub fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(HERE).join("..").join(folder);
    let entries = fs::read_dir(&folder).expect("a folder of the repository");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let files = paths.into_iter().filter(|path| path.is_file());
    files
        .map(|path| (path.clone(), fs::read(path).expect("a file")))
        .collect()
}

/// What a file's name is, without its ending.
pub fn stem(path: &Path) -> &str {
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a name")
}
