//! How an event's bytes are laid out, as the kernel itself tells in the `format` files of tracefs
//! (Documentation/trace/events.rst, "Event formats").

use thiserror::Error;

/// The layout of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name, without that of its subsystem.
    pub name: String,
    /// The event's number on this boot of this kernel.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

/// Where in an event's bytes a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// From the event's start.
    offset: usize,
    /// In bytes.
    len: usize,
}

/// A text that is no `format` file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The line is missing.
    #[error("no line '{0}'")]
    Missing(&'static str),
    /// The line says something else than such a line does.
    #[error("cannot read the line '{0}'")]
    Line(String),
    /// The event has no such field.
    #[error("the event {event} has no field '{field}'")]
    NoField {
        /// Which event.
        event: String,
        /// Which field.
        field: &'static str,
    },
}

impl Format {
    /// Reads the text of a `format` file.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        for line in text.lines().map(str::trim) {
            let bad = || FormatError::Line(line.to_owned());
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim().parse().map_err(|_| bad())?);
            } else if let Some(field) = line.strip_prefix("field:") {
                fields.push(parse_field(field).ok_or_else(bad)?);
            }
        }
        Ok(Format {
            name: name.ok_or(FormatError::Missing("name:"))?,
            id: id.ok_or(FormatError::Missing("ID:"))?,
            fields,
        })
    }

    /// The field of this name.
    pub fn field(&self, name: &'static str) -> Result<Field, FormatError> {
        self.optional(name).ok_or_else(|| FormatError::NoField {
            event: self.name.clone(),
            field: name,
        })
    }

    /// The field of this name, for one that not every kernel's event has.
    pub fn optional(&self, name: &str) -> Option<Field> {
        let (_, field) = self.fields.iter().find(|(known, _)| known == name)?;
        Some(*field)
    }
}

/// `DECLARATION; offset:N; size:N; signed:N;`
fn parse_field(text: &str) -> Option<(String, Field)> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse().ok();
    let offset = number("offset:")?;
    let len = number("size:")?;
    // An array's length follows its name, but for those whose length varies: `char[] NAME`.
    let declaration = match declaration.strip_suffix(']') {
        Some(array) => array.split('[').next()?,
        None => declaration,
    };
    let name = declaration.split_ascii_whitespace().last()?;
    Some((name.to_owned(), Field { offset, len }))
}

impl Field {
    /// The field's bytes. None where the event is too short to have them.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.len)?)
    }

    /// The field as a number of 1, 2, 4 or 8 bytes. None for another length, or where the event is
    /// too short to have it.
    pub fn unsigned(&self, raw: &[u8]) -> Option<u64> {
        let bytes = self.bytes(raw)?;
        Some(match *bytes {
            [byte] => byte.into(),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }

    /// The field as an `int`. None for another length, or where the event is too short to have it.
    pub fn int(&self, raw: &[u8]) -> Option<i32> {
        Some(i32::from_ne_bytes(self.bytes(raw)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:void * ctx;\toffset:44;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;

print fmt: \"%d [%s]\", REC->dev, __get_str(cmd)
";

    #[test]
    fn a_field_is_found_by_its_name_whatever_its_type() {
        let format = Format::parse(TEXT).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("block_rq_issue", 2104));
        for (name, offset, len) in [
            ("common_type", 0, 2),
            ("common_pid", 4, 4),
            ("sector", 16, 8),
            ("rwbs", 34, 10),
            ("ctx", 44, 8),
            ("cmd", 60, 4),
        ] {
            assert_eq!(format.field(name), Ok(Field { offset, len }), "{name}");
        }
        assert_eq!(
            format.field("bytes").unwrap_err().to_string(),
            "the event block_rq_issue has no field 'bytes'"
        );
    }

    #[test]
    fn what_is_no_format_file_is_told() {
        assert_eq!(Format::parse(""), Err(FormatError::Missing("name:")));
        assert_eq!(Format::parse("name: x"), Err(FormatError::Missing("ID:")));
        for line in ["ID: 70000", "field:int x;", "field:;offset:1;size:2;"] {
            let text = format!("name: x\nID: 1\n{line}\n");
            assert_eq!(Format::parse(&text), Err(FormatError::Line(line.into())));
        }
    }

    #[test]
    fn a_number_is_read_by_its_length_and_not_past_the_end() {
        let raw: Vec<u8> = (1..=16).collect();
        let field = |offset, len| Field { offset, len };
        assert_eq!(field(0, 1).unsigned(&raw), Some(1));
        assert_eq!(
            field(8, 8).unsigned(&raw),
            Some(u64::from_ne_bytes([9, 10, 11, 12, 13, 14, 15, 16]))
        );
        assert_eq!(field(0, 3).unsigned(&raw), None);
        assert_eq!(field(9, 8).unsigned(&raw), None);
        assert_eq!(field(usize::MAX, 8).unsigned(&raw), None);
        assert_eq!(field(0, 4).int(&(-5_i32).to_ne_bytes()), Some(-5));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(name: |ID: [0-9]*\n|field:|[a-z \\[\\];:0-9\t]|offset:|size:|\n|\\PC)*") {
            let _ = Format::parse(&text);
        }

        #[test]
        fn a_field_that_is_written_is_read(
            name in "[a-z_]+", count in 1_usize..64, offset: u32, len: u32
        ) {
            for declared in [
                format!("int {name}"),
                format!("unsigned char {name}[{count}]"),
                format!("__data_loc u8[] {name}"),
            ] {
                let text = format!(
                    "name: x\nID: 1\n\tfield:{declared};\toffset:{offset};\tsize:{len};\tsigned:0;\n"
                );
                let field = Field { offset: offset as usize, len: len as usize };
                prop_assert_eq!(Format::parse(&text).unwrap().optional(&name), Some(field));
            }
        }
    }
}
