//! What a kernel may say in /proc and /sys: the texts of the files below, in their order, with a zero byte
//! between two.
#![no_main]

mod seeds;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use syncprof::guard;
use syncprof::model::devid::DevId;
use syncprof::observe::fsstat::{self, FsStat};
use syncprof::observe::{blockstat, cpustat};
use syncprof::report::Style;
use syncprof::report::inventory::{self, Device, Inventory};
use syncprof::sys::root::Root;
use syncprof::target::{self, usage};

/// Where a device's folder is, and its number. Each is in /sys/class/block and /sys/dev/block too.
const DEVICES: [(&str, &str); 8] = [
    ("pci/host0/sda", "8:0"),
    ("pci/host0/sda/sda1", "8:1"),
    ("pci/host0/sda/sda2", "8:2"),
    ("pci/nvme/nvme0/nvme0n1", "259:0"),
    ("virtual/loop0", "7:0"),
    ("virtual/dm-0", "253:0"),
    ("virtual/md0", "9:0"),
    ("virtual/zram0", "252:0"),
];

/// The files whose texts are made up, and what each has in the first input.
const FILES: &[(&str, &str)] = &[
    (
        "proc/self/mountinfo",
        "36 35 8:1 / /mnt\\040two rw,noatime master:1 shared:2 - ext4 /dev/sda1 rw,data=ordered\n\
         37 35 0:40 / /b rw - btrfs /dev/loop0 rw,subvol=/\n38 35 9:0 / /x rw - xfs /dev/md0 rw,logdev=/dev/sda2\n",
    ),
    ("proc/7/mountinfo", "9 8 253:0 / / rw - ext4 /dev/dm-0 rw\n"),
    (
        "proc/7/fdinfo/3",
        "pos:\t0\nflags:\t0100002\nmnt_id:\t36\nino:\t5\n",
    ),
    ("proc/7/comm", "writer\n"),
    (
        "proc/swaps",
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2                               partition\t1\t0\t-2\n",
    ),
    (
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\n",
    ),
    (
        "proc/meminfo",
        "MemTotal:       25276071 kB\nMemFree: 1 kB\n",
    ),
    (
        "proc/stat",
        "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
    ),
    (
        "proc/sys/kernel/random/boot_id",
        "6f0e2bb1-3f3c-4f0e-8c52-1de1b1a1a1a1\n",
    ),
    ("proc/fs/ext4/sda1/options", "rw\ndata=ordered\nbarrier\n"),
    (
        "proc/fs/jbd2/sda1-8/info",
        include_str!("../../tests/fixtures/counters/jbd2-info-6.18"),
    ),
    (
        "sys/fs/xfs/md0/stats/stats",
        include_str!("../../tests/fixtures/counters/xfs-stats-6.18"),
    ),
    ("sys/fs/ext4/sda1/session_write_kbytes", "17\n"),
    ("sys/devices/pci/host0/sda/size", "2097152\n"),
    (
        "sys/devices/pci/host0/sda/stat",
        " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
    ),
    ("sys/devices/pci/host0/sda/ro", "0\n"),
    (
        "sys/devices/pci/host0/sda/uevent",
        "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\nDISKSEQ=9\n",
    ),
    (
        "sys/devices/pci/host0/sda/queue/logical_block_size",
        "512\n",
    ),
    (
        "sys/devices/pci/host0/sda/queue/physical_block_size",
        "4096\n",
    ),
    (
        "sys/devices/pci/host0/sda/queue/scheduler",
        "none [mq-deadline] kyber\n",
    ),
    (
        "sys/devices/pci/host0/sda/queue/write_cache",
        "write back\n",
    ),
    ("sys/devices/pci/host0/sda/queue/dma_alignment", "511\n"),
    ("sys/devices/pci/host0/sda/queue/max_sectors_kb", "1280\n"),
    ("sys/devices/pci/host0/sda/queue/zoned", "none\n"),
    ("sys/devices/pci/host0/sda/queue/iostats", "1\n"),
    ("sys/devices/pci/host0/sda/device/model", "DISK 7450   \n"),
    ("sys/devices/pci/host0/sda/device/rev", "1.0\n"),
    (
        "sys/devices/pci/host0/sda/device/vpd_pg80",
        "\u{1}\u{80}\u{1}\u{8}S4PNNF0M",
    ),
    ("sys/devices/pci/host0/sda/device/wwid", "naa.5000\n"),
    (
        "sys/devices/pci/host0/sda/device/hwmon/hwmon3/temp1_input",
        "41850\n",
    ),
    ("sys/devices/pci/host0/sda/sda1/partition", "1\n"),
    ("sys/devices/pci/host0/sda/sda1/start", "2048\n"),
    ("sys/devices/pci/host0/sda/sda1/size", "200000\n"),
    ("sys/devices/pci/host0/sda/sda2/partition", "2\n"),
    ("sys/devices/pci/host0/sda/sda2/start", "4096\n"),
    ("sys/devices/pci/host0/sda/sda2/size", "100000\n"),
    ("sys/devices/pci/nvme/nvme0/nvme0n1/size", "2097152\n"),
    ("sys/devices/pci/nvme/nvme0/nvme0n1/wwid", "eui.0025\n"),
    ("sys/devices/pci/nvme/nvme0/nvme0n1/diskseq", "12\n"),
    ("sys/devices/virtual/loop0/size", "204800\n"),
    (
        "sys/devices/virtual/loop0/loop/backing_file",
        "/nowhere/image (deleted)\n",
    ),
    ("sys/devices/virtual/loop0/loop/offset", "1048576\n"),
    ("sys/devices/virtual/dm-0/size", "204800\n"),
    ("sys/devices/virtual/dm-0/dm/name", "vg-lv\n"),
    ("sys/devices/virtual/dm-0/dm/uuid", "LVM-aB1cD2-tpool\n"),
    ("sys/devices/virtual/dm-0/dm/suspended", "0\n"),
    ("sys/devices/virtual/md0/size", "204800\n"),
    ("sys/devices/virtual/md0/md/array_state", "clean\n"),
    ("sys/devices/virtual/zram0/size", "204800\n"),
    (
        "sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/device_path",
        "/dev/sda1\n",
    ),
    (
        "sys/kernel/config/nvmet/subsystems/nqn/namespaces/1/enable",
        "1\n",
    ),
    (
        "sys/kernel/config/target/core/iblock_0/disk/info",
        "iBlock device: sdb  UDEV PATH: /dev/sda  readonly: 0\n        Major: 8 Minor: 0  CLAIMED: IBLOCK\n",
    ),
    (
        "sys/kernel/config/target/core/iblock_0/disk/udev_path",
        "/dev/sda\n",
    ),
];

