//! Where one write's bytes and time went: what tracing told of a cell.

use crate::analyse::explain::Kind;
use crate::analyse::quantile::is_known;
use crate::model::record::{Cell, Target};
use crate::model::trace::{Class, ClassTraffic, Phase, Traced};
use crate::model::traffic::BlockStat;
use crate::model::units::{digits3, show_amount, show_bytes, show_ns};

use super::figures::{count, percent, things, us};
use super::view::{Anatomy, Bar, Column, Line, Study, Table, Waterfall};

/// Classes and counters that differ by more than this are told.
const ADDS_UP: f64 = 0.01;
/// Classes with fewer requests per write than this don't make one cell unlike another.
const PRESENT: f64 = 0.05;
/// The size whose anatomy is shown whatever the others'.
const SHOWN_BYTES: u64 = 4096;

/// The explanations of a target and of its baseline, a paragraph each.
pub(super) fn why(study: &Study<'_>, target: &Target) -> Vec<String> {
    let baseline = target
        .baseline
        .as_ref()
        .and_then(|baseline| baseline.target.as_ref());
    study
        .explanations
        .iter()
        .filter(|explanation| {
            explanation.target == target.id || Some(&explanation.target) == baseline
        })
        .map(|explanation| {
            let kind = match explanation.kind {
                Kind::Danger => "Danger",
                Kind::Tip => "Tip",
                Kind::Fact => "Fact",
            };
            format!("{kind}: {}", explanation.text)
        })
        .collect()
}

/// The anatomy of every traced cell.
pub(super) fn all(cells: &[&Cell]) -> Vec<Anatomy> {
    cells
        .iter()
        .filter_map(|cell| Some(anatomy(cell, cell.traced.as_ref()?)))
        .collect()
}

/// The anatomy of the traced cells of 4 KiB, and of those that have other classes than any shown,
/// and how many more there are.
pub(super) fn some(cells: &[&Cell]) -> (Vec<Anatomy>, Option<String>) {
    let traced: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| cell.traced.is_some())
        .collect();
    let is_chosen = |cell: &Cell| cell.spec.axes.size_bytes == SHOWN_BYTES;
    let mut known: Vec<_> = traced
        .iter()
        .filter(|cell| is_chosen(cell))
        .map(|cell| mix(cell))
        .collect();
    let shown: Vec<&Cell> = traced
        .iter()
        .copied()
        .filter(|cell| {
            let mix = mix(cell);
            is_chosen(cell)
                || (!known.contains(&mix) && {
                    known.push(mix);
                    true
                })
        })
        .collect();
    let left_out = traced.len() - shown.len();
    let note = (left_out > 0).then(|| {
        format!(
            "`syncprof explain RECORD` shows the anatomy of {} more",
            things(left_out, "cell")
        )
    });
    (all(&shown), note)
}

/// What a write is made of.
fn mix(cell: &Cell) -> Vec<Class> {
    let Some(traced) = &cell.traced else {
        return Vec::new();
    };
    let is_present = |class: &Class| {
        let of_class = traced
            .classes
            .iter()
            .filter(|traffic| traffic.class == *class);
        let requests: u64 = of_class.map(|traffic| traffic.requests).sum();
        requests as f64 >= PRESENT * traced.ops as f64
    };
    Class::ALL.into_iter().filter(is_present).collect()
}

fn anatomy(cell: &Cell, traced: &Traced) -> Anatomy {
    let state = cell.spec.file_state.map(|state| state.to_string());
    let title = format!(
        "Anatomy of a {} {} {} write, from {} traced in {}",
        show_bytes(cell.spec.axes.size_bytes),
        cell.spec.axes.method,
        state.unwrap_or_else(|| cell.spec.role.to_string()),
        things(usize::try_from(traced.ops).unwrap_or(usize::MAX), "write"),
        things(traced.slices as usize, "slice"),
    );
    let mut tables = Vec::new();
    tables.extend((traced.ops > 0).then(|| classes(traced)));
    tables.extend((traced.phase_ops > 0).then(|| phases(traced)));
    Anatomy {
        title,
        tables,
        waterfall: waterfall(traced),
        notes: notes(traced),
    }
}

fn written_bytes(traced: &Traced) -> u64 {
    traced.counted.write_sectors * 512
}

fn class_bytes(traced: &Traced) -> u64 {
    traced.classes.iter().map(|traffic| traffic.bytes).sum()
}

