//! The product of the axes, and the target that it is for.

use crate::model::cell::{EngineKind, Method, Pattern, Role};

use super::settings::Matrix;

/// What the plan must know of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPlan {
    /// The target's `id` in the record.
    pub id: String,
    /// Device or file.
    pub role: Role,
    /// What sizes and offsets of direct writes must be multiples of: the device's logical block, or
    /// what statx says of the file; 1 where anything goes.
    pub logical_block_bytes: u64,
    /// The largest span: the device's size, or what the free space allows.
    pub span_limit_bytes: u64,
}

/// One choice for each axis but size and file state.
pub(super) struct Combination {
    pub(super) method: Method,
    pub(super) direct: bool,
    pub(super) engine: EngineKind,
    pub(super) queue_depth: u32,
    pub(super) jobs: u32,
    pub(super) pattern: Pattern,
    pub(super) rate_per_s: Option<f64>,
}

pub(super) fn combinations(matrix: &Matrix) -> Vec<Combination> {
    let mut all = Vec::new();
    for &method in &matrix.methods {
        for &direct in &matrix.direct {
            for &engine in &matrix.engines {
                for &queue_depth in &matrix.queue_depths {
                    for &jobs in &matrix.jobs {
                        for &pattern in &matrix.patterns {
                            for &rate_per_s in &matrix.rates_per_s {
                                all.push(Combination {
                                    method,
                                    direct,
                                    engine,
                                    queue_depth,
                                    jobs,
                                    pattern,
                                    rate_per_s,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}