thread_local! {
    static TREE: RefCell<Tree> = RefCell::new(Tree::new());
}

/// A made-up /proc, /sys and /dev in memory, removed with the process that made it.
struct Tree {
    folder: PathBuf,
    root: Root,
    /// What the files hold.
    texts: Vec<Vec<u8>>,
}

impl Tree {
    fn new() -> Tree {
        let folder = PathBuf::from(format!("/dev/shm/syncprof-fuzz-{}", std::process::id()));
        let path = |at: &str| folder.join(at);
        for (file, _) in FILES {
            fs::create_dir_all(path(file).parent().expect("a folder")).expect("its folder");
        }
        for at in [
            "dev",
            "sys/dev/block",
            "sys/class/block",
            "sys/fs/btrfs/1234/devices",
            "proc/7/fd",
        ] {
            fs::create_dir_all(path(at)).expect("a folder");
        }
        let link = |to: &Path, at: PathBuf| symlink(to, at).expect("a link");
        for (place, number) in DEVICES {
            let at = path("sys/devices").join(place);
            fs::create_dir_all(at.join("slaves"))
                .and_then(|()| fs::create_dir_all(at.join("holders")))
                .expect("its folder");
            fs::write(at.join("dev"), format!("{number}\n")).expect("its number");
            let name = at.file_name().expect("a name");
            fs::write(path("dev").join(name), "").expect("its node");
            link(&at, path("sys/class/block").join(name));
            link(&at, path("sys/dev/block").join(number));
        }
        let of = |index: usize| path("sys/devices").join(DEVICES[index].0);
        link(&of(1), of(5).join("slaves/sda1"));
        link(&of(5), of(1).join("holders/dm-0"));
        link(&of(2), of(6).join("slaves/sda2"));
        link(&of(4), path("sys/fs/btrfs/1234/devices/loop0"));
        link(Path::new("/dev/null"), path("proc/7/fd/3"));
        let root = Root {
            sys: path("sys"),
            proc: path("proc"),
            dev: path("dev"),
        };
        Tree {
            root,
            texts: vec![vec![0]; FILES.len()],
            folder,
        }
    }

    /// Gives the files these texts, and those without one none.
    fn fill(&mut self, input: &[u8]) {
        let mut texts = input.split(|byte| *byte == 0);
        for ((file, _), known) in FILES.iter().zip(&mut self.texts) {
            let text = texts.next().unwrap_or_default();
            if known != text {
                fs::write(self.folder.join(file), text).expect("a file in memory");
                *known = text.to_vec();
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn seeds() {
    let texts: Vec<&str> = FILES.iter().map(|(_, text)| *text).collect();
    seeds::keep("kernel", "all", texts.join("\0").as_bytes());
    seeds::keep("kernel", "mounts", FILES[0].1.as_bytes());
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    TREE.with_borrow_mut(|tree| {
        tree.fill(input);
        let (_, number) = DEVICES[input.len() % DEVICES.len()];
        look(&tree.root, number.parse().expect("a number"));
    });
});

/// Looks at everything that any verb looks at, and closer at one device.
fn look(root: &Root, dev: DevId) {
    target::host(root);
    let _ = target::boot_id(root);
    let mut devices = target::all_devices(root).expect("a folder of devices");
    target::ask_drives(root, &mut devices);
    let mounts = target::mounts(root).expect("mounts");
    for mount in &mounts {
        target::external_journal(root, mount);
        target::journal_ranges(root, mount);
        let stat = FsStat::of(root, mount).read();
        fsstat::since(&stat, &stat);
    }
    let _ = usage::usage(root, dev);
    target::neighbours(root, dev);
    target::partition_places(root, dev);
    target::temperature_c(root, dev);
    if let Some(stat) = blockstat::read(root, dev) {
        blockstat::since(&stat, &stat);
    }
    let _ = target::stack(root, dev);
    target::takes_space(root, dev, 64 << 20);
    if let Some(share) = cpustat::read(root) {
        cpustat::since(&share, &share);
    }
    let devices = devices.into_iter().map(|facts| {
        let is_judged = facts.dev == dev;
        let refusal = is_judged.then(|| guard::writable(root, &facts).err());
        Device {
            facts,
            writable_by_raw: false,
            reason: refusal.flatten().map(|refusal| refusal.to_string()),
        }
    });
    let inventory = Inventory {
        devices: devices.collect(),
        mounts,
    };
    inventory::warnings(&inventory);
    inventory::render(
        &inventory,
        &Style {
            width: Some(80),
            color: false,
        },
    );
    serde_json::to_string(&inventory).expect("JSON");
}
