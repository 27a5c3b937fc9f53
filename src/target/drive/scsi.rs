//! SCSI and ATA drives. The driver's view is in sysfs for everybody; the drive's own takes root.

use std::fs::File;
use std::path::Path;

use super::super::sysfs::{flag, text};
use super::u16_at;
use crate::model::drive::{DriveCache, DriveFacts, Interface};
use crate::sys::sg::{self, Query};

/// The cache as a drive tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    present: Option<bool>,
    enabled: Option<bool>,
    fua: Option<bool>,
}

/// The facts of a disk with the SCSI device `device` and the directory `driver` of its driver
/// (Documentation/ABI/testing/sysfs-block-device and drivers/scsi/sd.c). `open` opens its node.
pub(super) fn facts(
    device: &Path,
    driver: &Path,
    open: impl FnOnce() -> Result<File, String>,
) -> DriveFacts {
    // libata puts "ATA" where a SCSI disk has its maker (drivers/ata/libata-scsi.c).
    let is_ata = text(device.join("vendor")).is_some_and(|vendor| vendor == "ATA");
    let mut unanswered = Vec::new();
    let told = if is_behind_usb(device) {
        unanswered.push("not asked: some USB bridges hang when they are".to_owned());
        Told::default()
    } else {
        match open() {
            Ok(node) => ask(&node, is_ata, &mut unanswered),
            Err(error) => {
                unanswered.push(error);
                Told::default()
            }
        }
    };
    DriveFacts {
        interface: if is_ata {
            Interface::Ata
        } else {
            Interface::Scsi
        },
        cache: DriveCache {
            present: told.present,
            enabled: told.enabled,
            driver: text(driver.join("cache_type")),
            driver_fua: flag(driver.join("FUA")),
        },
        fua: told.fua,
        nvme: None,
        health: None,
        unanswered,
    }
}

