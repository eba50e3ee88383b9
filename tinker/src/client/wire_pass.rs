//! A pass over datums as the wire has it.

use std::collections::BTreeMap;

use fulgurite_backends::BackendError;

use super::datums::Pass;
use super::http::Request;
use super::model::Model;
use crate::wire::protobuf::{Datum, ForwardBackwardRequest, LossConfigValue};

/// What a pass asks for, by the names that it has on the wire.
#[derive(Clone, Debug)]
pub(super) struct WirePass {
    pub(super) data: Vec<Datum>,
    pub(super) loss: String,
    pub(super) configuration: BTreeMap<String, f64>,
    /// Whether logprobs alone are computed.
    pub(super) forward_only: bool,
}

impl WirePass {
    /// A pass over datums as this pass has them.
    pub(super) fn of(data: Vec<Datum>, pass: Pass) -> Self {
        Self {
            data,
            loss: pass.loss_name().to_owned(),
            configuration: pass.loss_configuration().collect(),
            forward_only: pass == Pass::Forward,
        }
    }

    /// The request for a model's place.
    pub(super) fn request(self, model: &Model, place: u64) -> Result<Request, BackendError> {
        let too_many = |_| BackendError::Internal { message: "a model takes no more than 2^31 requests".to_owned() };
        let numbers = self.configuration.iter().map(|(name, &value)| (name.clone(), LossConfigValue::number(value)));
        let message = ForwardBackwardRequest {
            model_id: model.id.clone(),
            seq_id: i32::try_from(place).map_err(too_many)?,
            loss_fn_config_v2: numbers.collect(),
            data: self.data,
            loss_fn: self.loss,
            loss_fn_config: self.configuration,
            forward_only: self.forward_only,
        };
        Ok(Request::post_message("api/v1/forward_backward", &message))
    }
}
