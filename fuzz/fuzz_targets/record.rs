//! A record from anywhere, printed in every form. The first byte chooses: a histogram's bytes, a record's
//! text, or a real record, whose values the bytes after it change: each time two that say which value, one
//! that says how, and eight for a new value.
#![no_main]

mod seeds;

use std::io::Read;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibEncoder;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use syncprof::model::histogram;
use syncprof::model::histogram::LatencyNs;
use syncprof::model::record::Record;
use syncprof::report::{self, Style};

/// A real record.
struct Base {
    value: Value,
    /// Where its values are, as JSON pointers.
    places: Vec<String>,
}

static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    let json = seeds::files("tests/fixtures/records").into_iter();
    let json = json.filter(|(path, _)| path.extension().is_some_and(|end| end == "json"));
    let base = |(_, text): (_, Vec<u8>)| {
        let value = serde_json::from_slice(&text).expect("a record");
        let mut places = Vec::new();
        visit(&value, String::new(), &mut places);
        Base { value, places }
    };
    json.map(base).collect()
});

fn visit(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Array(all) => {
            let numbered = all.iter().enumerate();
            numbered.for_each(|(index, one)| visit(one, format!("{at}/{index}"), places));
        }
        Value::Object(all) => {
            all.iter()
                .for_each(|(key, one)| visit(one, format!("{at}/{key}"), places));
        }
        _ => {}
    }
    places.push(at);
}

fn seeds() {
    for (index, base) in BASES.iter().enumerate() {
        // Each whole one, with one change that is none, and with some that are.
        for (name, changes) in [
            ("same", &[0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0][..]),
            ("changed", &[7; 110]),
        ] {
            let input = [&[2 + index as u8][..], changes].concat();
            seeds::keep("record", &format!("{index}-{name}"), &input);
        }
        let text = base.value.to_string();
        seeds::keep(
            "record",
            &format!("{index}-text"),
            &[&[1], text.as_bytes()].concat(),
        );
        if let Some(encoded) = base.value.pointer("/cells/0/slices/0/histogram_v2") {
            let encoded = encoded.as_str().expect("a histogram's text");
            let histogram = histogram::decode(encoded).expect("a histogram");
            let mut plain = vec![0];
            V2Serializer::new()
                .serialize(&histogram, &mut plain)
                .expect("memory");
            seeds::keep("record", &format!("{index}-histogram"), &plain);
        }
    }
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    match choice {
        0 => {
            let mut packed = vec![0; 8];
            ZlibEncoder::new(input, Compression::fast())
                .read_to_end(&mut packed)
                .expect("memory");
            if let Ok(histogram) = histogram::decode(&STANDARD.encode(packed)) {
                let _ = LatencyNs::of(&histogram);
                let again = histogram::decode(&histogram::encode(&histogram));
                assert_eq!(again.as_ref(), Ok(&histogram));
            }
        }
        1 => printed(&String::from_utf8_lossy(input)),
        _ => {
            let base = &BASES[usize::from(choice - 2) % BASES.len()];
            let mut value = base.value.clone();
            let (changes, _) = input.as_chunks::<11>();
            for change in changes.iter().take(20) {
                alter(&mut value, base, change);
            }
            printed(&value.to_string());
        }
    }
});

fn alter(record: &mut Value, base: &Base, [low, high, how, bytes @ ..]: &[u8; 11]) {
    let place = |at: u64| &base.places[at as usize % base.places.len()];
    let Some(value) = record.pointer_mut(place(u16::from_le_bytes([*low, *high]).into())) else {
        return;
    };
    let number = u64::from_le_bytes(*bytes);
    match how {
        0 => *value = Value::Null,
        1 => *value = json!(number >> 16),
        2 => *value = json!(number as i64 >> 16),
        3 => *value = json!(f64::from_bits(number)),
        4 => *value = json!(bytes[0]),
        5 => *value = json!(number % 2 == 0),
        6 => *value = json!(String::from_utf8_lossy(bytes)),
        7 => *value = json!(String::from_utf8_lossy(bytes).repeat(1000)),
        // What stands elsewhere: words that are known, histograms of others, other kinds of value.
        8 => {
            *value = base
                .value
                .pointer(place(number))
                .cloned()
                .unwrap_or_default()
        }
        9 => match value {
            Value::Array(all) => all.truncate(bytes[0].into()),
            Value::Object(all) => {
                let key = all.keys().nth(bytes[0].into()).cloned();
                key.map(|key| all.remove(&key));
            }
            _ => *value = json!([]),
        },
        10 => {
            if let Value::Array(all) = value {
                all.extend(all.first().cloned());
            }
        }
        _ => {}
    }
}

/// Sums and products of larger amounts may wrap: no run has them, and the program that users have doesn't
/// look after overflow.
const MOST: f64 = (1_u64 << 48) as f64;

fn is_possible(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_none_or(|number| number.abs() <= MOST),
        Value::Array(all) => all.iter().all(is_possible),
        Value::Object(all) => all.values().all(is_possible),
        _ => true,
    }
}

fn printed(text: &str) {
    if serde_json::from_str(text).is_ok_and(|value| !is_possible(&value)) {
        return;
    }
    let Ok(record) = Record::parse(text) else {
        return;
    };
    for width in [None, Some(usize::from(text.len() as u8)), Some(100)] {
        let style = Style {
            width,
            color: width.is_some(),
        };
        report::render(&record, &style);
        report::explain(&record, &style);
    }
    for line in report::warnings(&record) {
        assert!(!line.contains('\n'), "{line:?}");
    }
    for note in &record.notes {
        report::note_text(&record, note);
    }
    report::json(&record).expect("JSON").to_string();
    let saved = serde_json::to_string(&record).expect("a record is JSON");
    Record::parse(&saved).expect("what is saved can be read");
}
