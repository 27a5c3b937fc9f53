//! What writes became at the device: columns of the main tables, and tables of their own.

use crate::analyse::amplify::Amplification;
use crate::model::cell::FileState;
use crate::model::record::Cell;
use crate::model::units::{digits3, show_bytes};

use super::figures::{mib_per_s, percent, us};
use super::tables::{Varied, column, throughput};
use super::view::{Column, Study, Table};

/// What stands where nothing was counted.
const UNCOUNTED: &str = "-";

/// The columns that [`figures`] fills: none where no cell of `shown` was counted. They go first
/// where there is little room.
pub(super) fn columns(study: &Study<'_>, shown: &[&Cell]) -> Vec<Column> {
    if !is_counted(study, shown) {
        return Vec::new();
    }
    vec![
        column("dev MiB/s", 5, true),
        column("ampl.", 6, true),
        column("flushes", 7, true),
        column("eff. share", 8, true),
    ]
}

/// A cell's figures for [`columns`].
pub(super) fn figures(study: &Study<'_>, shown: &[&Cell], cell: &Cell) -> Vec<String> {
    if !is_counted(study, shown) {
        return Vec::new();
    }
    let counted = study.amplification(cell);
    vec![
        text(counted, |counted| {
            Some(mib_per_s(counted.device_bytes_per_s))
        }),
        text(counted, |counted| Some(digits3(counted.amplification))),
        text(counted, |counted| counted.flushes_per_write.map(digits3)),
        text(counted, |counted| counted.effective_share.map(percent)),
    ]
}

/// What the columns' names mean, for a caption; nothing where there are none.
pub(super) fn legend(study: &Study<'_>, shown: &[&Cell]) -> &'static str {
    if is_counted(study, shown) {
        "; at the device: MiB/s written, bytes per byte (ampl.), flushes per write, and the share \
         of its bytes that are the program's own"
    } else {
        ""
    }
}

fn is_counted(study: &Study<'_>, shown: &[&Cell]) -> bool {
    shown.iter().any(|cell| study.amplification(cell).is_some())
}

fn text(
    counted: Option<&Amplification>,
    figure: impl Fn(&Amplification) -> Option<String>,
) -> String {
    counted
        .and_then(figure)
        .unwrap_or_else(|| UNCOUNTED.to_owned())
}

/// The effective share after O_TRUNC beside a vendor's model of it.
pub(super) fn share_table(study: &Study<'_>, cells: &[&Cell]) -> Option<Table> {
    let rows: Vec<Vec<String>> = cells
        .iter()
        .filter(|cell| cell.spec.file_state == Some(FileState::Trunc))
        .filter_map(|trunc| {
            let counted = study.amplification(trunc)?;
            let overwrite = cells.iter().find(|cell| {
                cell.spec.file_state == Some(FileState::Overwrite)
                    && cell.spec.axes == trunc.spec.axes
            });
            let overwrite = overwrite.and_then(|cell| study.amplification(cell));
            let share = |counted: &Amplification| counted.effective_share.map(percent);
            let kib = counted.amplification * trunc.spec.axes.size_bytes as f64 / 1024.0;
            Some(vec![
                show_bytes(trunc.spec.axes.size_bytes),
                text(overwrite, share),
                text(Some(counted), share),
                text(Some(counted), |counted| counted.model_share.map(percent)),
                throughput(trunc),
                mib_per_s(counted.device_bytes_per_s),
                digits3(kib),
                digits3(counted.requests_per_write),
                digits3(counted.merges_per_write),
            ])
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "Effective share of the device's bytes, without and with O_TRUNC, beside a vendor's \
                  model S/(S+32K+4K); with O_TRUNC: what the file and what the device took, and what \
                  a write became"
            .to_owned(),
        columns: vec![
            column("size", 0, true),
            column("overwrite", 0, true),
            column("trunc", 0, true),
            column("model", 0, true),
            column("file MiB/s", 1, true),
            column("dev MiB/s", 1, true),
            column("dev KiB/write", 2, true),
            column("requests", 3, true),
            column("merged", 4, true),
        ],
        rows,
    })
}

/// All that the device counted, a row for each cell.
pub(super) fn counters_table(study: &Study<'_>, shown: &[&Cell], varied: &Varied) -> Option<Table> {
    let rows: Vec<Vec<String>> = shown
        .iter()
        .filter_map(|cell| {
            let counted = study.amplification(cell)?;
            let mut row = varied.cells(cell);
            row.push(cell.spec.role.to_string());
            row.extend(figures(study, shown, cell));
            row.extend([
                digits3(counted.requests_per_write),
                digits3(counted.merges_per_write),
                text(Some(counted), |counted| counted.write_mean_ns.map(us)),
                text(Some(counted), |counted| counted.flush_mean_ns.map(us)),
            ]);
            Some(row)
        })
        .collect();
    let mut columns = varied.columns();
    columns.push(column("side", 0, false));
    columns.extend(
        self::columns(study, shown)
            .into_iter()
            .map(|column| Column { rank: 0, ..column }),
    );
    columns.extend([
        column("requests", 1, true),
        column("merged", 2, true),
        column("write µs", 1, true),
        column("flush µs", 1, true),
    ]);
    (!rows.is_empty()).then(|| Table {
        caption: "What the device counted: MiB/s written (what iostat shows), bytes per byte, and per \
                  write flushes, write requests (a filesystem's empty flush is one) and merges; mean \
                  time of a request and of a flush"
            .to_owned(),
        columns,
        rows,
    })
}
