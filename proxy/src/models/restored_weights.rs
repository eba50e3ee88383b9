use fulgurite_backends::{NewWeights, WeightsSource};
use fulgurite_types::{Publication, WeightsVersion};
use serde::Deserialize;

use crate::models::gate::Holder;
use crate::models::served_models::ServedModels;

/// What a model is held for meanwhile.
const RESTORING: &str = "its weights are put back after a restart";

/// Restores the weights that models had before the server was restarted; models that are not served are skipped. A model's
/// calls are held meanwhile, so that none is answered with other weights.
pub(crate) fn restore_weights(models: &ServedModels, published: Vec<Publication>) {
    for Publication { weights, source, .. } in published {
        let (model, version) = (weights.model, weights.version);
        let (Ok(served), Ok(gate), Ok(loads)) =
            (models.sampled(&model), models.gate(&model), models.weights_loads(&model))
        else {
            continue;
        };
        let source = match WeightsSource::deserialize(&source) {
            Ok(source) => source,
            Err(error) => {
                tracing::error!(model, version, %error, "where the model's last weights are cannot be read");
                continue;
            }
        };
        let (sampler, gate, loads) = (served.sampler.clone(), gate.clone(), loads.clone());
        let weights = NewWeights { version: WeightsVersion(version), source };
        gate.pause(Holder::Restore, Some(RESTORING.to_owned()));
        #[expect(clippy::disallowed_methods, reason = "it ends once the host has its weights or others")]
        tokio::spawn(async move {
            loads.restore(&model, sampler.as_ref(), &weights).await;
            gate.resume(Holder::Restore);
        });
    }
}
