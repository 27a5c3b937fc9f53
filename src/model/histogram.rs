//! The text form of histograms in a record: HdrHistogram V2 with DEFLATE, in base64, which other
//! HdrHistogram implementations read too.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Quantiles of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyNs {
    /// The shortest.
    pub min: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 90 % were at most this.
    pub p90: u64,
    /// 99 % were at most this.
    pub p99: u64,
    /// 99.9 % were at most this.
    pub p99_9: u64,
    /// 99.99 % were at most this.
    pub p99_99: u64,
    /// The longest.
    pub max: u64,
}

impl LatencyNs {
    /// Those of a histogram of nanoseconds; none of an empty one.
    pub fn of(histogram: &Histogram<u64>) -> Option<LatencyNs> {
        (!histogram.is_empty()).then(|| LatencyNs {
            min: histogram.min(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            p99_99: histogram.value_at_quantile(0.9999),
            max: histogram.max(),
        })
    }
}

/// Encodes a histogram.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Serialising fails only where the writer does or a count exceeds i64 (v2_serializer.rs); a
    // Vec takes everything, and no run has 2^63 operations.
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .unwrap_or_else(|error| unreachable!("histogram to memory: {error}"));
    STANDARD.encode(bytes)
}

/// More operations than any run has. Sums of more histograms than a record holds don't overflow by them, which
/// hdrhistogram doesn't look after (value_at_quantile() in its lib.rs).
const MOST_OPS: u64 = 1 << 40;

/// More than any histogram of a record takes, before it is compressed.
const MOST_BYTES: u64 = 1 << 20;

/// Decodes what [`encode`] made. The error says what is wrong with the text.
pub fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| format!("histogram is not base64: {error}"))?;
    // A cookie and a length, then the histogram, whose own header of 40 bytes has a cookie and a length too.
    // hdrhistogram makes as much room as that says, before it looks at what there is.
    let mut plain = Vec::new();
    ZlibDecoder::new(bytes.get(8..).unwrap_or_default())
        .take(MOST_BYTES)
        .read_to_end(&mut plain)
        .map_err(|error| format!("not a HdrHistogram: {error}"))?;
    let told = plain
        .first_chunk::<8>()
        .map(|head| u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
    if told.map(|told| u64::from(told) + 40) != Some(plain.len() as u64) {
        return Err("a histogram that is not as long as it says".to_owned());
    }
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut plain.as_slice())
        .map_err(|error| format!("not a HdrHistogram: {error}"))?;
    match histogram.len() {
        0..=MOST_OPS => Ok(histogram),
        ops => Err(format!("a histogram of {ops} operations")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::{MAX_NS, MIN_NS, latency_histogram};
    use flate2::Compression;
    use flate2::read::ZlibEncoder;
    use hdrhistogram::serialization::V2Serializer;
    use proptest::prelude::*;

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "!", "AAAA", "HISTFAAAAA"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn more_operations_than_any_run_has_are_an_error() {
        let mut histogram = latency_histogram();
        histogram.record_n(MIN_NS, MOST_OPS).unwrap();
        assert!(decode(&encode(&histogram)).is_ok());
        histogram.record_n(MAX_NS, i64::MAX as u64).unwrap();
        assert!(decode(&encode(&histogram)).is_err());
    }

    #[test]
    fn a_length_that_is_not_there_is_an_error_and_takes_no_room() {
        let mut plain = Vec::new();
        let histogram = latency_histogram();
        V2Serializer::new()
            .serialize(&histogram, &mut plain)
            .unwrap();
        let text = |plain: &[u8]| {
            let mut packed = vec![0; 8];
            ZlibEncoder::new(plain, Compression::fast())
                .read_to_end(&mut packed)
                .unwrap();
            STANDARD.encode(packed)
        };
        assert_eq!(decode(&text(&plain)), Ok(histogram));
        plain[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(
            decode(&text(&plain))
                .unwrap_err()
                .contains("as long as it says")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn a_histogram_survives_its_text_form(values in prop::collection::vec(MIN_NS..=MAX_NS, 0..50)) {
            let mut histogram = latency_histogram();
            for value in values {
                histogram.record(value).unwrap();
            }
            prop_assert_eq!(decode(&encode(&histogram)), Ok(histogram));
        }
    }
}
