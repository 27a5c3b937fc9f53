//! Records of a log, one after the other, from its start again at its end.

/// Records that lie one behind the other, to be written in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the first begins.
    pub offset_bytes: u64,
    /// Bytes of all.
    pub len_bytes: u64,
}

/// The pieces that hold `count` records from record number `first` on, in order. `offsets` are the
/// places of the log's records, of which there is at least one; the number of a record that lies
/// beyond them starts at the first again.
pub fn pieces(
    offsets: &[u64],
    first: u64,
    count: u64,
    record_bytes: u64,
) -> impl Iterator<Item = Piece> {
    let place = move |number: u64| offsets[(number % offsets.len() as u64) as usize];
    let end = first + count;
    let mut next = first;
    std::iter::from_fn(move || {
        if next >= end {
            return None;
        }
        let offset_bytes = place(next);
        let mut len_bytes = record_bytes;
        next += 1;
        while next < end && place(next) == offset_bytes + len_bytes {
            len_bytes += record_bytes;
            next += 1;
        }
        Some(Piece {
            offset_bytes,
            len_bytes,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(offsets: &[u64], first: u64, count: u64) -> Vec<(u64, u64)> {
        let pieces = pieces(offsets, first, count, 10);
        pieces
            .map(|piece| (piece.offset_bytes, piece.len_bytes))
            .collect()
    }

    #[test]
    fn neighbours_are_one_piece_and_the_end_and_gaps_divide() {
        let offsets = [100, 110, 120, 500, 510];
        assert_eq!(all(&offsets, 0, 3), [(100, 30)]);
        assert_eq!(all(&offsets, 1, 4), [(110, 20), (500, 20)]);
        assert_eq!(all(&offsets, 4, 2), [(510, 10), (100, 10)]);
        assert_eq!(all(&offsets, 9, 1), [(510, 10)]);
        assert_eq!(all(&offsets, 3, 0), []);
    }

    #[test]
    fn every_record_is_written_once_however_often_the_log_goes_round() {
        let offsets = [0, 10, 20];
        let bytes: u64 = all(&offsets, 2, 11).iter().map(|(_, len)| len).sum();
        assert_eq!(bytes, 110);
    }
}
