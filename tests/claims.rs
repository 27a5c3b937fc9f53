//! Claims files through the program: what is wrong with them, and the built-in ones.

mod support;

use std::fs;

use support::Program;

#[test]
fn a_bad_claims_file_is_told_by_file_line_and_key_before_anything_is_touched() {
    let program = Program::new();
    let bad = |text: &str, part: &str| {
        let path = program.state().join("claims.toml");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let ran = program
            .run(&["validate", "/dev/null", "--claims", path])
            .exits(2);
        ran.says_one_line(&format!("{path}:{part}"));
    };
    bad(
        "about = 'x'\n[[claim]]\nname = 'n'\nsise = '4k'",
        "4: unknown field `sise`",
    );
    bad(
        "about = 'x'\n[[claim]]\nname = 'n'\nsize = 'x'",
        "4: size: bad size 'x'",
    );
    bad(
        "about = 'x'\n[[claim]]\nname = 'n'\nat_most = { p99 = 1 }",
        "4: at_most: unknown figure 'p99'",
    );
    bad(
        "about = 'x'\n[[claim]]\nname = 'a'\nat_least = { iops = 2 }\n[[claim]]\nname = 'b'\n\
         at_most = { iops = 1 }",
        "5: b: contradicts the claim at line 2",
    );
    let none = ["validate", "/dev/null", "--claims", "nothing"];
    program
        .run(&none)
        .exits(2)
        .says_one_line("one of huawei-es3000-v1");
    let missing = ["validate", "/dev/null", "--claims", "/nowhere/x.toml"];
    program
        .run(&missing)
        .exits(2)
        .says_one_line("/nowhere/x.toml: No such file");
}

#[test]
fn built_in_claims_are_listed_apart_and_printed() {
    let program = Program::new();
    let list = program.run(&["profiles"]).exits(0).stdout;
    let (profiles, claims) = list.split_once("Claims, for").unwrap();
    assert!(
        profiles.contains("etcd-wal") && !profiles.contains("micron-9200"),
        "{list}"
    );
    assert!(
        claims.contains("micron-9200") && claims.contains("ceph-journal"),
        "{list}"
    );
    program
        .run(&["profiles", "micron-9200"])
        .exits(0)
        .prints("gb_per_s = 3.5");
    program
        .run(&["profiles", "ceph-journal"])
        .exits(0)
        .prints("budget = ");
    program
        .run(&["profiles", "claims/ceph-journal"])
        .exits(0)
        .prints("[[claim]]");
    program.run(&["profiles", "claims/default"]).exits(2);
}
