//! What bytes are like: zero, compressible, random. It matters because drives that compress or
//! drop zeros write such content faster than other.

use crate::model::record::Content;

/// The piece that is judged as one.
const PIECE_BYTES: usize = 4096;
/// Bits of a byte that a random piece carries at least. 4096 random bytes show about 7.95 in this
/// count, 512 about 7.6, and text or executable code under 6.6.
const RANDOM_BITS: f64 = 7.0;

/// The shares of pieces of each sort. No bytes give no shares.
pub(super) fn classify(bytes: &[u8]) -> Content {
    let (mut zero, mut compressible, mut random) = (0_u64, 0_u64, 0_u64);
    let logs = logarithms();
    for piece in bytes.chunks(PIECE_BYTES) {
        if piece.iter().all(|&byte| byte == 0) {
            zero += 1;
        } else if entropy_bits(piece, &logs) < RANDOM_BITS {
            compressible += 1;
        } else {
            random += 1;
        }
    }
    let pieces = (zero + compressible + random).max(1) as f64;
    Content {
        span_bytes: bytes.len() as u64,
        zero_share: zero as f64 / pieces,
        compressible_share: compressible as f64 / pieces,
        random_share: random as f64 / pieces,
    }
}

/// `n * log2(n)` for every count that a byte can have in a piece: a span has too many pieces to
/// take 256 logarithms for each.
fn logarithms() -> Vec<f64> {
    (0..=PIECE_BYTES)
        .map(|n| n as f64)
        .map(|n| if n == 0.0 { 0.0 } else { n * n.log2() })
        .collect()
}

/// Shannon's entropy of the byte frequencies of one piece, in bits for each byte.
fn entropy_bits(piece: &[u8], logs: &[f64]) -> f64 {
    let mut counts = [0_usize; 256];
    for &byte in piece {
        counts[usize::from(byte)] += 1;
    }
    let n = piece.len() as f64;
    let sum: f64 = counts.iter().map(|&count| logs[count]).sum();
    n.log2() - sum / n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(len: usize) -> Vec<u8> {
        let mut generator = fastrand::Rng::with_seed(1);
        (0..len).map(|_| generator.u8(..)).collect()
    }

    #[test]
    fn pieces_are_told_apart() {
        let mut bytes = vec![0; 2 * PIECE_BYTES];
        bytes.extend(b"all work and no play ".iter().cycle().take(PIECE_BYTES));
        bytes.extend(random(PIECE_BYTES));
        let content = classify(&bytes);
        assert_eq!(content.span_bytes, 4 * PIECE_BYTES as u64);
        assert_eq!(content.zero_share, 0.5);
        assert_eq!(content.compressible_share, 0.25);
        assert_eq!(content.random_share, 0.25);
    }

    #[test]
    fn a_short_random_piece_is_random() {
        assert_eq!(classify(&random(512)).random_share, 1.0);
    }

    #[test]
    fn a_half_zero_piece_is_compressible() {
        let mut bytes = random(PIECE_BYTES);
        bytes[..PIECE_BYTES / 2].fill(0);
        assert_eq!(classify(&bytes).compressible_share, 1.0);
    }

    #[test]
    fn no_bytes_have_no_shares() {
        assert_eq!(classify(&[]), Content::default());
    }
}
