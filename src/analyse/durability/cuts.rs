//! What losses of power left of what was acknowledged.

use crate::model::durability::{Checked, Counts};

use super::{Finding, Question, Verdict};

pub(super) fn finding(checked: Option<&Checked>) -> Finding {
    let (verdict, reasons) = checked.map_or_else(untried, tried);
    Finding::new(Question::PowerCut, verdict, reasons)
}

fn untried() -> (Verdict, Vec<String>) {
    let reason = "no timing tells what a loss of power leaves: only cutting it does, while another \
                  machine keeps what was acknowledged (--witness)";
    (Verdict::NotTestable, vec![reason.to_owned()])
}

fn tried(checked: &Checked) -> (Verdict, Vec<String>) {
    let counts = &checked.counts;
    if !counts.is_kept() {
        return (
            Verdict::Contradicted,
            vec![missing(checked.promised, counts)],
        );
    }
    let there = format!(
        "of {} acknowledged records, the newest in each of {} places is there",
        checked.promised, counts.intact
    );
    let mut reasons = vec![there];
    if counts.undecided > 0 {
        reasons.push(format!(
            "{} place was being written when the power went",
            counts.undecided
        ));
    }
    let open = if checked.promised == 0 {
        Some("nothing was promised before the end")
    } else if checked.ended {
        Some("the run said goodbye, so nothing was cut off")
    } else if checked.boot_id == checked.pledge.boot_id {
        Some(
            "this machine has not started anew since the run, so what was read may come from the very \
             cache that a loss of power empties",
        )
    } else {
        None
    };
    if let Some(open) = open {
        reasons.push(open.to_owned());
        return (Verdict::NotTestable, reasons);
    }
    let tally = &checked.tally;
    reasons.push(format!(
        "{} of {} cuts that the witness knows of this device, written with {} by {}, left all in its place",
        tally.survived, tally.cuts, checked.pledge.method, checked.pledge.engine
    ));
    reasons.push(
        "that the power was cut, and not the machine merely restarted, only its operator knows"
            .to_owned(),
    );
    (Verdict::Consistent, reasons)
}

fn missing(promised: u64, counts: &Counts) -> String {
    let kinds = [
        (counts.lost, "lost"),
        (counts.torn, "torn"),
        (counts.misplaced, "misplaced"),
        (counts.stale, "stale"),
        (
            counts.out_of_order,
            "out of order (a later record is there)",
        ),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "{promised} records were acknowledged, and of the newest in each place, {} are there and others are \
         not: {}",
        counts.intact,
        told.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::durability::Tally;
    use crate::model::fixture;

    fn checked() -> Checked {
        Checked {
            pledge: fixture::pledge(1),
            promised: 500,
            ended: false,
            boot_id: "second".to_owned(),
            newest: Some(501),
            counts: Counts {
                intact: 256,
                ..Counts::default()
            },
            missing: Vec::new(),
            tally: Tally {
                runs: 3,
                cuts: 3,
                survived: 3,
            },
        }
    }

    fn verdict(change: impl FnOnce(&mut Checked)) -> Verdict {
        let mut checked = checked();
        change(&mut checked);
        finding(Some(&checked)).verdict
    }

    #[test]
    fn a_cut_that_left_all_is_consistent_and_one_that_did_not_contradicts() {
        assert_eq!(verdict(|_| ()), Verdict::Consistent);
        assert_eq!(verdict(|c| c.counts.stale = 1), Verdict::Contradicted);
        assert_eq!(
            verdict(|c| c.counts.out_of_order = 1),
            Verdict::Contradicted
        );
        assert_eq!(verdict(|c| c.counts.undecided = 1), Verdict::Consistent);
    }

    #[test]
    fn without_a_cut_nothing_is_tested() {
        assert_eq!(finding(None).verdict, Verdict::NotTestable);
        assert_eq!(verdict(|c| c.ended = true), Verdict::NotTestable);
        assert_eq!(verdict(|c| c.promised = 0), Verdict::NotTestable);
        assert_eq!(
            verdict(|c| c.boot_id = "first".to_owned()),
            Verdict::NotTestable
        );
        // But what is missing is missing.
        let lost_without_a_cut = |c: &mut Checked| {
            c.boot_id = "first".to_owned();
            c.counts.lost = 1;
        };
        assert_eq!(verdict(lost_without_a_cut), Verdict::Contradicted);
    }
}
