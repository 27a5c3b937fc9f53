//! Values in a profile: numbers, or the texts that the command line takes; one, or a list. Written
//! as visitors rather than untagged enums, so that an error keeps its place and its own words.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::model::cell::{EngineKind, FileState, Method, Pattern, Payload, WorkloadKind};
use crate::model::claims::DriveState;
use crate::model::units::{parse_bytes, parse_duration, parse_pause, parse_percent, parse_spread};

/// A value that TOML can spell in one or more of its scalar types.
pub(super) trait Scalar: Sized {
    /// What is expected, for messages.
    const EXPECTED: &'static str;

    /// From a string.
    fn from_text(text: &str) -> Result<Self, String> {
        Err(format!("'{text}': expected {}", Self::EXPECTED))
    }

    /// From a number.
    fn from_number(number: f64) -> Result<Self, String> {
        Err(format!("{number}: expected {}", Self::EXPECTED))
    }

    /// From true or false.
    fn from_bool(value: bool) -> Result<Self, String> {
        Err(format!("{value}: expected {}", Self::EXPECTED))
    }
}

/// A byte count.
pub(super) struct Bytes(pub(super) u64);

/// A percentage, as a share of one.
pub(super) struct Share(pub(super) f64);

/// A percentage that may be zero, as a share of one.
pub(super) struct Spread(pub(super) f64);

/// A length of time that may be zero.
pub(super) struct Pause(pub(super) Duration);

impl Scalar for Bytes {
    const EXPECTED: &'static str = "a size such as 4096 or \"4k\"";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Bytes)
    }

    fn from_number(number: f64) -> Result<Self, String> {
        // Whole numbers below 2^53 are exact in an f64; a size beyond that is no size.
        if number >= 1.0 && number < (1_u64 << 53) as f64 && number.fract() == 0.0 {
            Ok(Bytes(number as u64))
        } else {
            Err(format!("{number}: expected {}", Self::EXPECTED))
        }
    }
}

impl Scalar for Share {
    const EXPECTED: &'static str = "a percentage such as \"5%\"";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_percent(text).map(Share)
    }
}

impl Scalar for Spread {
    const EXPECTED: &'static str = "a percentage such as \"50%\", or \"0%\"";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_spread(text).map(Spread)
    }
}

impl Scalar for Pause {
    const EXPECTED: &'static str = "a duration such as \"10ms\", or \"0s\"";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_pause(text).map(Pause)
    }
}

impl Scalar for Duration {
    const EXPECTED: &'static str = "a duration such as \"60s\"";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_duration(text)
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true, false, \"on\" or \"off\"";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(format!("'{text}': expected {}", Self::EXPECTED)),
        }
    }

    fn from_bool(value: bool) -> Result<Self, String> {
        Ok(value)
    }
}

impl Scalar for u32 {
    const EXPECTED: &'static str = "a whole number from 1";

    fn from_number(number: f64) -> Result<Self, String> {
        if number >= 1.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0 {
            Ok(number as u32)
        } else {
            Err(format!("{number}: expected {}", Self::EXPECTED))
        }
    }
}

impl Scalar for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_number(number: f64) -> Result<Self, String> {
        Ok(number)
    }
}

/// Values that have one spelling only, a text.
macro_rules! text_scalar {
    ($($name:ty, $expected:literal;)+) => {
        $(impl Scalar for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<Self, String> {
                text.parse()
            }
        })+
    };
}

text_scalar! {
    Method, "a method such as \"o_dsync\"";
    Pattern, "a pattern such as \"seq\"";
    FileState, "a file state such as \"overwrite\"";
    EngineKind, "an engine such as \"uring\"";
    Payload, "a payload such as \"random\"";
    WorkloadKind, "a workload such as \"checkpoint\"";
    DriveState, "a state such as \"steady\"";
}

impl Scalar for String {
    const EXPECTED: &'static str = "a text";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

/// One value.
pub(super) struct One<T>(pub(super) T);

/// One value or a list of at least one.
pub(super) struct Many<T>(pub(super) Vec<T>);

struct OneVisitor<T>(PhantomData<T>);

impl<T: Scalar> Visitor<'_> for OneVisitor<T> {
    type Value = One<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<One<T>, E> {
        T::from_text(text).map(One).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<One<T>, E> {
        T::from_number(number as f64).map(One).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<One<T>, E> {
        T::from_number(number).map(One).map_err(E::custom)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<One<T>, E> {
        T::from_bool(value).map(One).map_err(E::custom)
    }
}

impl<'de, T: Scalar> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<One<T>, D::Error> {
        deserializer.deserialize_any(OneVisitor(PhantomData))
    }
}

struct ManyVisitor<T>(PhantomData<T>);

impl<T: Scalar> ManyVisitor<T> {
    fn one<E: Error>(value: Result<One<T>, E>) -> Result<Many<T>, E> {
        value.map(|One(value)| Many(vec![value]))
    }
}

impl<'de, T: Scalar> Visitor<'de> for ManyVisitor<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list", T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Many<T>, E> {
        Self::one(OneVisitor(PhantomData).visit_str(text))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Many<T>, E> {
        Self::one(OneVisitor(PhantomData).visit_i64(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Many<T>, E> {
        Self::one(OneVisitor(PhantomData).visit_f64(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Many<T>, E> {
        Self::one(OneVisitor(PhantomData).visit_bool(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Many<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(One(value)) = list.next_element()? {
            values.push(value);
        }
        if values.is_empty() {
            return Err(A::Error::custom(
                "an empty list: expected at least one value",
            ));
        }
        Ok(Many(values))
    }
}

impl<'de, T: Scalar> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Many<T>, D::Error> {
        deserializer.deserialize_any(ManyVisitor(PhantomData))
    }
}

/// The line of an error, counted from 1, and what is wrong there with which key, in one line: toml's
/// own messages span several and draw the place.
pub(super) fn error_line(text: &str, error: &toml::de::Error) -> (usize, String) {
    let start = error.span().map_or(0, |span| span.start);
    let (line, line_text) = line_at(text, start);
    let message = error.message().split('\n').collect::<Vec<_>>().join("; ");
    // An error inside a value does not name its key, but the line begins with it.
    let key = line_text.split('=').next().unwrap_or("").trim();
    let message = match line_text.contains('=') && !message.contains(&format!("`{key}`")) {
        true => format!("{key}: {message}"),
        false => message,
    };
    (line, message)
}

/// The line that holds the byte at `start`, counted from 1, and its text.
pub(super) fn line_at(text: &str, start: usize) -> (usize, &str) {
    let before = text.get(..start).unwrap_or(text);
    let index = before.matches('\n').count();
    (index + 1, text.lines().nth(index).unwrap_or(""))
}
