//! What becomes of O_DIRECT on filesystems that refuse it or ignore it, of sizes in units that differ, and of
//! blocks that straddle others.

mod support;

use std::fs;

use serde_json::Value;
use support::fuse::{Fuse, Manners};
use support::{Loop, Program, Ran, cells, system};

const QUICK: &[&str] = &["--rounds", "2", "--budget", "1s"];
const MIB: u64 = 1 << 20;

/// 64 MiB of which 32 are free, in fragments of 4 KiB and blocks of 1 MiB.
fn fuse(refuses: fn(u32) -> Option<i32>) -> Fuse {
    Fuse::new(Manners {
        transfer_bytes: 1 << 20,
        fragment_bytes: 4096,
        fragments: 64 * MIB / 4096,
        refuses,
    })
}

fn measured(dir: &str, more: &[&str]) -> (Ran, Value) {
    Program::new().measure(&[&["file", dir], more, QUICK].concat())
}

/// Whether the kernel refused a cell's direct writes, or ignored that they should be.
fn lost(cell: &Value) -> Option<bool> {
    cell["buffered"]["is_refused"].as_bool()
}

#[test]
fn space_is_counted_in_fragments_and_not_in_blocks() {
    needs_root!();
    let mount = fuse(|_| None);
    let (ran, record) = measured(mount.dir(), &["--sizes", "4k"]);
    ran.exits(0);
    assert_eq!(record["targets"][0]["mount"]["free_bytes"], 32 * MIB);
    let cell = cells(&record, "file")[0];
    assert!(cell["span_bytes"].as_u64().unwrap() <= 16 * MIB, "{cell:#}");
    assert_eq!(lost(cell), None, "{cell:#}");
    let args = ["file", mount.dir(), "--span", "24m"];
    Program::new().run(&args).exits(4).says_one_line("32.0 MiB");
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
}

#[test]
fn a_cell_whose_direct_writes_are_refused_is_measured_buffered_and_labelled() {
    needs_root!();
    for errno in [libc::EINVAL, libc::EOPNOTSUPP] {
        let mount = match errno {
            libc::EINVAL => fuse(|bytes| (bytes % 65536 != 0).then_some(libc::EINVAL)),
            _ => fuse(|bytes| (bytes % 65536 != 0).then_some(libc::EOPNOTSUPP)),
        };
        let states = "overwrite,append,trunc-each";
        let args = ["--sizes", "4k,64k", "--file-state", states, "--span", "2m"];
        let (ran, record) = measured(mount.dir(), &args);
        ran.exits(0)
            .says("refuses direct writes of 4K")
            .says("--direct off")
            .prints("4K o_dsync overwrite buffered: median");
        for cell in cells(&record, "file") {
            let is_small = cell["size_bytes"] == 4096;
            assert_eq!(lost(cell), is_small.then_some(true), "{cell:#}");
            assert!(cell["ops"].as_u64().unwrap() > 0, "{cell:#}");
        }
    }
}

#[test]
fn a_cell_whose_direct_writes_are_refused_fails_where_they_were_insisted_on() {
    needs_root!();
    let mount = fuse(|bytes| (bytes % 65536 != 0).then_some(libc::EINVAL));
    let args = ["--sizes", "4k,64k", "--span", "2m", "--direct", "on"];
    let (ran, record) = measured(mount.dir(), &args);
    ran.exits(1).says("EINVAL").says("another filesystem");
    let [small, large] = cells(&record, "file")[..] else {
        panic!("{record:#}");
    };
    assert_eq!((small["ops"].as_u64(), lost(small)), (Some(0), None));
    assert!(large["ops"].as_u64().unwrap() > 0 && large["failed"].is_null());
}

#[test]
fn a_log_whose_direct_writes_are_refused_is_written_without() {
    needs_root!();
    let mount = fuse(|_| Some(libc::EINVAL));
    let args = [
        "--workload",
        "wal-append",
        "--segment-size",
        "1m",
        "--duration",
        "2s",
        "--repeat",
        "1",
    ];
    let (ran, record) = Program::new().measure(&[&["file", mount.dir()], &args[..]].concat());
    ran.exits(0).says("refuses direct writes");
    assert!(record["targets"][0]["buffered"].is_string());
}

/// The pages are gone when the write is done, so that mincore(2) sees none.
#[test]
fn direct_writes_that_btrfs_buffers_are_seen_and_those_that_it_makes_too() {
    needs_root!();
    let mount = Loop::new(192).mounted("btrfs");
    let release = system("uname", &["-r"]);
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap());
    let buffers = (numbers.next(), numbers.next()) >= (Some(6), Some(15));
    for (flag, is_lost) in [("-C", buffers), ("+C", false)] {
        system("chattr", &[flag, mount.dir()]);
        let (ran, record) = measured(mount.dir(), &["--sizes", "4k", "--span", "2m"]);
        let ran = ran.exits(0);
        let cell = cells(&record, "file")[0];
        assert_eq!(lost(cell), is_lost.then_some(false), "{flag} {ran:#?}");
        assert_eq!(
            ran.stdout.contains("overwrite buffered"),
            is_lost,
            "{ran:#?}"
        );
    }
}

#[test]
fn the_speed_of_memory_is_told_as_such() {
    needs_root!();
    let device = Loop::new(16);
    let args = ["--sizes", "4k", "--method", "none", "--span", "1m"];
    for (direct, is_told) in [("off", true), ("on", false)] {
        let args = [
            &["raw", device.node(), "--direct", direct][..],
            &args,
            QUICK,
        ]
        .concat();
        let (ran, _) = Program::new().measure(&args);
        let ran = ran.exits(0);
        assert_eq!(ran.stdout.contains("speed of memory"), is_told, "{ran:#?}");
        assert_eq!(ran.stderr.contains("those of memory"), is_told, "{ran:#?}");
    }
}

#[test]
fn a_loop_device_that_begins_within_a_block_of_its_file_is_told() {
    needs_root!();
    let folder = support::folder();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(8 * MIB).unwrap();
    for (offset, is_told) in [("17920", true), ("20480", false)] {
        let device = Loop::over(&image, &["--offset", offset]);
        let args = ["raw", device.node(), "--sizes", "4k", "--span", "1m"];
        let (ran, _) = Program::new().measure(&[&args[..], QUICK].concat());
        let ran = ran.exits(0);
        let told = format!("begins {offset} bytes into {}", image.display());
        assert_eq!(ran.stdout.contains(&told), is_told, "{ran:#?}");
    }
}
