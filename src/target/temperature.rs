//! How warm a drive is, by the kernel's hardware monitoring.

use std::path::Path;

use super::sysfs::{device_dir, disk_dir, names, value};
use crate::model::devid::DevId;
use crate::sys::root::Root;

/// Where a drive's hwmon directories may be, from its disk's: at the NVMe controller or, on older
/// kernels, at its PCI function (drivers/nvme/host/hwmon.c), or at the SCSI device
/// (drivers/hwmon/drivetemp.c).
const PLACES: [&str; 4] = [
    "device",
    "device/hwmon",
    "device/device",
    "device/device/hwmon",
];

/// The temperature of a drive, in degrees Celsius; none where the kernel offers none.
pub fn temperature_c(root: &Root, dev: DevId) -> Option<f64> {
    let dir = device_dir(root, dev).ok()?;
    PLACES
        .iter()
        .find_map(|place| monitored(&disk_dir(&dir).join(place)))
}

/// Of the first sensor: the whole drive's, in thousandths of a degree
/// (Documentation/hwmon/sysfs-interface.rst).
fn monitored(place: &Path) -> Option<f64> {
    let monitors = names(place).into_iter();
    let monitors = monitors.filter(|name| name.starts_with("hwmon"));
    monitors
        .filter_map(|name| value::<f64>(place.join(name).join("temp1_input")))
        .find(|thousandths| thousandths.is_finite())
        .map(|thousandths| thousandths / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_sensor_is_found_at_the_controller_and_absent_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("device");
        assert_eq!(monitored(&place), None);
        fs::create_dir_all(place.join("hwmon3")).unwrap();
        assert_eq!(monitored(&place), None);
        fs::write(place.join("hwmon3/temp1_input"), "41850\n").unwrap();
        assert_eq!(monitored(&place), Some(41.85));
    }
}
