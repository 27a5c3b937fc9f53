//! What a report shows, as labelled text.

use crate::model::record::Record;

pub(super) struct View;

pub(super) fn view(_record: &Record) -> View {
    View
}
