//! Records that tell what became of them: each sector says which record it is part of, and whether it
//! is whole.
//!
//! A sector of 512 bytes, numbers little-endian:
//!
//! | bytes | |
//! | --- | --- |
//! | 0..8 | `SYNCPROF` |
//! | 8..12 | version, 1 |
//! | 12..16 | which sector of its record, from 0 |
//! | 16..32 | the run |
//! | 32..40 | the record's sequence number, from 1 |
//! | 40..48 | the record's offset on the device |
//! | 48..52 | the record's length |
//! | 52..56 | CRC-32 of the whole record, with all checksums zero |
//! | 56..60 | CRC-32 of this sector, with this checksum zero |
//! | 60..64 | zero |
//! | 64..512 | bytes that nobody can compress, other ones in each sector that was ever written |

/// What a device writes whole, or so one hopes: the smallest sector that there is.
pub const SECTOR_BYTES: usize = 512;

const MAGIC: &[u8; 8] = b"SYNCPROF";
const VERSION: u32 = 1;
const PAYLOAD_AT: usize = 64;
const RECORD_SUM_AT: usize = 52;
const SECTOR_SUM_AT: usize = 56;

/// Which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The run that wrote it.
    pub run: u128,
    /// Its number in the run, from 1.
    pub sequence: u64,
    /// Where it belongs.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u32,
}

/// What a record's place holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// One record, from its first byte to its last.
    Whole(Stamp),
    /// Sectors that don't make up one record: what each is part of; none for one that is no sector of
    /// any record.
    Parts(Vec<Option<Stamp>>),
    /// No sector of any record.
    Nothing,
}

