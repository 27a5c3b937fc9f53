//! Each test that SECURITY.md names is there.

use std::fs;
use std::path::Path;

#[test]
fn each_promise_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let named: Vec<(&str, &str)> = text
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(_, name)| *name != "x")
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for (place, name) in named {
        let files = [
            format!("tests/{place}.rs"),
            format!("src/{place}.rs"),
            format!("src/{place}/tests.rs"),
        ];
        let texts = files.iter().map(|file| fs::read_to_string(root.join(file)));
        let is_there = texts
            .flatten()
            .any(|text| text.contains(&format!("fn {name}()")));
        assert!(is_there, "there is no {place}::{name}");
    }
}
