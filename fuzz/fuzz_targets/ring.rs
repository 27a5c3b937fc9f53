//! A perf ring's records, of captures of real events.

use serde_json::Value;

pub const KERNELS: [&str; 4] = ["5.15", "6.1", "6.12", "6.18"];

/// The events of a capture, each as a record of type PERF_RECORD_SAMPLE (perf_event_open(2)), padded as
/// the kernel does.
pub fn records(capture: &[u8]) -> Vec<Vec<u8>> {
    let text = std::str::from_utf8(capture).expect("text");
    text.lines().skip(1).map(record).collect()
}

fn record(line: &str) -> Vec<u8> {
    let line: Value = serde_json::from_str(line).expect("an event");
    let number = |key: &str| line[key].as_u64().expect("a number");
    let hex = line["raw"].as_str().expect("the event's bytes");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    let mut raw: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
    let mut record = Vec::new();
    record.extend(9_u32.to_ne_bytes());
    record.extend(0_u16.to_ne_bytes());
    record.extend((36 + raw.len() as u16).to_ne_bytes());
    record.extend((number("pid") as u32).to_ne_bytes());
    record.extend((number("tid") as u32).to_ne_bytes());
    record.extend(number("time_ns").to_ne_bytes());
    record.extend((number("cpu") as u32).to_ne_bytes());
    record.extend(0_u32.to_ne_bytes());
    record.extend((raw.len() as u32).to_ne_bytes());
    record.extend(raw);
    record
}
