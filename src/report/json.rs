//! The record with what follows from it.

use serde_json::Value;

use crate::analyse::{amplify, durability, effort, explain, gap, lab, trunc};
use crate::model::record::Record;

use super::view::view;

/// The record's own keys, and `gaps`, `trunc_penalties`, `amplification` (an entry for each cell that
/// a device counted), `effort` (of each cell, per write), `explanations` and `warnings` beside them;
/// of a lab also `rankings` and `gains`.
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
        let efforts = effort::efforts(record);
        keys.insert("effort".to_owned(), serde_json::to_value(efforts)?);
        let explanations = explain::explanations(record);
        keys.insert(
            "explanations".to_owned(),
            serde_json::to_value(explanations)?,
        );
        if record.lab.is_some() {
            let rankings = lab::rankings(record);
            keys.insert("rankings".to_owned(), serde_json::to_value(rankings)?);
            keys.insert(
                "gains".to_owned(),
                serde_json::to_value(lab::gains(record))?,
            );
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
