//! Files that a user names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a text file of at most `most_bytes`: what was named may be a device, which has no end.
pub fn read(path: &Path, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(most_bytes + 1)
        .read_to_string(&mut text)?;
    match text.len() as u64 > most_bytes {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than {most_bytes} bytes"),
        )),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let error = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "just").unwrap();
        assert_eq!(read(file.path(), 4).unwrap(), "just");
        assert!(read(file.path(), 3).is_err());
    }
}
