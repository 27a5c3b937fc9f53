//! The block layer's letters for what a request asks: `blk_fill_rwbs` in kernel/trace/blktrace.c.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Op {
    /// `R`
    Read,
    /// `W`
    Write,
    /// `WZ`; `N` before the kernel had letters for it.
    WriteZeroes,
    /// `D`
    Discard,
    /// `DE`
    SecureErase,
    /// `F`: a flush of the drive's cache, as a request of its own.
    Flush,
    /// `Z` and one more: operations on zones.
    Zone,
    /// `N`, or what a later kernel may add.
    #[default]
    Other,
}

/// What a request asks for, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// What.
    pub op: Op,
    /// A leading `F`: the drive's cache is flushed first. A write of 0 bytes with it is an empty
    /// flush bio.
    pub preflush: bool,
    /// A trailing `F`: the bytes themselves are on stable media when it completes (FUA).
    pub fua: bool,
    /// `A`
    pub readahead: bool,
    /// `S`: somebody waits for it.
    pub sync: bool,
    /// `M`: the filesystem's metadata, the journal included.
    pub meta: bool,
    /// `U`: all of it or nothing.
    pub atomic: bool,
}

impl Flags {
    /// Reads the letters. Total: letters that no known kernel writes are passed over, and an
    /// unknown first letter is [`Op::Other`].
    pub fn parse(letters: &str) -> Flags {
        Flags::from_bytes(letters.as_bytes())
    }

    /// As [`Flags::parse`], from the kernel's bytes: all up to the first zero.
    pub fn from_bytes(bytes: &[u8]) -> Flags {
        let end = bytes.iter().position(|byte| *byte == 0);
        let mut rest = &bytes[..end.unwrap_or(bytes.len())];
        let mut flags = Flags::default();
        // A leading F is a pre-flush only where an operation follows it: a lone `F` or `FS` is a
        // flush request, `FF` a flush request with the pre-flush flag (block/blk-flush.c).
        if let [b'F', b'W' | b'R' | b'D' | b'F' | b'Z' | b'N', ..] = rest {
            flags.preflush = true;
            rest = &rest[1..];
        }
        let (op, len) = match rest {
            [b'W', b'Z', ..] => (Op::WriteZeroes, 2),
            [b'W', ..] => (Op::Write, 1),
            [b'R', ..] => (Op::Read, 1),
            [b'D', b'E', ..] => (Op::SecureErase, 2),
            [b'D', ..] => (Op::Discard, 1),
            [b'F', ..] => (Op::Flush, 1),
            // Reset all is `ZRA`, of which the last would read as read-ahead.
            [b'Z', b'R', b'A', ..] => (Op::Zone, 3),
            [b'Z', _, ..] => (Op::Zone, 2),
            [] => (Op::Other, 0),
            [_, ..] => (Op::Other, 1),
        };
        flags.op = op;
        for letter in &rest[len..] {
            match letter {
                b'F' => flags.fua = true,
                b'A' => flags.readahead = true,
                b'S' => flags.sync = true,
                b'M' => flags.meta = true,
                b'U' => flags.atomic = true,
                _ => {}
            }
        }
        flags
    }

    /// Does it write bytes, or is it an empty flush bio?
    pub fn is_write(&self) -> bool {
        self.op == Op::Write
    }

    /// Is it a flush as a request of its own?
    pub fn is_flush(&self) -> bool {
        self.op == Op::Flush
    }
}

impl fmt::Display for Flags {
    /// The kernel's letters, in its order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut letters = String::new();
        if self.preflush {
            letters.push('F');
        }
        letters.push_str(match self.op {
            Op::Read => "R",
            Op::Write => "W",
            Op::WriteZeroes => "WZ",
            Op::Discard => "D",
            Op::SecureErase => "DE",
            Op::Flush => "F",
            Op::Zone => "ZZ",
            Op::Other => "N",
        });
        for (set, letter) in [
            (self.fua, 'F'),
            (self.readahead, 'A'),
            (self.sync, 'S'),
            (self.meta, 'M'),
            (self.atomic, 'U'),
        ] {
            if set {
                letters.push(letter);
            }
        }
        f.pad(&letters)
    }
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Flags, D::Error> {
        Ok(Flags::parse(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flush_before_and_fua_after_the_operation_are_told_apart() {
        let commit = Flags::parse("FWFS");
        assert!(commit.is_write() && commit.preflush && commit.fua && commit.sync);
        let fua = Flags::parse("WFSM");
        assert!(fua.is_write() && !fua.preflush && fua.fua && fua.meta);
        let empty = Flags::parse("FWS");
        assert!(empty.is_write() && empty.preflush && !empty.fua);
    }

    #[test]
    fn a_flush_request_is_no_write() {
        for letters in ["FF", "F", "FS"] {
            let flush = Flags::parse(letters);
            assert!(
                flush.is_flush() && !flush.is_write() && !flush.fua,
                "{letters}"
            );
        }
        assert!(Flags::parse("FF").preflush);
    }

    #[test]
    fn letters_of_two_are_one_operation() {
        assert_eq!(Flags::parse("WZS").op, Op::WriteZeroes);
        assert_eq!(Flags::parse("DES").op, Op::SecureErase);
        let finish = Flags::parse("ZFS");
        assert!(finish.op == Op::Zone && !finish.fua && finish.sync);
        assert!(!Flags::parse("ZRA").readahead);
        assert_eq!(Flags::parse("").op, Op::Other);
    }

    #[test]
    fn what_follows_the_kernels_zero_is_not_read() {
        assert_eq!(Flags::from_bytes(b"WS\0FM\0"), Flags::parse("WS"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_the_letters_say_the_same(bytes: Vec<u8>) {
            let flags = Flags::from_bytes(&bytes);
            let again = Flags::parse(&flags.to_string());
            // A lone `F` with FUA cannot be told from `FF`; no kernel writes it.
            prop_assume!(flags.op != Op::Flush);
            prop_assert_eq!(again, flags);
        }

        #[test]
        fn the_kernels_letters_come_back_as_they_were(
            letters in "F?(W|R|D|WZ|DE|N)F?A?S?M?U?"
        ) {
            prop_assert_eq!(Flags::parse(&letters).to_string(), letters);
        }
    }
}