/// Its devices hang below a root hub, `usb1`.
fn is_behind_usb(device: &Path) -> bool {
    device.canonicalize().is_ok_and(|path| {
        let parts = path.components();
        let mut names = parts.map(|part| part.as_os_str().to_string_lossy());
        names.any(|name| {
            name.strip_prefix("usb")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
    })
}

/// An ATA drive is asked itself; if the way to it lets no ATA command through, its SCSI translation
/// is.
fn ask(node: &File, is_ata: bool, unanswered: &mut Vec<String>) -> Told {
    if is_ata {
        match sg::ask(node, Query::AtaIdentify) {
            Ok(data) => return identify(&data),
            Err(error) => unanswered.push(format!("cannot read IDENTIFY DEVICE: {error}")),
        }
    }
    match sg::ask(node, Query::CachingPage) {
        Ok(data) => caching_page(&data).unwrap_or_else(|| {
            unanswered.push("it has no caching mode page".to_owned());
            Told::default()
        }),
        Err(error) => {
            unanswered.push(format!("cannot read the caching mode page: {error}"));
            Told::default()
        }
    }
}

/// MODE SENSE(6)'s answer: a header of 4 bytes, whose byte 2 has DPOFUA in bit 4 (SBC-3 6.5.1) and
/// whose byte 3 is the length of block descriptors that may come all the same; then the page, whose
/// byte 2 has WCE in bit 2 (SBC-3 6.5.5).
pub fn caching_page(data: &[u8]) -> Option<Told> {
    let header = data.get(..4)?;
    let page = data.get(4 + usize::from(header[3])..)?;
    let (&code, &bits) = (page.first()?, page.get(2)?);
    (code & 0x3F == 0x08).then(|| Told {
        present: None,
        enabled: Some(bits & 1 << 2 != 0),
        fua: Some(header[2] & 1 << 4 != 0),
    })
}

/// IDENTIFY DEVICE: word 82 bit 5 is whether there is a volatile write cache, word 85 bit 5 whether it
/// is on, word 84 bit 6 WRITE DMA FUA EXT. Words 83, 84 and 87 have 01b in their uppermost bits where
/// those words are valid (ACS-3 7.12.7).
pub fn identify(data: &[u8]) -> Told {
    let word = |number: usize| u16_at(data, 2 * number);
    let is_valid = |number| word(number).is_some_and(|word| word >> 14 == 1);
    let bit = |number, bit: u16, valid| {
        let word = word(number).filter(|_| is_valid(valid));
        word.map(|word| word & 1 << bit != 0)
    };
    Told {
        present: bit(82, 5, 83),
        enabled: bit(85, 5, 87),
        fua: bit(84, 6, 84),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caching_page_tells_of_cache_and_fua() {
        // As scsi_debug answers: WCE set, DPOFUA set, no block descriptor.
        let page = [0x17, 0, 0x10, 0, 0x08, 0x12, 0x14, 0, 0xFF, 0xFF];
        let on = Told {
            present: None,
            enabled: Some(true),
            fua: Some(true),
        };
        assert_eq!(caching_page(&page), Some(on));
        // Off, no FUA, and a block descriptor before the page.
        let page = [0x1F, 0, 0, 8, 9, 9, 9, 9, 9, 9, 9, 9, 0x88, 0x12, 0x10];
        let off = Told {
            present: None,
            enabled: Some(false),
            fua: Some(false),
        };
        assert_eq!(caching_page(&page), Some(off));
    }

    #[test]
    fn a_cut_or_other_page_tells_nothing() {
        assert_eq!(caching_page(&[]), None);
        assert_eq!(caching_page(&[0x17, 0, 0x10, 200, 0x08, 0x12, 0x04]), None);
        assert_eq!(caching_page(&[0x17, 0, 0x10, 0, 0x08]), None);
        assert_eq!(caching_page(&[0x17, 0, 0x10, 0, 0x0A, 0x0A, 0x04]), None);
    }

    fn identify_data(words: &[(usize, u16)]) -> Vec<u8> {
        let mut data = vec![0; 512];
        for &(number, word) in words {
            data[2 * number..2 * number + 2].copy_from_slice(&word.to_le_bytes());
        }
        data
    }

    #[test]
    fn an_ata_drive_tells_of_cache_and_fua() {
        let data = identify_data(&[
            (82, 1 << 5),
            (83, 0x4000),
            (84, 0x4040),
            (85, 1 << 5),
            (87, 0x4000),
        ]);
        let on = Told {
            present: Some(true),
            enabled: Some(true),
            fua: Some(true),
        };
        assert_eq!(identify(&data), on);
        let data = identify_data(&[(82, 1 << 5), (83, 0x4000), (84, 0x4000), (87, 0x4000)]);
        let off = Told {
            present: Some(true),
            enabled: Some(false),
            fua: Some(false),
        };
        assert_eq!(identify(&data), off);
    }

    #[test]
    fn words_that_are_not_valid_tell_nothing() {
        let data = identify_data(&[(82, 1 << 5), (85, 1 << 5), (83, 0xFFFF), (87, 0xFFFF)]);
        assert_eq!(identify(&data), Told::default());
        assert_eq!(identify(&data[..160]), Told::default());
    }

    #[test]
    fn a_usb_disk_is_not_asked() {
        let tree = tempfile::tempdir().unwrap();
        let device = tree.path().join("pci0000:00/usb2/2-1/host0/target/0:0:0:0");
        let driver = device.join("scsi_disk/0:0:0:0");
        std::fs::create_dir_all(&driver).unwrap();
        std::fs::write(driver.join("cache_type"), "write back\n").unwrap();
        std::fs::write(driver.join("FUA"), "0\n").unwrap();
        let facts = facts(&device, &driver, || panic!("it was opened"));
        assert_eq!(facts.cache.driver.as_deref(), Some("write back"));
        assert_eq!(facts.cache.driver_fua, Some(false));
        assert_eq!(facts.cache.is_volatile(), None);
        assert!(facts.unanswered[0].contains("USB"));
    }
}
