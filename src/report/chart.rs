//! Series over time as a line of blocks each, as high as their values.

use super::view::{Chart, Trace};

/// Columns of a line where the width is not bounded.
const NATURAL_WIDTH: usize = 60;
/// Fewer columns than this show nothing; a line is then too long for the terminal.
const MIN_WIDTH: usize = 10;
/// A column filled from below by eighths (Unicode, Block Elements).
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Under a column that a mark touches.
const MARK: char = '▔';

/// The chart's lines, without its caption.
pub(super) fn lay_out(chart: &Chart, width: Option<usize>) -> Vec<String> {
    let widest = |text: fn(&Trace) -> &str| {
        let lengths = chart.traces.iter().map(|trace| text(trace).chars().count());
        lengths.max().unwrap_or(0)
    };
    let marks_label = chart
        .marks
        .as_ref()
        .map_or(0, |(label, _)| label.chars().count());
    let label = widest(|trace| &trace.label).max(marks_label);
    let texts = label + widest(|trace| &trace.scale) + 2 * 2;
    let columns = width.map_or(NATURAL_WIDTH, |width| {
        width.saturating_sub(texts).max(MIN_WIDTH)
    });
    let most = chart.traces.iter().map(|trace| trace.values.len()).max();
    let columns = columns.min(most.unwrap_or(0).max(1));
    let mut lines: Vec<String> = chart
        .traces
        .iter()
        .map(|trace| {
            let line = sparkline(&trace.values, trace.top, columns);
            format!("{:label$}  {line}  {}", trace.label, trace.scale)
        })
        .collect();
    if let Some((name, spans)) = &chart.marks {
        let line = format!("{name:label$}  {}", marks(spans, columns));
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// One column for each share of the values, as high as their mean; nothing for nothing.
fn sparkline(values: &[f64], top: f64, columns: usize) -> String {
    let mean = |column: usize| {
        let from = column * values.len() / columns;
        let to = ((column + 1) * values.len() / columns).max(from + 1);
        let part = values.get(from..to.min(values.len())).unwrap_or_default();
        part.iter().sum::<f64>() / part.len().max(1) as f64
    };
    let block = |value: f64| {
        if value <= 0.0 || top <= 0.0 {
            return ' ';
        }
        let eighths = (value / top * 8.0).ceil() as usize;
        EIGHTHS[eighths.clamp(1, 8) - 1]
    };
    (0..columns).map(|column| block(mean(column))).collect()
}

/// The columns that spans touch, given as shares of the whole.
fn marks(spans: &[(f64, f64)], columns: usize) -> String {
    let touches = |column: usize| {
        let (from, to) = (
            column as f64 / columns as f64,
            (column + 1) as f64 / columns as f64,
        );
        spans.iter().any(|&(start, end)| start < to && end >= from)
    };
    (0..columns)
        .map(|column| if touches(column) { MARK } else { ' ' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_high_as_the_mean_of_their_share() {
        let values = [0.0, 0.0, 1.0, 1.0, 4.0, 4.0, 8.0, 8.0];
        assert_eq!(sparkline(&values, 8.0, 8), "  ▁▁▄▄██");
        assert_eq!(sparkline(&values, 8.0, 4), " ▁▄█");
        assert_eq!(sparkline(&[], 8.0, 3), "   ");
        assert_eq!(sparkline(&[0.001], 8.0, 1), "▁");
    }

    #[test]
    fn marks_stand_below_the_columns_that_they_touch() {
        assert_eq!(marks(&[(0.25, 0.26), (0.7, 0.8)], 10), "  ▔    ▔▔ ");
        assert_eq!(marks(&[], 3), "   ");
    }

    #[test]
    fn labels_and_scales_line_up() {
        let trace = |label: &str, values: &[f64]| Trace {
            label: label.to_owned(),
            values: values.to_vec(),
            top: 8.0,
            scale: "to 8".to_owned(),
        };
        let chart = Chart {
            caption: String::new(),
            traces: vec![trace("a", &[8.0; 100]), trace("long", &[4.0; 100])],
            marks: Some(("mark".to_owned(), vec![(0.0, 0.1)])),
        };
        let lines = lay_out(&chart, Some(24));
        assert_eq!(
            lines,
            [
                "a     ████████████  to 8",
                "long  ▄▄▄▄▄▄▄▄▄▄▄▄  to 8",
                "mark  ▔▔"
            ]
        );
    }
}
