//! The findings on durability, and what each sync costs.

use crate::analyse::durability::{Cost, Finding, Verdict, costs, findings};
use crate::model::cell::Method;
use crate::model::durability::{Checked, Fault, Missing};
use crate::model::units::show_bytes;

use super::figures::{UNKNOWN, delta_us, p50_us, things};
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
    let durability = study.record.durability.as_ref();
    if let Some(checked) = durability.and_then(|durability| durability.checked.as_ref()) {
        tables.push(counts_table(checked));
        tables.extend(missing_table(checked));
    }
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

fn counts_table(checked: &Checked) -> Table {
    let (pledge, counts) = (&checked.pledge, &checked.counts);
    let columns = [
        ("promised", checked.promised),
        ("intact", counts.intact),
        ("lost", counts.lost),
        ("torn", counts.torn),
        ("misplaced", counts.misplaced),
        ("stale", counts.stale),
        ("out of order", counts.out_of_order),
        ("undecided", counts.undecided),
        ("cuts", checked.tally.cuts),
        ("survived", checked.tally.survived),
    ];
    Table {
        caption: format!(
            "Run {} of {}, {} records by {} and engine {} in {} places: what was promised to the witness, \
             what became of the newest promised record of each place, and of how many cuts the witness \
             knows",
            pledge.id,
            pledge.started,
            show_bytes(pledge.record_bytes),
            pledge.method,
            pledge.engine,
            pledge.places()
        ),
        columns: columns
            .iter()
            .map(|(name, _)| Column::number(name, 0))
            .collect(),
        rows: vec![columns.iter().map(|(_, count)| count.to_string()).collect()],
    }
}

fn missing_table(checked: &Checked) -> Option<Table> {
    let row = |missing: &Missing| {
        vec![
            missing.sequence.to_string(),
            missing.offset_bytes.to_string(),
            fault_words(missing.fault).to_owned(),
            missing
                .found_sequence
                .map_or_else(|| "-".to_owned(), |sequence| sequence.to_string()),
        ]
    };
    (!checked.missing.is_empty()).then(|| Table {
        caption: "The first records that are not there, and which one is in their place".to_owned(),
        columns: vec![
            Column::number("record", 0),
            Column::number("at byte", 0),
            Column::text("what", 0),
            Column::number("there is", 0),
        ],
        rows: checked.missing.iter().map(row).collect(),
    })
}

fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Lost => "lost: nothing of any record",
        Fault::Torn => "torn: a part of it",
        Fault::Misplaced => "misplaced: a record from elsewhere",
        Fault::Stale => "stale: an older record",
        Fault::OutOfOrder => "out of order: a later record is on the device",
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
            p50_us(cell),
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
            "What each sync costs: median latency over all rounds, and the mean of each round's median \
                  less that of the same write without a sync, with 95 % confidence intervals"
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
