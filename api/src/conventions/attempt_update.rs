//! An update of an attempt, as a body tells it.

use fulgurite_types::{AttemptStatus, AttemptUpdate};

use super::error::RestError;
use super::input::{Body, value_field};
use super::shape::{Field, Shape};

const ATTEMPT_UPDATE: Shape = Shape::Record(&[
    Field::nullable("status", Shape::Word(AttemptStatus::WORDS)),
    Field::nullable("worker_id", Shape::Text),
    Field::nullable("last_heartbeat_time", Shape::Number),
    Field::nullable("metadata", Shape::Map(&Shape::Any)),
]);

/// The update that a body holds.
///
/// # Errors
/// 422 with every mistake; 400 for a field that is null.
pub fn attempt_update(body: Body) -> Result<AttemptUpdate, RestError> {
    let mut object = body.object(&ATTEMPT_UPDATE)?;
    Ok(AttemptUpdate {
        status: value_field(&mut object, "status")?,
        worker_id: value_field(&mut object, "worker_id")?,
        last_heartbeat_time: value_field(&mut object, "last_heartbeat_time")?,
        metadata: value_field(&mut object, "metadata")?,
    })
}
