//! Device numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A device number, written `major:minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevId {
    /// The driver's number.
    pub major: u32,
    /// The device's number at that driver.
    pub minor: u32,
}

impl DevId {
    /// From a `dev_t` as stat(2) gives it.
    pub fn from_dev(dev: u64) -> DevId {
        DevId {
            major: libc::major(dev),
            minor: libc::minor(dev),
        }
    }
}

impl fmt::Display for DevId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.major, self.minor))
    }
}

impl FromStr for DevId {
    type Err = String;

    fn from_str(text: &str) -> Result<DevId, String> {
        text.trim()
            .split_once(':')
            .and_then(|(major, minor)| {
                Some(DevId {
                    major: major.parse().ok()?,
                    minor: minor.parse().ok()?,
                })
            })
            .ok_or_else(|| format!("bad device number '{text}': expected major:minor"))
    }
}

impl Serialize for DevId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DevId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DevId, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
