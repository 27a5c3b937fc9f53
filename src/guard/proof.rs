//! Where a file's bytes are on a device, and the proof that they are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::content;
use super::layout::{self, Run};
use super::no_extents::{NoExtents, OTHER_BASELINE};
use crate::sys::buffer::Aligned;
use crate::sys::{fiemap, ioctl};

/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Pieces of the file that must be random for its content to prove where it lies.
const RANDOM_SHARE: f64 = 0.999;

/// Where a file's bytes are on a device.
pub(super) fn map(file: &File, size_bytes: u64, device: &File) -> Result<Vec<Run>, NoExtents> {
    let device_bytes = ioctl::size_bytes(device).map_err(|error| {
        NoExtents::new(
            format!("cannot ask for the device's size: {error}"),
            OTHER_BASELINE,
        )
    })?;
    let extents = fiemap::extents(file).map_err(|error| {
        NoExtents::new(
            format!("the filesystem doesn't tell where the scratch file's blocks are: {error}"),
            OTHER_BASELINE,
        )
    })?;
    layout::runs(&extents, size_bytes, device_bytes).map_err(|what| {
        NoExtents::new(
            format!("the scratch file's blocks can't be written apart: {what}"),
            OTHER_BASELINE,
        )
    })
}

/// Proves by content that a file's bytes are where the map says: all of them are compared, and
/// enough of them are random that no other place would hold the same by chance.
pub(super) fn prove(file: &File, device: &File, runs: &[Run]) -> Result<(), NoExtents> {
    let failed = |error: io::Error| {
        NoExtents::new(
            format!("cannot read the scratch file and its blocks to compare them: {error}"),
            OTHER_BASELINE,
        )
    };
    let mut of_file = Aligned::new(CHUNK_BYTES).map_err(failed)?;
    let mut of_device = Aligned::new(CHUNK_BYTES).map_err(failed)?;
    let (mut random_bytes, mut all_bytes) = (0.0, 0.0);
    for run in runs {
        let mut done = 0;
        while done < run.length_bytes {
            let len = (run.length_bytes - done).min(CHUNK_BYTES as u64) as usize;
            let (file_part, device_part) = (&mut of_file[..len], &mut of_device[..len]);
            file.read_exact_at(file_part, run.file_bytes + done)
                .and_then(|()| device.read_exact_at(device_part, run.device_bytes + done))
                .map_err(failed)?;
            if file_part != device_part {
                return Err(NoExtents::new(
                    format!(
                        "the device does not hold the scratch file's bytes where the filesystem \
                         says (file offset {}, device offset {})",
                        run.file_bytes + done,
                        run.device_bytes + done
                    ),
                    OTHER_BASELINE,
                ));
            }
            random_bytes += content::classify(file_part).random_share * len as f64;
            all_bytes += len as f64;
            done += len as u64;
        }
    }
    if random_bytes < RANDOM_SHARE * all_bytes {
        return Err(NoExtents::new(
            "the scratch file's content is not random, so it proves nothing about its place",
            "lay the file out with random bytes first",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of random bytes in two halves, and a "device" that holds them elsewhere.
    fn pair() -> (File, File, Vec<Run>) {
        let mut generator = fastrand::Rng::with_seed(3);
        let bytes: Vec<u8> = (0..16_384).map(|_| generator.u8(..)).collect();
        let (file, device) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.write_all_at(&bytes, 0).unwrap();
        device.write_all_at(&bytes[..8192], 65_536).unwrap();
        device.write_all_at(&bytes[8192..], 32_768).unwrap();
        let run = |file_bytes, device_bytes| Run {
            file_bytes,
            device_bytes,
            length_bytes: 8192,
        };
        (file, device, vec![run(0, 65_536), run(8192, 32_768)])
    }

    #[test]
    fn content_in_its_mapped_place_is_proof() {
        let (file, device, runs) = pair();
        assert_eq!(prove(&file, &device, &runs), Ok(()));
    }

    #[test]
    fn one_differing_byte_is_refused() {
        let (file, device, runs) = pair();
        let mut byte = [0];
        device.read_exact_at(&mut byte, 32_768 + 8191).unwrap();
        device.write_all_at(&[!byte[0]], 32_768 + 8191).unwrap();
        let no = prove(&file, &device, &runs).unwrap_err();
        assert!(no.reason().contains("file offset 8192"), "{no}");
    }

    #[test]
    fn content_that_is_not_random_proves_nothing() {
        let (file, device) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        file.set_len(8192).unwrap();
        device.set_len(8192).unwrap();
        let run = Run {
            file_bytes: 0,
            device_bytes: 0,
            length_bytes: 8192,
        };
        let no = prove(&file, &device, &[run]).unwrap_err();
        assert!(no.reason().contains("not random"), "{no}");
    }
}
