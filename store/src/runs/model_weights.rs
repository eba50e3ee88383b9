//! The weights that were put behind served models, which outlive the server's process.

use fulgurite_types::ModelWeights;
use serde_json::Value;

use crate::database::sql::{checked_id, column, count, json, to_integer, to_json};
use crate::{Result, Store};

impl Store {
    /// Notes which weights are behind a model from now on.
    pub async fn set_model_weights(&self, weights: ModelWeights) -> Result<()> {
        self.write(move |write| {
            Box::pin(async move {
                sqlx::query(
                    "INSERT INTO model_weights (model, version, source) VALUES ($1, $2, $3)
                     ON CONFLICT (model) DO UPDATE SET version = excluded.version, source = excluded.source",
                )
                .bind(checked_id("model", &weights.model)?)
                .bind(to_integer("version", weights.version)?)
                .bind(to_json("source", &weights.source)?)
                .execute(write.connection())
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// The weights that are behind each model for which that was noted, by its name.
    pub async fn model_weights(&self) -> Result<Vec<ModelWeights>> {
        let rows =
            sqlx::query("SELECT * FROM model_weights ORDER BY model").fetch_all(&mut *self.reader().await?).await?;
        rows.iter()
            .map(|row| {
                Ok(ModelWeights {
                    model: column(row, "model")?,
                    version: count(row, "version")?,
                    source: json::<Value>(row, "source")?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::ModelWeights;
    use serde_json::json;

    use crate::testing::TestStore;

    #[tokio::test]
    async fn the_last_weights_of_each_model_are_known() {
        let store = TestStore::new().await;
        let weights = |model: &str, version: u64| ModelWeights {
            model: model.into(),
            version,
            source: json!({ "kept": format!("tinker://{version}") }),
        };
        for (model, version) in [("b", 1), ("a", 7), ("b", 2), ("a", 3)] {
            store.set_model_weights(weights(model, version)).await.unwrap();
        }
        assert_eq!(store.model_weights().await.unwrap(), [weights("a", 3), weights("b", 2)]);
    }
}
