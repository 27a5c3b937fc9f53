//! The layers of ARCHITECTURE.md, held by reading every `use` line: an import points down only.

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer may import those before it; modules of one layer don't know each other.
const LAYERS: &[&[&str]] = &[
    &["model"],
    &["fs"],
    &["sys"],
    &["target"],
    &["guard", "scratch"],
    &["workload"],
    &["engine", "observe", "lab", "witness"],
    &["plan"],
    &["session"],
    &["analyse"],
    &["report"],
    &["cli"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The modules of this crate that a text names, as `crate::name`.
fn imports(text: &str) -> Vec<String> {
    text.split("crate::")
        .skip(1)
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        })
        .collect()
}

/// What is wrong with the imports of a file of `module`.
fn faults(module: &str, text: &str) -> Vec<String> {
    let own = layer(module).unwrap_or_else(|| panic!("{module} is in no layer"));
    let mut faults = Vec::new();
    for import in imports(text) {
        match layer(&import) {
            _ if import == module => {}
            Some(other) if other < own => {}
            Some(_) => faults.push(format!("{module} imports {import}, which is not below it")),
            None => faults.push(format!("{module} imports {import}, which is in no layer")),
        }
    }
    faults
}

#[test]
fn imports_point_down_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = Vec::new();
    for path in sources(&src) {
        let relative = path.strip_prefix(&src).unwrap();
        if relative.components().count() < 2 {
            continue;
        }
        let module = relative
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        let found = faults(module, &fs::read_to_string(&path).unwrap());
        assert!(found.is_empty(), "{}: {found:?}", relative.display());
        seen.push(module.to_owned());
    }
    for module in LAYERS.iter().copied().flatten() {
        assert!(
            seen.iter().any(|name| name == module),
            "there is no module {module}"
        );
    }
}

#[test]
fn an_import_that_points_up_or_sideways_is_found() {
    assert_eq!(faults("engine", "use crate::session::run;").len(), 1);
    assert_eq!(faults("engine", "use crate::observe::workers;").len(), 1);
    assert_eq!(
        faults("engine", "let x = crate::report::render();").len(),
        1
    );
    assert_eq!(
        faults("session", "use crate::{nothing};\nuse crate::engine;").len(),
        1
    );
    assert!(
        faults(
            "session",
            "use crate::engine::{self};\nuse crate::model::cell;"
        )
        .is_empty()
    );
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&src) {
        let text = fs::read_to_string(&path).unwrap();
        let allows = text.contains("allow(unsafe_code)");
        let relative = path.strip_prefix(&src).unwrap();
        assert!(
            !allows || relative == Path::new("sys/mod.rs"),
            "{}",
            relative.display()
        );
    }
}

/// A filesystem's type in quotes, in the code of a file before its tests.
fn compared_types(text: &str) -> Vec<&'static str> {
    const OTHERS: [&str; 8] = [
        "ext", "fuse", "nfs", "nfs4", "cifs", "smb3", "ntfs", "ntfs3",
    ];
    let code = text.split("#[cfg(test)]\nmod tests").next();
    let code = code.unwrap_or_default();
    let known = syncprof::fs::ALL.iter().map(|fs| fs.name);
    known
        .chain(OTHERS)
        .filter(|name| code.contains(&format!("\"{name}\"")))
        .collect()
}

#[test]
fn filesystems_are_told_apart_in_fs_alone() {
    assert_eq!(compared_types("match t { \"jfs\" => 1 }"), ["jfs"]);
    assert!(compared_types("of(t)\n#[cfg(test)]\nmod tests {\n\"jfs\"").is_empty());
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&src) {
        let relative = path.strip_prefix(&src).unwrap();
        let is_test = relative
            .components()
            .any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
        if is_test || relative.starts_with("fs") || relative == Path::new("model/fixture.rs") {
            continue;
        }
        let found = compared_types(&fs::read_to_string(&path).unwrap());
        assert!(found.is_empty(), "{}: {found:?}", relative.display());
    }
}