fn classes(traced: &Traced) -> Table {
    let per_write = |count: u64| count as f64 / traced.ops as f64;
    let all = class_bytes(traced);
    let row = |traffic: &ClassTraffic| {
        let share = traffic.bytes as f64 / all as f64;
        vec![
            class_name(traffic.class).to_owned(),
            digits3(per_write(traffic.bytes) / 1024.0),
            if share.is_finite() {
                percent(share)
            } else {
                "-".to_owned()
            },
            digits3(per_write(traffic.requests)),
            digits3(per_write(traffic.fua_requests)),
        ]
    };
    let rows = Class::ALL
        .iter()
        .flat_map(|&class| traced.classes.iter().filter(move |one| one.class == class))
        .filter(|traffic| traffic.requests > 0)
        .map(row)
        .chain(counted(traced))
        .collect();
    Table {
        caption: "Bytes and requests of a write by what they were for, and what the device itself counted".to_owned(),
        columns: vec![
            Column::text("class", 0),
            Column::number("KiB", 0),
            Column::number("share", 1),
            Column::number("requests", 0),
            Column::number("FUA", 2),
        ],
        rows,
    }
}

/// Rows of what the device counted; none where it counts nothing.
fn counted(traced: &Traced) -> Vec<Vec<String>> {
    if traced.counted == BlockStat::default() {
        return Vec::new();
    }
    let per_write = |count: u64| digits3(count as f64 / traced.ops as f64);
    let kib = digits3(written_bytes(traced) as f64 / 1024.0 / traced.ops as f64);
    let row = |name: &str, kib: String, requests: u64| {
        let none = String::new();
        vec![
            name.to_owned(),
            kib,
            none.clone(),
            per_write(requests),
            none,
        ]
    };
    vec![
        row("counted writes", kib, traced.counted.writes),
        row("counted flushes", String::new(), traced.counted.flushes),
    ]
}

fn phases(traced: &Traced) -> Table {
    let has_p99 = is_known(traced.phase_ops, 0.99);
    let row = |name: &str, mean_ns: f64, p99: String| {
        let share = percent(mean_ns / traced.phase_latency_ns);
        let mut row = vec![name.to_owned(), us(mean_ns), share];
        row.extend(has_p99.then_some(p99));
        row
    };
    let rows = Phase::ALL
        .iter()
        .flat_map(|&phase| traced.phases.iter().filter(move |one| one.phase == phase))
        .filter(|time| time.mean_ns > 0.0)
        .map(|time| row(phase_name(time.phase), time.mean_ns, us(time.p99_ns as f64)))
        .chain([row("all", traced.phase_latency_ns, String::new())])
        .collect();
    let mut columns = vec![
        Column::text("phase", 0),
        Column::number("mean µs", 0),
        Column::number("share", 1),
    ];
    columns.extend(has_p99.then(|| Column::number("p99 µs", 0)));
    Table {
        caption: format!(
            "Time of a write by phase, over {}",
            things(
                usize::try_from(traced.phase_ops).unwrap_or(usize::MAX),
                "write"
            )
        ),
        columns,
        rows,
    }
}

fn waterfall(traced: &Traced) -> Option<Waterfall> {
    let whole_ns = traced.typical.iter().map(|stretch| stretch.end_ns).max()?;
    let at = |ns: u64| ns as f64 / whole_ns as f64;
    Some(Waterfall {
        caption: format!("The write of median latency: {}", show_ns(whole_ns as f64)),
        bars: traced
            .typical
            .iter()
            .map(|stretch| Bar {
                name: phase_name(stretch.phase),
                start: at(stretch.start_ns),
                end: at(stretch.end_ns),
                time: show_ns(stretch.end_ns.saturating_sub(stretch.start_ns) as f64),
                bytes: match stretch.bytes {
                    0 => String::new(),
                    bytes => show_bytes(bytes),
                },
            })
            .collect(),
    })
    .filter(|_| whole_ns > 0)
}

fn notes(traced: &Traced) -> Vec<Line> {
    let mut lines = Vec::new();
    let (classes, counted) = (class_bytes(traced), written_bytes(traced));
    let is_counted = traced.counted != BlockStat::default();
    if is_counted && classes.abs_diff(counted) as f64 > ADDS_UP * counted as f64 {
        lines.push(Line::remark(format!(
            "The classes add up to {}, the device counted {}: {} apart",
            show_amount(classes),
            show_amount(counted),
            percent(classes.abs_diff(counted) as f64 / counted.max(1) as f64),
        )));
    }
    if traced.lost_events > 0 {
        lines.push(Line::remark(format!(
            "{} of {} events were lost, so that some of the writes' requests are missing here",
            count(traced.lost_events),
            count(traced.lost_events + traced.events),
        )));
    }
    lines
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Journal => "journal",
        Class::Metadata => "metadata",
        Class::Flush => "flush",
        Class::Other => "others' I/O",
        Class::Unknown => "unknown",
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Submit => "submit",
        Phase::Read => "read",
        Phase::DataWrite => "data write",
        Phase::Waiting => "waiting",
        Phase::JournalWrite => "journal write",
        Phase::PreFlush => "pre-flush",
        Phase::CommitBlock => "commit block",
        Phase::PostFlush => "post-flush",
        Phase::MetadataWrite => "metadata write",
        Phase::OtherWrite => "other write",
        Phase::Return => "return",
    }
}

