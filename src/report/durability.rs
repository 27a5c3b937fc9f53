//! The findings on durability, and what each sync costs.

use crate::analyse::durability::{Cost, Finding, Verdict, costs, findings};
use crate::model::cell::Method;
use crate::model::units::show_bytes;

use super::figures::{UNKNOWN, delta_us, things, us};
use super::view::{Column, Study, Table};
use crate::model::units::digits3;

/// The findings in a sentence each question's verdict.
pub(super) fn answer(study: &Study<'_>) -> Option<String> {
    let findings = findings(study.record);
    if findings.is_empty() {
        return None;
    }
    let of = |verdict: Verdict| findings.iter().filter(move |f| f.verdict == verdict);
    let names = |verdict: Verdict| {
        let names: Vec<String> = of(verdict).map(|f| f.question.to_string()).collect();
        (!names.is_empty()).then(|| format!("{verdict}: {}", names.join(", ")))
    };
    let all = [
        Verdict::Contradicted,
        Verdict::Suspicious,
        Verdict::Consistent,
        Verdict::Declared,
        Verdict::NotTestable,
    ];
    let said: Vec<String> = all.into_iter().filter_map(names).collect();
    Some(format!(
        "Does it keep what it acknowledged? Of {}, {}",
        things(findings.len(), "question"),
        said.join("; ")
    ))
}

/// The tables of an inquiry into durability; none of another record.
pub(super) fn tables(study: &Study<'_>) -> Vec<Table> {
    let findings = findings(study.record);
    if findings.is_empty() {
        return Vec::new();
    }
    let costs = costs(study.record);
    let mut tables = vec![findings_table(&findings)];
    if !costs.is_empty() {
        tables.push(costs_table(study, &costs));
    }
    tables
}

fn findings_table(findings: &[Finding]) -> Table {
    let row = |finding: &Finding| {
        vec![
            finding.question.to_string(),
            finding.verdict.to_string(),
            finding.reasons.join("; "),
        ]
    };
    Table {
        caption: "What speaks for it and against it; no timing proves it".to_owned(),
        columns: vec![
            Column::text("question", 0),
            Column::text("verdict", 0),
            Column::wrapping("because"),
        ],
        rows: findings.iter().map(row).collect(),
    }
}

fn costs_table(study: &Study<'_>, costs: &[Cost]) -> Table {
    let row = |cost: &Cost| {
        let cell = study.cell(&cost.cell)?;
        let axes = &cell.spec.axes;
        let is_empty = axes.method == Method::EmptyFlush;
        Some(vec![
            axes.method.to_string(),
            axes.engine.to_string(),
            if is_empty {
                "0".to_owned()
            } else {
                show_bytes(axes.size_bytes)
            },
            cell.latency_ns
                .map_or_else(|| UNKNOWN.to_owned(), |latency| us(latency.p50 as f64)),
            match is_empty {
                true => "all of it".to_owned(),
                false => delta_us(cost.p50_cost_ns),
            },
            cost.flushes_per_op
                .map_or_else(|| UNKNOWN.to_owned(), digits3),
        ])
    };
    Table {
        caption:
            "What each sync costs: median latency, and that less the median of the same write \
                  without a sync, with 95 % confidence intervals from paired rounds"
                .to_owned(),
        columns: vec![
            Column::text("method", 0),
            Column::text("engine", 1),
            Column::number("dirty", 0),
            Column::number("p50 µs", 0),
            Column::number("cost µs", 0),
            Column::number("flushes", 1),
        ],
        rows: costs.iter().filter_map(row).collect(),
    }
}
