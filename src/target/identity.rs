//! Who made a drive, and how it is connected.

use std::fs;
use std::path::Path;

use super::sysfs::{is_partition, names, text, value};
use crate::model::facts::PcieLink;
use crate::sys::root::Root;

/// What a drive says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Model.
    pub(super) model: Option<String>,
    /// Serial number.
    pub(super) serial: Option<String>,
    /// Firmware revision.
    pub(super) firmware: Option<String>,
}

/// What the drive under a disk's directory says of itself. NVMe has `model`, `serial` and
/// `firmware_rev` (drivers/nvme/host/sysfs.c), SCSI `vendor`, `model`, `rev` and the page of the
/// serial number (drivers/scsi/scsi_sysfs.c), virtio a `serial` beside the disk's own attributes
/// (drivers/block/virtio_blk.c), MMC `name`, `serial` and `fwrev` (drivers/mmc/core/mmc.c).
pub(super) fn identity(disk: &Path) -> Identity {
    let device = disk.join("device");
    let model = text(device.join("model")).or_else(|| text(device.join("name")));
    // libata puts "ATA" where a SCSI disk has its maker (drivers/ata/libata-scsi.c). virtio and
    // PCI functions have a vendor too, but no model: theirs is a number.
    let vendor = text(device.join("vendor")).filter(|vendor| vendor != "ATA");
    Identity {
        model: match (vendor, model) {
            (Some(vendor), Some(model)) if device.join("rev").exists() => {
                Some(format!("{vendor} {model}"))
            }
            (_, model) => model,
        },
        serial: text(device.join("serial"))
            .or_else(|| {
                fs::read(device.join("vpd_pg80"))
                    .ok()
                    .and_then(|page| unit_serial(&page))
            })
            .or_else(|| text(disk.join("serial")))
            .or_else(|| text(device.join("wwid"))),
        firmware: ["firmware_rev", "rev", "fwrev"]
            .iter()
            .find_map(|file| text(device.join(file))),
    }
}

/// Whether no other disk of this host has this serial number: enclosures give one to all their disks.
pub fn is_only_serial(root: &Root, serial: &str) -> bool {
    let class = root.sys.join("class/block");
    let disks = names(&class).into_iter().map(|name| class.join(name));
    let disks = disks.filter(|dir| !is_partition(dir));
    let same = disks.filter(|dir| identity(dir).serial.as_deref() == Some(serial));
    same.take(2).count() < 2
}

/// The serial number of SCSI's Unit Serial Number page: a header of four bytes, of which the last
/// two are the length (SPC-4 7.8.15), then ASCII padded with blanks.
fn unit_serial(page: &[u8]) -> Option<String> {
    let header = page.get(..4)?;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let bytes = page.get(4..4 + length)?;
    let serial = String::from_utf8_lossy(bytes);
    let serial = serial.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!serial.is_empty()).then(|| serial.to_owned())
}

/// The link of the PCIe function nearest above a disk: the drive's own for NVMe, its controller's
/// else (drivers/pci/pci-sysfs.c).
pub(super) fn pcie_link(root: &Root, disk: &Path) -> Option<PcieLink> {
    let device = disk.join("device").canonicalize().ok()?;
    let top = root.sys.canonicalize().ok()?;
    let function = device
        .ancestors()
        .take_while(|dir| dir.starts_with(&top))
        .find(|dir| dir.join("current_link_speed").exists())?;
    let speed = |file| text(function.join(file)).filter(|speed| !speed.starts_with("Unknown"));
    // A width that couldn't be read shows as 0 or 255.
    let width = |file| value::<u32>(function.join(file)).filter(|&width| (1..255).contains(&width));
    let link = PcieLink {
        speed: speed("current_link_speed"),
        width: width("current_link_width"),
        max_speed: speed("max_link_speed"),
        max_width: width("max_link_width"),
    };
    // Virtual functions have the files without anything in them.
    (link.speed.is_some() || link.width.is_some()).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_that_two_disks_have_is_not_the_only_one() {
        let sys = tempfile::tempdir().unwrap();
        let root = Root {
            sys: sys.path().to_owned(),
            ..Root::host()
        };
        let disk = |name: &str, serial: &str| {
            let dir = sys.path().join("class/block").join(name);
            fs::create_dir_all(dir.join("device")).unwrap();
            fs::write(dir.join("device/serial"), serial).unwrap();
        };
        disk("sda", "ENCLOSURE\n");
        disk("sdb", "S1\n");
        assert!(is_only_serial(&root, "ENCLOSURE"));
        disk("sdc", "ENCLOSURE\n");
        assert!(!is_only_serial(&root, "ENCLOSURE"));
        assert!(is_only_serial(&root, "S1"));
    }

    #[test]
    fn a_serial_number_page_gives_its_text() {
        let page = b"\x00\x80\x00\x0a  S4PNNF0M";
        assert_eq!(unit_serial(page).as_deref(), Some("S4PNNF0M"));
    }

    #[test]
    fn a_cut_serial_number_page_gives_nothing() {
        assert_eq!(unit_serial(b"\x00\x80\x00"), None);
        assert_eq!(unit_serial(b"\x00\x80\x00\x20short"), None);
        assert_eq!(unit_serial(b"\x00\x80\x00\x02  "), None);
    }
}
