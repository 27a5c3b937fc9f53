//! Writes the fuzz targets' first inputs, `corpus/TARGET/NAME`, from the tests' fixtures.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::Value;

const KERNELS: [&str; 4] = ["5.15", "6.1", "6.12", "6.18"];

fn main() -> Result<(), Box<dyn Error>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fixtures = fuzz.join("../tests/fixtures/trace");
    let (trace, events) = (fuzz.join("corpus/trace"), fuzz.join("corpus/events"));
    fs::create_dir_all(&trace)?;
    fs::create_dir_all(&events)?;

    let mut ring = Vec::new();
    for entry in fs::read_dir(fixtures.join("raw"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).ok_or("no name")?;
        let kernel = name.split('-').next().unwrap_or_default();
        let kernel = KERNELS.iter().position(|known| *known == kernel).ok_or("no such kernel")?;
        let records = records(&fs::read_to_string(&path)?)?;
        // All that may be known of a target, in two ways.
        for known in [0b0011_0110, 0b0001_1001] {
            let mut seed = vec![kernel as u8, known];
            seed.extend(records.iter().flatten());
            fs::write(events.join(format!("{name}-{known}")), seed)?;
        }
        ring = records;
    }
    for kernel in KERNELS {
        for entry in fs::read_dir(fixtures.join("formats").join(kernel))? {
            let entry = entry?;
            let mut seed = fs::read(entry.path())?;
            seed.push(0);
            seed.extend(ring.iter().take(20).flatten());
            fs::write(trace.join(format!("{kernel}-{}", entry.file_name().display())), seed)?;
        }
    }
    Ok(())
}

/// The events of a capture, each as a record of type PERF_RECORD_SAMPLE (perf_event_open(2)), padded
/// as the kernel does.
fn records(text: &str) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut records = Vec::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line)?;
        let number = |key: &str| line[key].as_u64().ok_or_else(|| format!("no {key}"));
        let hex = line["raw"].as_str().ok_or("no raw")?;
        let mut raw = Vec::new();
        for at in (0..hex.len()).step_by(2) {
            raw.push(u8::from_str_radix(&hex[at..at + 2], 16)?);
        }
        while (raw.len() + 4) % 8 != 0 {
            raw.push(0);
        }
        let mut record = Vec::new();
        record.extend(9_u32.to_ne_bytes());
        record.extend(0_u16.to_ne_bytes());
        record.extend(u16::try_from(36 + raw.len())?.to_ne_bytes());
        record.extend(u32::try_from(number("pid")?)?.to_ne_bytes());
        record.extend(u32::try_from(number("tid")?)?.to_ne_bytes());
        record.extend(number("time_ns")?.to_ne_bytes());
        record.extend(u32::try_from(number("cpu")?)?.to_ne_bytes());
        record.extend(0_u32.to_ne_bytes());
        record.extend(u32::try_from(raw.len())?.to_ne_bytes());
        record.extend(raw);
        records.push(record);
    }
    Ok(records)
}
