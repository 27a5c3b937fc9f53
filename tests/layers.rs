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

/// Folders whose files still import each other in a circle.
const UNTANGLED_LATER: &[&str] = &["cli", "plan", "report", "target"];

/// The names after `super::` in a text that are in `names`, comments left out.
fn siblings<'a>(text: &str, names: &'a [String]) -> Vec<&'a str> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
    let after = code.split("super::").skip(1);
    let starts = after.flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => group.split(';').next().unwrap().split([',', '{']).collect(),
        None => vec![rest],
    });
    let found = starts.filter_map(|start| {
        let start = start.trim_start();
        names.iter().find(|name| {
            let rest = start.strip_prefix(name.as_str());
            rest.is_some_and(|rest| {
                rest.starts_with("::")
                    || rest.is_empty()
                    || rest.starts_with([';', ',', ' ', '}', '\n'])
            })
        })
    });
    found.map(String::as_str).collect()
}

/// A circle among files, each with those that it imports: what is left once all are taken away that import
/// nothing that is left.
fn circle<'a>(files: &[(&'a str, Vec<&'a str>)]) -> Vec<&'a str> {
    let mut left: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    loop {
        let imports_one = |name: &&str| {
            let imports = files.iter().find(|(file, _)| file == name);
            imports.is_some_and(|(_, imports)| imports.iter().any(|one| left.contains(one)))
        };
        let still: Vec<&str> = left.iter().copied().filter(imports_one).collect();
        if still.len() == left.len() {
            return left;
        }
        left = still;
    }
}

#[test]
fn files_of_a_folder_import_each_other_in_one_direction() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let all = sources(&src);
    let mut folders: Vec<&Path> = all.iter().filter_map(|path| path.parent()).collect();
    folders.sort();
    folders.dedup();
    for folder in folders.into_iter().filter(|folder| *folder != src) {
        let files = all.iter().filter(|path| path.parent() == Some(folder));
        let texts: Vec<(String, String)> = files
            .map(|path| {
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .filter(|(name, _)| name != "mod" && !name.ends_with("tests"))
            .collect();
        let names: Vec<String> = texts.iter().map(|(name, _)| name.clone()).collect();
        let imports: Vec<(&str, Vec<&str>)> = texts
            .iter()
            .map(|(name, text)| (name.as_str(), siblings(text, &names)))
            .collect();
        let found = circle(&imports);
        let is_left = UNTANGLED_LATER.iter().any(|name| folder.ends_with(name));
        assert_eq!(
            found.is_empty(),
            !is_left,
            "{}: {found:?}",
            folder.display()
        );
    }
}

#[test]
fn a_circle_of_files_is_found() {
    let names = ["a", "b", "c"].map(str::to_owned);
    let text = "use super::a::A;\nuse super::{b, c::C};\n// super::c\n";
    assert_eq!(siblings(text, &names), ["a", "b", "c"]);
    assert!(siblings("use super::ab::A;\n/// [`super::b::B`]", &names).is_empty());
    let arrow = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec![])];
    assert!(circle(&arrow).is_empty());
    let round = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["b"])];
    assert_eq!(circle(&round), ["a", "b", "c"]);
}
