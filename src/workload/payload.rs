//! The bytes of the writes. A drive may compress them, or keep equal ones once, so by default no
//! sector that is written equals another.

use crate::model::cell::Payload;

/// Sectors that are stamped one by one: the smallest unit that any device might tell apart.
const SECTOR_BYTES: usize = 512;
/// The block that a share of compressibility applies to.
const BLOCK_BYTES: usize = 4096;
/// An odd number, so that multiplying by it is one to one: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fills buffers once, then changes them a little before each write.
#[derive(Clone, Debug)]
pub struct Filler {
    /// Bytes of each block that are random; the rest is zero.
    random_bytes: usize,
    rng: fastrand::Rng,
    /// The next stamp, before it is spread.
    counter: u64,
}

impl Filler {
    /// For one job. Fillers of different seeds make different bytes. None for
    /// [`Payload::Preserve`], which is made from what is there.
    pub fn new(payload: Payload, seed: u64) -> Option<Filler> {
        let random_bytes = match payload {
            Payload::Random => BLOCK_BYTES,
            Payload::Zero => 0,
            Payload::Compressible(percent) => {
                BLOCK_BYTES * (100 - usize::from(percent.min(100))) / 100
            }
            Payload::Preserve => return None,
        };
        let mut rng = fastrand::Rng::with_seed(seed);
        let counter = rng.u64(..);
        Some(Filler {
            random_bytes,
            rng,
            counter,
        })
    }

    /// Fills a buffer from end to end. Too slow for the loop that measures: see
    /// [`Filler::stamp`].
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for block in buffer.chunks_mut(BLOCK_BYTES) {
            let random = self.random_of(block.len());
            let (random, zero) = block.split_at_mut(random);
            self.rng.fill(random);
            zero.fill(0);
        }
    }

    /// Makes each sector of a filled buffer differ from all that were written before, by a number
    /// of 8 bytes (fewer where the sector is shorter) at its start. Sectors within the share that
    /// is to be zero stay zero.
    #[inline]
    pub fn stamp(&mut self, buffer: &mut [u8]) {
        if self.random_bytes == 0 {
            return;
        }
        for block in buffer.chunks_mut(BLOCK_BYTES) {
            let random = self.random_of(block.len());
            for sector in block[..random].chunks_mut(SECTOR_BYTES) {
                let stamp = self.counter.wrapping_mul(SPREAD).to_le_bytes();
                self.counter = self.counter.wrapping_add(1);
                match sector.first_chunk_mut::<8>() {
                    Some(start) => *start = stamp,
                    None => {
                        let len = sector.len();
                        sector.copy_from_slice(&stamp[..len]);
                    }
                }
            }
        }
    }

    /// How much of a block of `len` bytes, which is shorter at a buffer's end, is random.
    fn random_of(&self, len: usize) -> usize {
        if len == BLOCK_BYTES {
            self.random_bytes
        } else {
            (self.random_bytes * len).div_ceil(BLOCK_BYTES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The contents of `writes` writes from one buffer.
    fn contents(payload: Payload, size: usize, writes: usize) -> Vec<Vec<u8>> {
        let mut filler = Filler::new(payload, 5).unwrap();
        let mut buffer = vec![0; size];
        filler.fill(&mut buffer);
        (0..writes)
            .map(|_| {
                filler.stamp(&mut buffer);
                buffer.clone()
            })
            .collect()
    }

    /// Shannon entropy of the bytes' frequencies, in bits for each byte: 8 for random ones.
    fn entropy_bits(bytes: &[u8]) -> f64 {
        let mut counts = [0u64; 256];
        bytes
            .iter()
            .for_each(|&byte| counts[usize::from(byte)] += 1);
        let total = bytes.len() as f64;
        counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|&count| -(count as f64 / total) * (count as f64 / total).log2())
            .sum()
    }

    #[test]
    fn no_two_sectors_written_are_equal() {
        for size in [512, 4096, 65_536] {
            let mut seen = HashSet::new();
            for content in contents(Payload::Random, size, 200) {
                for sector in content.chunks(SECTOR_BYTES) {
                    assert!(seen.insert(sector.to_vec()), "{size}");
                }
            }
        }
    }

    #[test]
    fn odd_sizes_differ_in_every_write_too() {
        for size in [8, 100, 511, 513, 1000, 5000, 12_345] {
            let mut seen = HashSet::new();
            for content in contents(Payload::Random, size, 500) {
                assert!(seen.insert(content), "{size}");
            }
        }
        // Three bytes hold too few values for a promise, but must not panic.
        contents(Payload::Random, 3, 10);
        contents(Payload::Random, 0, 10);
    }

    #[test]
    fn random_bytes_are_incompressible() {
        // Repeats at a distance would show as equal 8-byte words.
        let all = contents(Payload::Random, 65_536, 4).concat();
        assert!(entropy_bits(&all[..65_536]) > 7.99);
        let words: HashSet<&[u8]> = all[..65_536].chunks(8).collect();
        assert_eq!(words.len(), 65_536 / 8);
    }

    #[test]
    fn the_asked_share_of_each_block_is_zero() {
        for (percent, random) in [(50, 2048), (99, 40), (1, 4055)] {
            for content in contents(Payload::Compressible(percent), 8192, 3) {
                for block in content.chunks(4096) {
                    assert!(block[random..].iter().all(|&byte| byte == 0), "{percent}");
                    let zeros = block[..random].iter().filter(|&&byte| byte == 0).count();
                    assert!(zeros < 40, "{percent}: {zeros}");
                }
            }
        }
        assert!(
            contents(Payload::Zero, 8192, 3)
                .concat()
                .iter()
                .all(|&byte| byte == 0)
        );
    }

    #[test]
    fn a_short_block_has_its_share_too() {
        let content = contents(Payload::Compressible(50), 512, 1).concat();
        assert!(content[256..].iter().all(|&byte| byte == 0));
        assert!(content[..256].iter().any(|&byte| byte != 0));
    }

    #[test]
    fn seeds_differ_and_preserved_bytes_are_not_made() {
        let filled = |seed| {
            let mut filler = Filler::new(Payload::Random, seed).unwrap();
            let mut buffer = vec![0; 4096];
            filler.fill(&mut buffer);
            buffer
        };
        assert_eq!(filled(1), filled(1));
        assert_ne!(filled(1), filled(2));
        assert!(Filler::new(Payload::Preserve, 1).is_none());
    }
}
