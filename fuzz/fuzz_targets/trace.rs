//! Whatever a kernel may say: the text of a `format` file, a zero byte, then a ring's records.
#![no_main]

mod ring;
mod seeds;

use libfuzzer_sys::fuzz_target;
use syncprof::observe::decode::{Decoder, KNOWN};
use syncprof::observe::format::Format;
use syncprof::sys::perf::Records;

fn seeds() {
    let captures = seeds::files("tests/fixtures/trace/raw");
    let (_, capture) = captures.last().expect("a capture");
    let records = ring::records(capture).into_iter().take(20).flatten();
    let records: Vec<u8> = records.collect();
    for kernel in ring::KERNELS {
        for (path, format) in seeds::files(&format!("tests/fixtures/trace/formats/{kernel}")) {
            let name = format!("{kernel}-{}", seeds::stem(&path));
            seeds::keep("trace", &name, &[&format, &[0][..], &records].concat());
        }
    }
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (text, rest) = input.split_at(end);
    let records = rest.get(1..).unwrap_or_default();
    let mut decoder = Decoder::default();
    if let Ok(format) = Format::parse(&String::from_utf8_lossy(text)) {
        for known in &KNOWN {
            let _ = decoder.learn(known, &format);
        }
    }
    // What follows the text is read both as records and as one event's bytes.
    let _ = decoder.decode(records);
    for sample in Records::new(records) {
        let _ = decoder.decode(sample.raw);
    }
});
