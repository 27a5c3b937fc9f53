//! The table of what writes took of the processor and of the journal.

use crate::analyse::effort::Effort;
use crate::model::record::Cell;
use crate::model::units::digits3;

use super::figures::us;
use super::tables::Varied;
use super::view::{Column, Study, Table};

/// What stands where nothing was counted.
const UNCOUNTED: &str = "-";

/// A row for each cell; no table where nothing was counted, no column of what no filesystem counts.
pub(super) fn table(study: &Study<'_>, shown: &[&Cell], varied: &Varied) -> Option<Table> {
    let rows: Vec<Vec<String>> = shown
        .iter()
        .filter_map(|cell| Some((cell, study.effort(cell)?)))
        .map(|(cell, effort)| {
            let mut row = varied.cells(study, cell);
            row.push(cell.spec.role.to_string());
            row.extend(figures(effort));
            row
        })
        .collect();
    let mut columns = varied.columns();
    columns.push(Column::text("side", 0));
    columns.extend([
        Column::number("user µs", 0),
        Column::number("system µs", 0),
        Column::number("sleeps", 4),
        Column::number("preempted", 5),
        Column::number("transactions", 1),
        Column::number("log writes", 2),
        Column::number("log KiB", 3),
    ]);
    let mut table = Table {
        caption:
            "What a write took of the processor (in the program and in the kernel), how often a \
                  thread slept or was preempted for it, and what the filesystem's journal wrote"
                .to_owned(),
        columns,
        rows,
    };
    table.drop_blank(UNCOUNTED);
    (!table.rows.is_empty()).then_some(table)
}

fn figures(effort: &Effort) -> [String; 7] {
    let some = |figure: Option<f64>| figure.map_or_else(|| UNCOUNTED.to_owned(), digits3);
    [
        us(effort.user_ns),
        us(effort.system_ns),
        digits3(effort.voluntary_switches),
        digits3(effort.involuntary_switches),
        some(effort.transactions),
        some(effort.log_writes),
        some(effort.log_bytes.map(|bytes| bytes / 1024.0)),
    ]
}

#[cfg(test)]
mod tests {
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::BaselineKind;
    use crate::model::traffic::{FsCount, ProcessCount};
    use crate::report::{Style, explain};

    #[test]
    fn only_what_the_filesystem_counts_has_a_column() {
        let builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        let mut record = builder
            .cell("t0", Some(FileState::Trunc), 4096, 100e3, 100)
            .record;
        assert!(!explain(&record, &Style::default()).contains("user µs"));
        for slice in &mut record.cells[0].slices {
            slice.process = Some(ProcessCount {
                user_ns: 1500 * slice.ops,
                ..ProcessCount::default()
            });
            slice.filesystem = Some(FsCount {
                jbd2_transactions: Some(slice.ops),
                ..FsCount::default()
            });
        }
        let text = explain(&record, &Style::default());
        assert!(
            text.contains("user µs") && text.contains("transactions"),
            "{text}"
        );
        assert!(text.contains("1.50") && text.contains("1.00"), "{text}");
        assert!(!text.contains("log KiB"), "{text}");
    }
}
