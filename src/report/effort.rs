//! The table of what writes took of the processor, and what the filesystem's journal did for them.

use crate::analyse::overhead::WriteOverhead;
use crate::model::record::Cell;
use crate::model::units::digits3;

use super::figures::us;
use super::tables::Varied;
use super::view::{Column, Study, Table};

/// What stands where nothing was counted.
const UNCOUNTED: &str = "-";

/// A figure of a cell, and its column.
struct Figure {
    name: &'static str,
    rank: u8,
    text: fn(&WriteOverhead) -> String,
}

const FIGURES: [Figure; 10] = [
    Figure {
        name: "user µs",
        rank: 0,
        text: |effort| us(effort.user_ns),
    },
    Figure {
        name: "system µs",
        rank: 0,
        text: |effort| us(effort.system_ns),
    },
    Figure {
        name: IO_URING,
        rank: 3,
        text: |effort| time(effort.io_uring_ns),
    },
    Figure {
        name: "sleeps",
        rank: 1,
        text: |effort| digits3(effort.voluntary_switches),
    },
    Figure {
        name: "preempted",
        rank: 6,
        text: |effort| digits3(effort.involuntary_switches),
    },
    Figure {
        name: "transactions",
        rank: 1,
        text: |effort| counted(effort.transactions),
    },
    Figure {
        name: "commit µs",
        rank: 2,
        text: |effort| time(effort.commit_ns),
    },
    Figure {
        name: "log writes",
        rank: 1,
        text: |effort| counted(effort.log_writes),
    },
    Figure {
        name: "log KiB",
        rank: 2,
        text: |effort| counted(effort.log_bytes.map(|bytes| bytes / 1024.0)),
    },
    Figure {
        name: "log forces",
        rank: 5,
        text: |effort| counted(effort.log_forces),
    },
];

const IO_URING: &str = "io_uring µs";

fn counted(figure: Option<f64>) -> String {
    figure.map_or_else(|| UNCOUNTED.to_owned(), digits3)
}

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| UNCOUNTED.to_owned(), us)
}

/// A row for each cell of the section's typical size, which is 4 KiB or else the first.
pub(super) fn typical(study: &Study<'_>, shown: &[&Cell], varied: &Varied) -> Option<Table> {
    let sizes = || shown.iter().map(|cell| cell.spec.axes.size_bytes);
    let size = sizes().find(|&size| size == 4096).or(sizes().next())?;
    let of_size = shown
        .iter()
        .copied()
        .filter(|cell| cell.spec.axes.size_bytes == size);
    table(study, &of_size.collect::<Vec<&Cell>>(), varied)
}

/// A row for each cell; no table where nothing was counted, no column of what none has.
pub(super) fn table(study: &Study<'_>, shown: &[&Cell], varied: &Varied) -> Option<Table> {
    let rows: Vec<Vec<String>> = shown
        .iter()
        .filter_map(|cell| {
            let effort = study.effort(cell)?;
            let mut row = varied.cells(study, cell);
            row.push(cell.spec.role.to_string());
            row.extend(FIGURES.iter().map(|figure| (figure.text)(effort)));
            Some(row)
        })
        .collect();
    let mut columns = varied.columns();
    columns.push(Column::text("side", 0));
    let figures = FIGURES.iter();
    columns.extend(figures.map(|figure| Column::number(figure.name, figure.rank)));
    let mut table = Table {
        caption: String::new(),
        columns,
        rows,
    };
    table.drop_blank(UNCOUNTED);
    table.caption = caption(&table);
    (!table.rows.is_empty()).then_some(table)
}

/// What the columns mean that are there.
fn caption(table: &Table) -> String {
    let has = |name: &str| table.columns.iter().any(|column| column.name == name);
    let mut text = "What a write took: processor time in the program and in the kernel".to_owned();
    if has(IO_URING) {
        text += ", that of io_uring's own threads";
    }
    text += ", and how often a thread slept or was preempted";
    if has("transactions") {
        text += "; the journal's transactions for it, and the time of a commit";
    }
    if has("log writes") {
        text += "; XFS's log writes for it";
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::{BaselineKind, Record};
    use crate::model::traffic::{FsCount, Jbd2Count, ProcessCount};
    use crate::report::{Style, explain, render};

    fn record(sizes_bytes: &[u64]) -> Record {
        let mut builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        for &size_bytes in sizes_bytes {
            builder = builder.cell("t0", Some(FileState::Trunc), size_bytes, 100e3, 100);
        }
        let mut record = builder.record;
        assert!(!explain(&record, &Style::default()).contains("user µs"));
        for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
            slice.process = Some(ProcessCount {
                user_ns: 1500 * slice.ops,
                system_ns: 4000 * slice.ops,
                voluntary_switches: 2 * slice.ops,
                involuntary_switches: 0,
            });
            slice.filesystem = Some(FsCount {
                jbd2: Some(Jbd2Count {
                    transactions: slice.ops,
                    requested: None,
                    commit_ns: Some(321_000),
                }),
                ..FsCount::default()
            });
        }
        record
    }

    #[test]
    fn only_what_the_filesystem_counts_has_a_column() {
        let text = explain(&record(&[4096]), &Style::default());
        for part in ["user µs", "transactions", "1.50", "1.00", "321", "commit"] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        for part in ["log KiB", "io_uring µs", "XFS"] {
            assert!(!text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn io_urings_threads_are_told_apart_where_they_did_something() {
        let mut record = record(&[4096]);
        for slice in &mut record.cells[0].slices {
            slice.worker_cpu_ns = Some(3000 * slice.ops);
        }
        let text = explain(&record, &Style::default());
        assert!(text.contains("io_uring µs"), "{text}");
    }

    #[test]
    fn a_report_shows_a_typical_size_and_explain_all() {
        let record = record(&[512, 4096, 8192]);
        let is_row = |line: &&str| line.contains("file") && line.contains("1.50");
        let rows = |text: &str| text.lines().filter(is_row).count();
        assert_eq!(rows(&render(&record, &Style::default())), 1);
        assert_eq!(rows(&explain(&record, &Style::default())), 3);
    }

    #[test]
    fn the_journals_columns_go_before_the_processors_where_there_is_no_room() {
        let style = Style {
            width: Some(50),
            color: false,
        };
        let text = explain(&record(&[4096]), &style);
        let header = text.lines().find(|line| line.contains("user µs")).unwrap();
        assert!(!header.contains("preempted"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 50),
            "{text}"
        );
    }
}
