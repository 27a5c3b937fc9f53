//! Claims of one file that cannot both hold.

use crate::model::claims::{Bound, Claim, Side};

/// The claim among `earlier`, each with its line, that `claim` contradicts, and how: the same
/// conditions, and bounds that exclude each other or two values for one figure.
pub(super) fn find(earlier: &[(usize, Claim)], claim: &Claim) -> Option<(usize, String)> {
    let bound = claim.bound?;
    earlier.iter().find_map(|(line, other)| {
        let other_bound = other.bound?;
        let same = other.conditions == claim.conditions && share_capacity(other, claim);
        let why = same.then(|| clash(&other_bound, &bound))??;
        Some((*line, format!("the conditions are the same, and {why}")))
    })
}

/// Both are for a drive that there may be.
fn share_capacity(one: &Claim, other: &Claim) -> bool {
    one.capacities_bytes.is_empty()
        || other.capacities_bytes.is_empty()
        || one
            .capacities_bytes
            .iter()
            .any(|capacity| other.capacities_bytes.contains(capacity))
}

fn clash(one: &Bound, other: &Bound) -> Option<String> {
    if one.figure != other.figure {
        return None;
    }
    let figure = one.figure;
    match (one.side, other.side) {
        _ if one.side == other.side => {
            (one.value != other.value).then(|| format!("{figure} has two values there"))
        }
        (Side::AtLeast, Side::AtMost) if one.value <= other.value => None,
        (Side::AtMost, Side::AtLeast) if other.value <= one.value => None,
        _ => Some(format!("no {figure} is within both bounds")),
    }
}
