//! The record with what follows from it.

use serde_json::Value;

use crate::analyse::{
    amplify, drive, durability, explain, gap, lab, overhead, timeline, trunc, verdict,
};
use crate::model::record::Record;

use super::view::view;

/// The record's own keys, and `gaps`, `trunc_penalties`, `amplification` (an entry for each cell that
/// a device counted), `effort` (of each cell, per write), `drive_use` (what each drive counted from
/// begin to end), `explanations`, `verdicts` (on each claim that was tried) and `warnings` beside
/// them; of a lab also `rankings` and `gains`, of workloads over time their figures.
pub fn json(record: &Record) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(record)?;
    if let Value::Object(keys) = &mut value {
        keys.insert("gaps".to_owned(), serde_json::to_value(gap::gaps(record))?);
        let penalties = trunc::trunc_penalties(record);
        keys.insert(
            "trunc_penalties".to_owned(),
            serde_json::to_value(penalties)?,
        );
        let amplification = amplify::amplifications(record);
        keys.insert(
            "amplification".to_owned(),
            serde_json::to_value(amplification)?,
        );
        let efforts = overhead::efforts(record);
        keys.insert("effort".to_owned(), serde_json::to_value(efforts)?);
        let uses = drive::drive_uses(record);
        keys.insert("drive_use".to_owned(), serde_json::to_value(uses)?);
        let explanations = explain::explanations(record);
        keys.insert(
            "explanations".to_owned(),
            serde_json::to_value(explanations)?,
        );
        let verdicts = verdict::verdicts(record);
        keys.insert("verdicts".to_owned(), serde_json::to_value(verdicts)?);
        if record.lab.is_some() {
            let rankings = lab::rankings(record);
            keys.insert("rankings".to_owned(), serde_json::to_value(rankings)?);
            keys.insert(
                "gains".to_owned(),
                serde_json::to_value(lab::gains(record))?,
            );
        }
        if !record.timelines.is_empty() {
            let over_time = [
                (
                    "standings",
                    serde_json::to_value(timeline::standing::standings(record))?,
                ),
                (
                    "checkpoints",
                    serde_json::to_value(timeline::checkpoint::checkpoint_figures(record))?,
                ),
                (
                    "churn",
                    serde_json::to_value(timeline::churn::churn_figures(record))?,
                ),
                (
                    "wal_append",
                    serde_json::to_value(timeline::wal::wal_figures(record))?,
                ),
            ];
            keys.extend(over_time.map(|(name, figures)| (name.to_owned(), figures)));
        }
        if record.durability.is_some() {
            let findings = serde_json::to_value(durability::findings(record))?;
            keys.insert("durability_findings".to_owned(), findings);
            let costs = serde_json::to_value(durability::costs(record))?;
            keys.insert("sync_costs".to_owned(), costs);
        }
        keys.insert("warnings".to_owned(), view(record).warnings().into());
    }
    Ok(value)
}
