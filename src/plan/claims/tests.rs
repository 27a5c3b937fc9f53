use super::*;
use crate::model::units::show_bytes;

const HEAD: &str = "about = 'x'\n";

fn message(text: &str) -> String {
    parse("c.toml", text).unwrap_err().to_string()
}

fn of(text: &str) -> Claims {
    parse("c.toml", text).unwrap()
}

#[test]
fn every_built_in_file_parses_and_names_its_source() {
    for claims in built_in().unwrap() {
        assert!(!claims.about.is_empty() && !claims.about.contains('\n'));
        assert!(claims.device.source.is_some(), "{}", claims.name);
        assert_eq!(load(&claims.name).unwrap(), claims);
        let without = claims
            .claims
            .iter()
            .filter(|claim| claim.bound.is_none())
            .count();
        assert_eq!(without > 0, claims.name == "ceph-journal");
    }
}

#[test]
fn built_in_figures_are_those_that_were_published() {
    let claims = load("intel-p4800x").unwrap();
    let bound = |index: usize| claims.claims[index].bound.unwrap();
    assert_eq!((bound(0).figure, bound(0).value), (Figure::Iops, 500e3));
    assert_eq!(bound(1).side, Side::AtMost);
    assert!(
        matches!(bound(1).figure, Figure::QuantileNs(share) if (share - 0.99999).abs() < 1e-12)
    );
    assert_eq!(bound(1).value, 100e3);
    assert_eq!(bound(3).value, 2e9);
    let v2 = load("huawei-es3000-v2").unwrap();
    let stable: Vec<f64> = v2
        .claims
        .iter()
        .filter(|claim| claim.conditions.state == Some(DriveState::Steady))
        .map(|claim| claim.bound.unwrap().value)
        .collect();
    assert_eq!(stable, [150e3, 220e3, 230e3]);
}

#[test]
fn every_key_is_read() {
    let text = "about = 'all'\nunsaid = ['a', 'b']\n[device]\nvendor = 'v'\nmodel = ['m', 'n*']\n\
                capacity_gb = [1.5, 1600]\nrevision = 'r'\nsource = 's'\ndate = 'd'\n[[claim]]\n\
                name = 'n'\ncapacity_gb = 1600\npattern = 'rand'\nsize = '8k'\nqueue_depth = 4\n\
                jobs = 2\nmethod = 'none'\ndirect = 'on'\nstate = 'fresh'\nspan = '8g'\n\
                write_cache = false\nat_most = { p99_9_ms = 2.5 }";
    let claims = of(text);
    assert_eq!(claims.unsaid, ["a", "b"]);
    assert_eq!(claims.device.models, ["m", "n*"]);
    assert_eq!(
        claims.device.capacities_bytes,
        [1_500_000_000, 1_600_000_000_000]
    );
    for text in [
        &claims.device.vendor,
        &claims.device.revision,
        &claims.device.date,
    ] {
        assert!(text.is_some());
    }
    let claim = &claims.claims[0];
    assert_eq!(claim.capacities_bytes, [1_600_000_000_000]);
    assert_eq!(
        claim.conditions.size_bytes.map(show_bytes).as_deref(),
        Some("8K")
    );
    assert_eq!(claim.conditions.span, Some(Span::Bytes(8 << 30)));
    let Conditions {
        pattern: Some(Pattern::Rand),
        queue_depth: Some(4),
        jobs: Some(2),
        method: Some(Method::None),
        direct: Some(true),
        state: Some(DriveState::Fresh),
        write_cache: Some(false),
        ..
    } = claim.conditions
    else {
        panic!("a key was lost: {claim:?}");
    };
    let bound = claim.bound.unwrap();
    assert!(matches!(bound.figure, Figure::QuantileNs(share) if (share - 0.999).abs() < 1e-12));
    assert_eq!(bound.value, 2.5e6);
}

