//! Has the engine run a side.

use crate::engine::EngineError;
use crate::engine::timeline::{ChurnJob, Counted, Course, Tick, churn};
use crate::model::timeline::Workload;

use super::ground::Grounds;
use super::sides::Side;
use super::stretch::Context;

pub(super) fn drive(
    grounds: &Grounds,
    at: usize,
    side: Side,
    course: &Course,
    context: &Context<'_>,
    tick: &mut dyn FnMut(Tick),
) -> Result<Counted, EngineError> {
    let ground = &grounds.grounds[at];
    match (&ground.workload, side) {
        (Workload::Churn(shape), _) => {
            let job = ChurnJob {
                folder: ground.scratch.folder(),
                churn: shape,
                payload: context.payload,
                seed: context.seed,
            };
            churn(course, &job, context.stop, tick)
        }
        _ => Err(EngineError::Unsupported {
            why: "not yet".to_owned(),
        }),
    }
}
