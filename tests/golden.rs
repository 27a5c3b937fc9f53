//! Stored records of every kind give the reports that they always gave: what `report --format json` adds to
//! a record, and what `report` and `explain` print.
//!
//! `SYNCPROF_GOLDEN=write` writes what the present program gives, for a change that is meant.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use syncprof::model::record::Record;
use syncprof::report::{self, Style};

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(folder)
}

/// The names of all stored records.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures("records"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn record(name: &str) -> Record {
    let path = fixtures("records").join(name).with_extension("json");
    Record::parse(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Compares with what is stored, or stores it.
fn hold(name: &str, ending: &str, now: &str) {
    let path = fixtures("reports").join(name).with_extension(ending);
    if std::env::var_os("SYNCPROF_GOLDEN").is_some_and(|asked| asked == "write") {
        fs::write(path, now).unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap();
    let differ = before
        .lines()
        .zip(now.lines())
        .find(|(old, new)| old != new);
    assert!(
        before == now,
        "{}: the report changed, first in\n  {differ:?}",
        path.display()
    );
}

#[test]
fn there_are_records_of_every_kind() {
    assert!(names().len() >= 18, "{:?}", names());
}

#[test]
fn the_json_report_of_a_stored_record_stays_the_same() {
    for name in names() {
        let record = record(&name);
        let Value::Object(own) = serde_json::to_value(&record).unwrap() else {
            panic!("{name} is no object")
        };
        let Value::Object(mut report) = report::json(&record).unwrap() else {
            panic!("the report on {name} is no object")
        };
        for (key, value) in &own {
            assert_eq!(report.remove(key).as_ref(), Some(value), "{name}: {key}");
        }
        hold(&name, "json", &format!("{:#}\n", Value::Object(report)));
    }
}

#[test]
fn the_printed_report_of_a_stored_record_stays_the_same() {
    for name in names() {
        let record = record(&name);
        let wide = Style::default();
        let narrow = Style {
            width: Some(80),
            color: false,
        };
        let printed = [
            ("report", report::render(&record, &wide)),
            ("report in 80 columns", report::render(&record, &narrow)),
            ("explain", report::explain(&record, &wide)),
            ("standard error", report::warnings(&record).join("\n")),
        ]
        .map(|(title, text)| format!("==== {title}\n{}\n", text.trim_end()));
        hold(&name, "txt", &printed.concat());
    }
}
