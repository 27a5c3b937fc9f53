//! What writes became at the device: columns of the main tables, and tables of their own.

use crate::analyse::amplify::Amplification;
use crate::model::cell::FileState;
use crate::model::record::Cell;
use crate::model::units::{digits3, show_bytes};

use super::figures::{mib_per_s, percent, us};
use super::tables::{Varied, throughput};
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
        Column::number("dev MiB/s", 8),
        Column::number("ampl.", 5),
        Column::number("flushes", 6),
        Column::number("eff. share", 7),
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

/// A share to a tenth of a percent, as the vendor's note gives it.
fn percent1(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
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
            let share = |counted: &Amplification| counted.effective_share.map(percent1);
            let kib = counted.amplification * trunc.spec.axes.size_bytes as f64 / 1024.0;
            Some(vec![
                show_bytes(trunc.spec.axes.size_bytes),
                text(overwrite, share),
                text(Some(counted), share),
                text(Some(counted), |counted| counted.model_share.map(percent1)),
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
            Column::number("size", 0),
            Column::number("overwrite", 0),
            Column::number("trunc", 0),
            Column::number("model", 0),
            Column::number("file MiB/s", 1),
            Column::number("dev MiB/s", 1),
            Column::number("dev KiB/write", 2),
            Column::number("requests", 3),
            Column::number("merged", 4),
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
            let mut row = varied.cells(study, cell);
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
    columns.push(Column::text("side", 0));
    columns.extend(
        self::columns(study, shown)
            .into_iter()
            .map(|column| Column { rank: 0, ..column }),
    );
    columns.extend([
        Column::number("requests", 1),
        Column::number("merged", 2),
        Column::number("write µs", 1),
        Column::number("flush µs", 1),
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

/// What each device of a filesystem on several took; none where there is but one.
pub(super) fn parts_table(study: &Study<'_>, cells: &[&Cell], varied: &Varied) -> Option<Table> {
    let mut rows = Vec::new();
    for cell in cells {
        let Some(counted) = study.amplification(cell) else {
            continue;
        };
        let target = study.target(&cell.spec.target);
        for part in &counted.parts {
            let device = target.and_then(|of| of.devices().find(|one| one.dev == part.device));
            let mut row = varied.cells(study, cell);
            row.extend([
                device.map_or_else(|| part.device.to_string(), |device| device.name.clone()),
                part.holds
                    .map_or_else(|| "data and metadata".to_owned(), |holds| holds.to_string()),
                digits3(part.bytes_per_byte * cell.spec.axes.size_bytes as f64 / 1024.0),
                digits3(part.bytes_per_byte),
                text(Some(counted), |_| part.flushes_per_write.map(digits3)),
                digits3(part.requests_per_write),
            ]);
            rows.push(row);
        }
    }
    let mut columns = varied.columns();
    columns.extend([
        Column::text("device", 0),
        Column::text("holds", 1),
        Column::number("KiB/write", 0),
        Column::number("ampl.", 0),
        Column::number("flushes", 0),
        Column::number("requests", 2),
    ]);
    (!rows.is_empty()).then(|| Table {
        caption: "What each device of the filesystem took; the figures of the device in the other \
                  tables are the sums"
            .to_owned(),
        columns,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use crate::model::cell::FileState;
    use crate::model::fixture::{Builder, PerWrite};
    use crate::model::record::{BaselineKind, Record};
    use crate::report::{Style, explain, json, render};

    fn style(width: usize) -> Style {
        Style {
            width: Some(width),
            color: false,
        }
    }

    fn noted() -> Record {
        let mut builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        for size_bytes in [4 << 10, 32 << 10, 512 << 10] {
            let each = |extra_bytes, requests, merges, flushes| PerWrite {
                bytes: size_bytes + extra_bytes,
                requests,
                merges,
                flushes,
            };
            builder = builder
                .cell("t0", Some(FileState::Overwrite), size_bytes, 100e3, 1200)
                .counted(each(0, 2, 0, 1))
                .cell("t0", Some(FileState::Trunc), size_bytes, 400e3, 1200)
                .counted(each(28 << 10, 3, 4, 2));
        }
        builder.record
    }

    #[test]
    fn a_vendors_table_stands_measured_beside_its_model() {
        let text = render(&noted(), &style(140));
        for row in [
            ["4K", "100.0 %", "12.5 %", "10.0 %"],
            ["32K", "100.0 %", "53.3 %", "47.1 %"],
            ["512K", "100.0 %", "94.8 %", "93.4 %"],
        ] {
            let found = text.lines().any(|line| {
                let squeezed = line.split_whitespace().collect::<Vec<_>>().join(" ");
                squeezed.starts_with(&row.join(" "))
            });
            assert!(found, "{row:?} is not in:\n{text}");
        }
    }

    #[test]
    fn columns_of_the_device_go_first_where_there_is_no_room() {
        let wide = render(&noted(), &style(200));
        for name in [
            "dev MiB/s",
            "ampl.",
            "flushes",
            "eff. share",
            "at the device",
        ] {
            assert!(wide.contains(name), "{name} is missing:\n{wide}");
        }
        let narrow = render(&noted(), &style(90));
        let kept = narrow.lines().find(|line| line.contains("IOPS")).unwrap();
        assert!(
            kept.contains("p99.9 µs") && !kept.contains("eff. share"),
            "{narrow}"
        );
    }

    #[test]
    fn without_counters_nothing_is_said_of_the_device() {
        let mut record = noted();
        for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
            slice.devices.clear();
        }
        let text = render(&record, &style(200));
        assert!(!text.contains("ampl.") && !text.contains("model"), "{text}");
        assert!(!explain(&record, &style(200)).contains("counted"));
    }

    #[test]
    fn explain_shows_what_the_device_counted_for_each_cell() {
        let text = explain(&noted(), &style(140));
        assert!(
            text.contains("write µs") && text.contains("flush µs"),
            "{text}"
        );
        assert!(text.contains("Tip: O_TRUNC made 4K writes"), "{text}");
        assert!(!text.contains("p99.9"), "{text}");
    }

    #[test]
    fn json_lists_amplification_and_explanations() {
        let value = json(&noted()).unwrap();
        let trunc = &value["amplification"][1];
        assert_eq!(trunc["cell"], "t0/file/trunc/4096");
        assert_eq!(trunc["amplification"], 8.0);
        assert_eq!(trunc["flushes_per_write"], 2.0);
        assert_eq!(value["explanations"][0]["kind"], "tip");
    }
}
