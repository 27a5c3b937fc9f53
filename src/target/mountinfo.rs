//! The format of /proc/PID/mountinfo (proc_pid_mountinfo(5)).

use crate::model::devid::DevId;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountLine {
    /// The mount's number.
    pub(super) id: u64,
    /// The device number of its files.
    pub(super) dev: DevId,
    /// Which directory of the filesystem is mounted.
    pub(super) root: String,
    /// Where it is mounted.
    pub(super) mount_point: String,
    /// The mount's options, then those of its superblock that differ.
    pub(super) options: Vec<String>,
    /// Its type.
    pub(super) fs_type: String,
    /// What is mounted.
    pub(super) source: String,
}

/// All lines that have the documented form; others are left out, as a later kernel might add some.
pub(super) fn parse(text: &[u8]) -> Vec<MountLine> {
    text.split(|&byte| byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

/// One line: `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/sda1 rw,errors=continue`. A
/// single blank ends each field, for a source may be empty.
fn parse_line(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = plain(fields.next()?)?.parse().ok()?;
    let _parent = fields.next()?;
    let dev = plain(fields.next()?)?.parse().ok()?;
    let root = unescape(fields.next()?);
    let mount_point = unescape(fields.next()?);
    let mount_options = fields.next()?;
    // Optional fields, then a dash.
    fields.find(|field| *field == b"-")?;
    let fs_type = unescape(fields.next()?);
    let source = unescape(fields.next()?);
    let super_options = fields.next()?;
    let mut options: Vec<String> = Vec::new();
    for option in [mount_options, super_options]
        .into_iter()
        .flat_map(|list| list.split(|&byte| byte == b','))
        .map(unescape)
    {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(MountLine {
        id,
        dev,
        root,
        mount_point,
        options,
        fs_type,
        source,
    })
}

fn plain(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// The text of a field in which the kernel wrote blanks, newlines, backslashes and others as a
/// backslash and three octal digits (`mangle_path` in fs/seq_file.c). Bytes that aren't UTF-8 are
/// replaced: paths are for people here, and decisions are by number.
pub(super) fn unescape(field: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        match (first, octal(tail)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that three octal digits at the start of `text` stand for.
fn octal(text: &[u8]) -> Option<u8> {
    let digits = plain(text.get(..3)?)?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_gives_its_fields() {
        let text = b"36 35 98:0 /sub /mnt\\040two rw,noatime master:1 shared:2 - ext4 /dev/sda1 \
            rw,errors=continue\n";
        let lines = parse(text);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].id, 36);
        assert_eq!(lines[0].dev.to_string(), "98:0");
        assert_eq!(lines[0].root, "/sub");
        assert_eq!(lines[0].mount_point, "/mnt two");
        assert_eq!(lines[0].options, ["rw", "noatime", "errors=continue"]);
        assert_eq!(lines[0].fs_type, "ext4");
        assert_eq!(lines[0].source, "/dev/sda1");
    }

    #[test]
    fn a_line_without_optional_fields_or_a_source_is_read() {
        let lines = parse(b"1 0 0:21 / /run rw - tmpfs  rw,size=4k\n");
        assert_eq!(lines[0].source, "");
        assert_eq!(lines[0].options, ["rw", "size=4k"]);
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        assert!(parse(b"\n36 35\n36 35 98:0 / /mnt rw ext4 /dev/sda1 rw\n").is_empty());
    }

    fn escape(text: &str) -> String {
        text.bytes()
            .map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}"),
                0x80.. => format!("\\{byte:03o}"),
                _ => (byte as char).to_string(),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_escapes_is_read_back(point in "/[^\0]{0,30}", source in "[^\0]{0,30}") {
            let text = format!("1 0 8:1 / {} rw - ext4 {} rw\n", escape(&point), escape(&source));
            let lines = parse(text.as_bytes());
            prop_assert_eq!(lines.len(), 1);
            prop_assert_eq!(&lines[0].mount_point, &point);
            prop_assert_eq!(&lines[0].source, &source);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