#[cfg(test)]
mod tests {
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::{BaselineKind, Record};
    use crate::model::traffic::BlockStat;
    use crate::report::{Style, explain, render};

    fn traced(sizes_bytes: &[u64]) -> Record {
        let mut builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        for &size_bytes in sizes_bytes {
            builder = builder
                .cell("t0", Some(FileState::Trunc), size_bytes, 200e3, 30)
                .traced();
        }
        builder.record
    }

    fn style(width: Option<usize>) -> Style {
        Style {
            width,
            color: false,
        }
    }

    /// The waterfall's lines.
    fn bars(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.contains('█')).collect()
    }

    #[test]
    fn a_traced_cell_shows_its_classes_phases_and_a_typical_write() {
        let text = render(&traced(&[4096]), &style(Some(100)));
        for part in [
            "Anatomy of a 4K o_dsync trunc write, from 100 writes traced in 2 slices",
            "journal          24.0   86 %      2.00",
            "counted writes   28.0             3.00",
            "post-flush        45.0   22 %\n",
            "The write of median latency: 200 µs",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert!(!text.contains("add up") && !text.contains("lost"), "{text}");
        // A single write of a hundred says nothing of one in a hundred.
        let mut record = traced(&[4096]);
        record.cells[0].traced.as_mut().unwrap().phase_ops = 1200;
        let text = render(&record, &style(Some(100)));
        assert!(
            text.contains("post-flush        45.0   22 %    90.0"),
            "{text}"
        );
    }

    #[test]
    fn bars_are_as_wide_as_their_time_and_fit_the_terminal() {
        for width in 40..=200 {
            let text = render(&traced(&[4096]), &style(Some(width)));
            let bars = bars(&text);
            let widest = bars.iter().map(|line| line.chars().count()).max();
            assert!(
                widest.is_some_and(|widest| widest <= width),
                "{width}:\n{text}"
            );
        }
        let text = render(&traced(&[4096]), &style(None));
        let blocks = |name: &str| {
            let bars = bars(&text);
            let line = bars.iter().find(|line| line.starts_with(name)).unwrap();
            line.matches(|c: char| ('▉'..='▏').contains(&c) || c == '█')
                .count()
        };
        // 30 and 45 µs of 200, on 60 columns, each begun in the middle of one.
        assert_eq!(blocks("data write"), 10);
        assert_eq!(blocks("post-flush"), 14);
    }

    #[test]
    fn doubts_about_a_trace_are_told() {
        let mut record = traced(&[4096]);
        let traced = record.cells[0].traced.as_mut().unwrap();
        traced.counted.write_sectors *= 2;
        traced.lost_events = 12;
        let text = render(&record, &style(Some(120)));
        assert!(
            text.contains("the device counted 5.47 MiB: 50 % apart"),
            "{text}"
        );
        assert!(text.contains("12 of 1,012 events were lost"), "{text}");
    }

    #[test]
    fn a_device_that_counts_nothing_is_not_held_against_the_trace() {
        let mut record = traced(&[4096]);
        record.cells[0].traced.as_mut().unwrap().counted = BlockStat::default();
        let text = render(&record, &style(Some(120)));
        assert!(text.contains("journal  24.0"), "{text}");
        let anatomy = text.split("Anatomy").nth(1).unwrap();
        assert!(!anatomy.contains("counted "), "{text}");
        assert!(!text.contains("apart"), "{text}");
    }

    #[test]
    fn a_report_shows_a_readable_part_and_explain_all() {
        let record = traced(&[4096, 8192, 16384]);
        let anatomies = |text: &str| text.matches("Anatomy of").count();
        let text = render(&record, &style(Some(120)));
        assert_eq!(anatomies(&text), 1, "{text}");
        assert!(text.contains("the anatomy of 2 cells more"), "{text}");
        let all = explain(&record, &style(Some(120)));
        assert_eq!(anatomies(&all), 3, "{all}");
        // Without one of 4 KiB, the first stands for those of its mix.
        let text = render(&traced(&[8192, 16384]), &style(Some(120)));
        assert_eq!(anatomies(&text), 1, "{text}");
    }
}
