//! The view as text.

use super::Style;
use super::view::View;

pub(super) fn render(_view: &View, _style: &Style) -> String {
    String::new()
}
