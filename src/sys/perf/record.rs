//! The records in a ring, as bytes. Total: whatever the bytes are, reading them ends and never
//! panics.

/// What each sample holds: TID, TIME, CPU and RAW (perf_event_open(2)). The kernel writes them in
/// this order (`perf_output_sample` in kernel/events/core.c).
pub(super) const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;

const RECORD_SAMPLE: u32 = 9;
/// `struct perf_event_header`: type u32, misc u16, size u16.
const HEADER_LEN: usize = 8;

/// A tracepoint's hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// When, on CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The processor that it happened on.
    pub cpu: u32,
    /// The process that ran there.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The event's own bytes, laid out as its `format` file in tracefs says. The kernel pads them,
    /// so a few may follow.
    pub raw: &'a [u8],
}

/// The samples in a run of records. Records of other types are passed over. Ends at the first
/// record that is not whole.
#[derive(Clone, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Of bytes that begin with a record.
    pub fn new(bytes: &'a [u8]) -> Records<'a> {
        Records(bytes)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Sample<'a>;

    fn next(&mut self) -> Option<Sample<'a>> {
        loop {
            let (kind, _) = u32_at(self.0, 0)?;
            let size = self.0.get(6..HEADER_LEN)?;
            let len = usize::from(u16::from_ne_bytes([size[0], size[1]]));
            let body = self.0.get(HEADER_LEN..len)?;
            self.0 = &self.0[len..];
            if kind == RECORD_SAMPLE {
                return sample(body);
            }
        }
    }
}

fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let (pid, rest) = u32_at(body, 0)?;
    let (tid, rest) = u32_at(rest, 0)?;
    let time_ns = u64::from_ne_bytes(rest.get(..8)?.try_into().ok()?);
    let (cpu, _) = u32_at(rest, 8)?;
    let (len, rest) = u32_at(rest, 16)?;
    let raw = rest.get(..len as usize)?;
    Some(Sample {
        time_ns,
        cpu,
        pid,
        tid,
        raw,
    })
}

/// The number at an offset, and what follows it.
fn u32_at(bytes: &[u8], offset: usize) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.get(offset..)?.split_first_chunk()?;
    Some((u32::from_ne_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(((HEADER_LEN + body.len()) as u16).to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn body(time_ns: u64, raw: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [40_u32, 41] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(time_ns.to_ne_bytes());
        for number in [1_u32, 0, raw.len() as u32] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(raw);
        bytes
    }

    #[test]
    fn samples_are_read_and_other_records_passed_over() {
        let lost = 2;
        let ring = [
            record(RECORD_SAMPLE, &body(5, b"one!")),
            record(lost, &[0; 16]),
            record(RECORD_SAMPLE, &body(6, b"two?")),
        ]
        .concat();
        let samples: Vec<_> = Records::new(&ring).collect();
        assert_eq!(
            samples,
            [(5, b"one!"), (6, b"two?")].map(|(time_ns, raw)| Sample {
                time_ns,
                cpu: 1,
                pid: 40,
                tid: 41,
                raw,
            })
        );
    }

    #[test]
    fn a_record_cut_short_ends_the_samples() {
        let whole = record(RECORD_SAMPLE, &body(5, b"one!"));
        let ring = [whole.clone(), whole.clone()].concat();
        for len in whole.len()..ring.len() {
            assert_eq!(Records::new(&ring[..len]).count(), 1, "{len} bytes");
        }
    }

    #[test]
    fn a_size_that_says_nothing_does_not_loop() {
        assert_eq!(Records::new(&[0; 64]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes: Vec<u8>) {
            prop_assert!(Records::new(&bytes).count() <= bytes.len() / HEADER_LEN);
        }
    }
}
