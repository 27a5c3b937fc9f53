//! A filesystem with other people's files, none of which may change.

use std::collections::BTreeMap;
use std::fs;

use super::{Loop, Mount, digest, system};

/// A filesystem full of other people's files, some with holes, some shared or small.
pub fn populated(fs: &str) -> Mount {
    let mount = Loop::new(if fs == "xfs" { 400 } else { 256 }).mounted(fs);
    let mut random = fastrand::Rng::with_seed(1);
    for index in 0..60 {
        let mut bytes = vec![0; random.usize(1..1_000_000)];
        random.fill(&mut bytes);
        let path = mount.path().join(format!("other-{index}"));
        fs::write(&path, &bytes).unwrap();
        if index % 3 == 0 {
            // Freed space in many pieces makes the scratch file's extents short.
            fs::remove_file(&path).unwrap();
        }
    }
    system("sync", &["-f", mount.dir()]);
    mount
}

pub fn digests(mount: &Mount) -> BTreeMap<String, String> {
    let files = mount
        .names()
        .into_iter()
        .filter(|name| name.starts_with("other"));
    files
        .map(|name| (name.clone(), digest(&mount.path().join(name))))
        .collect()
}

pub fn check(fs: &str, device: &Loop) {
    match fs {
        "xfs" => system("xfs_repair", &["-n", device.node()]),
        _ => system("e2fsck", &["-fn", device.node()]),
    };
}