/// Makes `record` the record of `stamp`, whose length must be that of `record`: whole sectors.
pub fn write(stamp: &Stamp, record: &mut [u8]) {
    for (index, sector) in record.chunks_exact_mut(SECTOR_BYTES).enumerate() {
        let (head, payload) = sector.split_at_mut(PAYLOAD_AT);
        head.copy_from_slice(&header(stamp, index as u32));
        let seed = (stamp.run as u64 ^ (stamp.run >> 64) as u64)
            .wrapping_add(stamp.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            ^ (index as u64).rotate_left(40);
        fastrand::Rng::with_seed(seed).fill(payload);
    }
    let sum = crc32fast::hash(record);
    for sector in record.chunks_exact_mut(SECTOR_BYTES) {
        put(sector, RECORD_SUM_AT, &sum.to_le_bytes());
        let own = crc32fast::hash(sector);
        put(sector, SECTOR_SUM_AT, &own.to_le_bytes());
    }
}

/// The first bytes of a sector, its checksums zero.
fn header(stamp: &Stamp, index: u32) -> [u8; PAYLOAD_AT] {
    let mut head = [0; PAYLOAD_AT];
    put(&mut head, 0, MAGIC);
    put(&mut head, 8, &VERSION.to_le_bytes());
    put(&mut head, 12, &index.to_le_bytes());
    put(&mut head, 16, &stamp.run.to_le_bytes());
    put(&mut head, 32, &stamp.sequence.to_le_bytes());
    put(&mut head, 40, &stamp.offset_bytes.to_le_bytes());
    put(&mut head, 48, &stamp.length_bytes.to_le_bytes());
    head
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// What is in a record's place.
pub fn read(place: &[u8]) -> Content {
    let sectors: Vec<Option<Sector>> = place.chunks(SECTOR_BYTES).map(sector).collect();
    if sectors.iter().all(Option::is_none) {
        return Content::Nothing;
    }
    if let Some(stamp) = whole(&sectors, place) {
        return Content::Whole(stamp);
    }
    Content::Parts(sectors.iter().map(|s| s.map(|s| s.stamp)).collect())
}

/// A sector that is whole.
#[derive(Clone, Copy)]
struct Sector {
    stamp: Stamp,
    index: u32,
    record_sum: u32,
}

fn sector(bytes: &[u8]) -> Option<Sector> {
    let bytes: &[u8; SECTOR_BYTES] = bytes.try_into().ok()?;
    if field::<8>(bytes, 0) != *MAGIC || u32::from_le_bytes(field(bytes, 8)) != VERSION {
        return None;
    }
    let mut plain = *bytes;
    put(&mut plain, SECTOR_SUM_AT, &[0; 4]);
    if crc32fast::hash(&plain) != u32::from_le_bytes(field(bytes, SECTOR_SUM_AT)) {
        return None;
    }
    Some(Sector {
        index: u32::from_le_bytes(field(bytes, 12)),
        record_sum: u32::from_le_bytes(field(bytes, RECORD_SUM_AT)),
        stamp: Stamp {
            run: u128::from_le_bytes(field(bytes, 16)),
            sequence: u64::from_le_bytes(field(bytes, 32)),
            offset_bytes: u64::from_le_bytes(field(bytes, 40)),
            length_bytes: u32::from_le_bytes(field(bytes, 48)),
        },
    })
}

/// The `N` bytes at `at`, which lie within a sector's header.
fn field<const N: usize>(bytes: &[u8; SECTOR_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

/// The record that all sectors are of, in their order, if that is all of one.
fn whole(sectors: &[Option<Sector>], place: &[u8]) -> Option<Stamp> {
    let first = (*sectors.first()?)?;
    let in_order = (0..).zip(sectors).all(|(index, sector)| {
        sector.is_some_and(|sector| {
            (sector.index, sector.stamp, sector.record_sum)
                == (index, first.stamp, first.record_sum)
        })
    });
    if !in_order || first.stamp.length_bytes as usize != place.len() {
        return None;
    }
    let mut plain = place.to_vec();
    for sector in plain.chunks_exact_mut(SECTOR_BYTES) {
        put(sector, RECORD_SUM_AT, &[0; 8]);
    }
    (crc32fast::hash(&plain) == first.record_sum).then_some(first.stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(sequence: u64, length_bytes: u32) -> Stamp {
        Stamp {
            run: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            sequence,
            offset_bytes: sequence * 4096,
            length_bytes,
        }
    }

    fn record(sequence: u64, length_bytes: u32) -> Vec<u8> {
        let mut bytes = vec![0; length_bytes as usize];
        write(&stamp(sequence, length_bytes), &mut bytes);
        bytes
    }

    #[test]
    fn a_record_reads_back_and_its_neighbour_differs_in_every_sector() {
        for length in [512, 4096, 65_536] {
            let (one, other) = (record(1, length), record(2, length));
            assert_eq!(read(&one), Content::Whole(stamp(1, length)));
            let payloads = |bytes: &[u8]| -> Vec<Vec<u8>> {
                bytes.chunks(512).map(|s| s[64..].to_vec()).collect()
            };
            assert!(payloads(&one).iter().all(|p| !payloads(&other).contains(p)));
        }
    }

    #[test]
    fn sectors_of_two_records_are_parts() {
        let mut mixed = record(1, 4096);
        mixed[1024..2048].copy_from_slice(&record(2, 4096)[1024..2048]);
        let Content::Parts(parts) = read(&mixed) else {
            panic!("a torn record was taken for a whole one");
        };
        let sequences: Vec<u64> = parts.iter().map(|part| part.unwrap().sequence).collect();
        assert_eq!(sequences, [1, 1, 2, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn sectors_in_another_order_and_half_records_are_no_whole_one() {
        let whole = record(1, 1024);
        let swapped = [&whole[512..], &whole[..512]].concat();
        assert!(matches!(read(&swapped), Content::Parts(_)));
        assert!(matches!(read(&whole[..512]), Content::Parts(_)));
        assert_eq!(read(&[0; 4096]), Content::Nothing);
        assert_eq!(read(&[]), Content::Nothing);
    }

    proptest! {
        #[test]
        fn one_wrong_bit_is_found(sequence in 1_u64.., bit in 0_usize..4096 * 8) {
            let mut bytes = record(sequence >> 16, 4096);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Content::Parts(parts) = read(&bytes) else {
                panic!("not found");
            };
            prop_assert_eq!(parts.iter().filter(|part| part.is_none()).count(), 1);
            prop_assert!(parts[bit / 8 / 512].is_none());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert_eq!(read(&bytes), Content::Nothing);
        }
    }
}