#[test]
fn errors_name_file_line_and_key_in_one_line() {
    for (text, line, part) in [
        ("about = 'x'\nsize = '4k'", 2, "`size`"),
        ("about = 'x'\n[device]\nmodle = 'y'", 3, "`modle`"),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nsize = '4kb'",
            4,
            "size: bad size '4kb'",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nstate = 'new'",
            4,
            "state: unknown state 'new'",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nspan = 'all'",
            4,
            "span: bad size 'all'",
        ),
        ("about = 'x'\n[[claim]]\nsize = '4k'", 2, "`name`"),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nat_least = { iopss = 5 }",
            4,
            "at_least: unknown figure 'iopss'",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nat_least = { iops = 5, mean_us = 3 }",
            4,
            "two figures",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nat_most = { mean_us = -3 }",
            4,
            "positive",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nat_most = { p100_us = 3 }",
            4,
            "unknown figure",
        ),
        (
            "about = 'x'\n[[claim]]\nname = 'n'\nat_most = {}",
            4,
            "at_most",
        ),
        (
            "about = 'x'\n\n[[claim]]\nname = 'n'\nat_most = { iops = 3 }\nat_least = { iops = 1 }",
            3,
            "at_least too",
        ),
        ("about = 'x'", 1, "claim"),
        ("[[claim]]\nname = 'n'", 1, "`about`"),
    ] {
        let message = message(text);
        assert!(
            message.starts_with(&format!("c.toml:{line}: ")),
            "{text}: {message}"
        );
        assert!(message.contains(part), "{text}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
}

fn two(one: &str, other: &str) -> Result<Claims, LoadError> {
    let claim = |keys: &str| format!("[[claim]]\nname = 'n'\nsize = '4k'\n{keys}\n");
    parse("c.toml", &format!("{HEAD}{}{}", claim(one), claim(other)))
}

#[test]
fn claims_that_cannot_both_hold_are_told_with_both_lines() {
    for (one, other, why) in [
        (
            "at_least = { iops = 10 }",
            "at_least = { iops = 20 }",
            "two values",
        ),
        (
            "at_most = { p99_us = 10 }",
            "at_most = { p99_us = 20 }",
            "two values",
        ),
        (
            "at_most = { iops = 10 }",
            "at_least = { iops = 20 }",
            "within both bounds",
        ),
        (
            "at_least = { iops = 20 }",
            "at_most = { iops = 10 }",
            "within both bounds",
        ),
        (
            "at_least = { gb_per_s = 1 }",
            "at_least = { mb_per_s = 2000 }",
            "two values",
        ),
    ] {
        let message = two(one, other).unwrap_err().to_string();
        assert!(
            message.starts_with("c.toml:6: n: contradicts the claim at line 2"),
            "{message}"
        );
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn claims_that_can_both_hold_are_taken() {
    for (one, other) in [
        ("at_least = { iops = 10 }", "at_most = { iops = 20 }"),
        ("at_least = { iops = 10 }", "at_least = { iops = 10 }"),
        ("at_least = { iops = 10 }", "at_least = { mb_per_s = 10 }"),
        ("at_most = { p99_us = 10 }", "at_most = { p99_9_us = 20 }"),
        (
            "at_least = { iops = 10 }",
            "queue_depth = 2\nat_least = { iops = 20 }",
        ),
        (
            "capacity_gb = 1\nat_least = { iops = 10 }",
            "capacity_gb = [2, 3]\nat_least = { iops = 20 }",
        ),
        ("at_least = { iops = 10 }", "pattern = 'seq'"),
    ] {
        assert!(two(one, other).is_ok(), "{one} and {other}");
    }
    let one_capacity = "capacity_gb = [1, 2]\nat_least = { iops = 10 }";
    assert!(
        two(
            one_capacity,
            "capacity_gb = [2, 3]\nat_least = { iops = 20 }"
        )
        .is_err()
    );
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let message = load("micron").unwrap_err().to_string();
    assert!(message.contains("micron-9200"), "{message}");
    let message = load("/nonexistent/x.toml").unwrap_err().to_string();
    assert!(
        message.contains("/nonexistent/x.toml: No such file"),
        "{message}"
    );
}
