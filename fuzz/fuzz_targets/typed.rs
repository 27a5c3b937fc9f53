//! What people type: a byte that chooses among a profile, claims, a lab's profile and the words of the
//! command line, then the text. What is taken is multiplied out, as a run would.
#![no_main]

mod seeds;

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use syncprof::lab;
use syncprof::model::cell::Role;
use syncprof::model::devid::DevId;
use syncprof::model::units;
use syncprof::plan::{self, Options, TargetPlan, claims, profile};

fn seeds() {
    for (kind, folder) in [(0, "profiles"), (1, "profiles/claims"), (2, "profiles/lab")] {
        for (path, text) in seeds::files(folder) {
            let name = format!("{kind}-{}", seeds::stem(&path));
            seeds::keep("typed", &name, &[&[kind][..], &text].concat());
        }
    }
    let words = [
        "4k",
        "1.5g",
        "250ms",
        "1m30s",
        "5%",
        "8:16",
        "inf",
        "-1",
        "18446744073709551615",
    ];
    for word in words {
        seeds::keep(
            "typed",
            &format!("3-{word}"),
            &[&[3], word.as_bytes()].concat(),
        );
    }
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let Some((choice, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match choice % 4 {
        0 => {
            if let Ok(profile) = one_line(profile::parse("a.toml", text)) {
                multiplied(profile.options);
            }
        }
        1 => {
            let _ = one_line(claims::parse("a.toml", text));
        }
        2 => {
            if let Ok(profile) = one_line(plan::lab::parse("a.toml", text)) {
                for variant in &profile.variants {
                    assert_eq!(lab::disallowed_option(variant), None);
                    lab::commands(variant, Path::new("/dev/a"), Some(Path::new("/dev/b")));
                }
                multiplied(profile.options);
            }
        }
        _ => words(text),
    }
});

/// An error is one line.
fn one_line<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, E> {
    if let Err(error) = &result {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    result
}

fn multiplied(options: Options) {
    let _ = one_line(plan::workload(&options, true));
    let matrix = options.settings().matrix;
    for role in [Role::Raw, Role::File] {
        let target = TargetPlan {
            id: "a".to_owned(),
            role,
            logical_block_bytes: 512,
            span_limit_bytes: 1 << 40,
        };
        let cells = one_line(plan::cells(&matrix, &target));
        plan::skipped(&matrix, &target);
        plan::raw_counterparts(&cells.unwrap_or_default(), &target);
    }
}

fn words(text: &str) {
    if let Ok(bytes) = units::parse_bytes(text) {
        units::show_bytes(bytes);
        units::show_amount(bytes);
    }
    if let Ok(time) = units::parse_duration(text).or_else(|_| units::parse_pause(text)) {
        units::show_ns(time.as_nanos() as f64);
    }
    for share in [units::parse_percent(text), units::parse_spread(text)]
        .into_iter()
        .flatten()
    {
        assert!(share.is_finite() && share >= 0.0, "{share}");
        units::show_percent(share);
    }
    if let Ok(dev) = text.parse::<DevId>() {
        assert_eq!(dev.to_string().parse(), Ok(dev));
    }
}
