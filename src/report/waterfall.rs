//! A write's stretches as bars, one below the other, as wide as the time that they took.

use super::view::Waterfall;

/// Columns of the bars where the width is not bounded.
const NATURAL_WIDTH: usize = 60;
/// Fewer columns than this show nothing; a line is then too long for the terminal.
const MIN_WIDTH: usize = 6;
/// A column filled from the left by eighths (Unicode, Block Elements).
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

pub(super) fn lay_out(waterfall: &Waterfall, width: Option<usize>) -> Vec<String> {
    let widest = |text: fn(&super::view::Bar) -> &str| {
        let lengths = waterfall.bars.iter().map(|bar| text(bar).chars().count());
        lengths.max().unwrap_or(0)
    };
    let (name, time, bytes) = (
        widest(|bar| bar.name),
        widest(|bar| &bar.time),
        widest(|bar| &bar.bytes),
    );
    let texts = name + time + bytes + 3 * 2;
    let columns = width.map_or(NATURAL_WIDTH, |width| {
        width.saturating_sub(texts).max(MIN_WIDTH)
    });
    waterfall
        .bars
        .iter()
        .map(|one| {
            let bar = bar(one.start, one.end, columns);
            let line = format!(
                "{:name$}  {bar:columns$}  {:>time$}  {:>bytes$}",
                one.name, one.time, one.bytes
            );
            line.trim_end().to_owned()
        })
        .collect()
}

/// A bar between two shares of `columns`: from a whole column to an eighth of one, and never nothing.
pub(super) fn bar(start: f64, end: f64, columns: usize) -> String {
    let first = ((start * columns as f64) as usize).min(columns - 1);
    let last = (end * columns as f64 * 8.0).round() as usize;
    let eighths = last
        .saturating_sub(first * 8)
        .clamp(1, (columns - first) * 8);
    let mut text = " ".repeat(first);
    text.extend(std::iter::repeat_n(EIGHTHS[7], eighths / 8));
    text.extend((eighths % 8).checked_sub(1).map(|at| EIGHTHS[at]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stands_where_its_time_was() {
        assert_eq!(bar(0.0, 0.5, 8), "████");
        assert_eq!(bar(0.5, 1.0, 8), "    ████");
        assert_eq!(bar(0.25, 0.3125, 8), "  ▌");
        assert_eq!(bar(0.0, 1.0, 3), "███");
    }

    #[test]
    fn the_shortest_stretch_still_shows() {
        assert_eq!(bar(0.5, 0.5, 4), "  ▏");
        assert_eq!(bar(1.0, 1.0, 4), "   █");
        assert_eq!(bar(0.0, 0.0001, 4), "▏");
    }
}
