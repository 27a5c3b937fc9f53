//! Messages on the wire: a line of JSON each, of bounded length.

use std::io::{self, BufRead, Read, Write};

use std::net::TcpStream;

use nix::sys::socket::{setsockopt, sockopt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The other side is asked for a sign of life after so many seconds of silence, and so many times.
const KEEPALIVE_S: u32 = 10;
const KEEPALIVE_PROBES: u32 = 3;
/// What was sent is acknowledged within this, or the connection is lost.
const UNACKNOWLEDGED_MS: u32 = 30_000;

/// The longest line, its end included.
pub(super) const MAX_LINE_BYTES: u64 = 16 << 10;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ended in the middle of a message.
    #[error("the connection ended in the middle of a message")]
    Cut,
    /// A line without end.
    #[error("a message of more than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// No message of this protocol.
    #[error("not a message of this protocol: {0}")]
    Malformed(serde_json::Error),
}

/// The next message; none where the connection ended after the last.
pub fn read<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>, CodecError> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => serde_json::from_slice(&line)
            .map(Some)
            .map_err(CodecError::Malformed),
        Some(_) if line.len() as u64 == MAX_LINE_BYTES => Err(CodecError::TooLong),
        Some(_) => Err(CodecError::Cut),
    }
}

/// The line of a message.
pub(super) fn line<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends a message, in one piece.
pub(super) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&line(message)?)
}

/// Has the kernel find out that the other side is gone: a machine whose power was cut, or whose network
/// was, never closes its connection. See tcp(7): without TCP_USER_TIMEOUT, what was sent and not
/// acknowledged would be sent again for a quarter of an hour.
pub(super) fn watch(stream: &TcpStream) -> io::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &KEEPALIVE_S)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &KEEPALIVE_S)?;
    setsockopt(stream, sockopt::TcpKeepCount, &KEEPALIVE_PROBES)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED_MS)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::message::{Reply, Request};
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Request> {
        prop_oneof![
            any::<u64>().prop_map(|sequence| Request::Wrote { sequence }),
            any::<u64>().prop_map(|sequence| Request::End { sequence }),
            (any::<u32>(), ".*").prop_map(|(version, id)| Request::Find {
                version,
                id: Some(id),
                device: None,
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(messages in proptest::collection::vec(requests(), 0..20)) {
            let mut wire = Vec::new();
            for message in &messages {
                write(&mut wire, message).unwrap();
            }
            let mut from = wire.as_slice();
            for message in &messages {
                let found = read::<Request>(&mut from).unwrap();
                prop_assert_eq!(found.as_ref(), Some(message));
            }
            prop_assert!(read::<Request>(&mut from).unwrap().is_none());
        }

        #[test]
        fn a_message_that_is_cut_is_no_message(message in requests(), keep in any::<proptest::sample::Index>()) {
            let whole = line(&message).unwrap();
            let kept = &whole[..keep.index(whole.len())];
            let result = read::<Request>(&mut &*kept);
            match kept {
                [] => prop_assert!(matches!(result, Ok(None))),
                _ => prop_assert!(matches!(result, Err(CodecError::Cut))),
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut from = bytes.as_slice();
            while let Ok(Some(_)) = read::<Request>(&mut from) {}
            let _ = read::<Reply>(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_line_without_end_is_left_alone() {
        let endless = vec![b'x'; 2 * MAX_LINE_BYTES as usize];
        let result = read::<Request>(&mut endless.as_slice());
        assert!(matches!(result, Err(CodecError::TooLong)));
    }
}
