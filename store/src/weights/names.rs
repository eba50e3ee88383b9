//! Which weights a version of a model names.

use fulgurite_types::{NamedWeights, NewNamedWeights};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::database::sql::{Sql, checked_id, column, count, optional_id, to_integer, word};
use crate::weights::Weights;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// What is selected of a row, for [`named_from_row`].
pub(super) const COLUMNS: &str =
    "n.model, n.version, n.weights_id, n.parent_id, n.run_id, n.step, n.time AS named_time";

impl Weights {
    /// Gives weights a version, which names them for ever. Weights that have one keep it. Others get the preferred version,
    /// or, where that names other weights of the model, the one after the greatest.
    pub async fn name(&self, new: NewNamedWeights) -> Result<NamedWeights> {
        self.database.write(move |write| {
            Box::pin(async move {
                checked_id("model", &new.model)?;
                optional_id("run_id", new.run_id.as_deref())?;
                if let Some(named) = find_by_id(write.connection(), &new).await? {
                    return Ok(named);
                }
                let preferred = to_integer("preferred_version", new.preferred_version)?;
                let in_use = sqlx::query(
                    "SELECT MAX(version) AS greatest, COUNT(CASE WHEN version = $2 THEN 1 END) AS taken
                     FROM named_weights WHERE model = $1",
                )
                .bind(new.model.as_str())
                .bind(preferred)
                .fetch_one(write.connection())
                .await?;
                let version = match count::<u64>(&in_use, "taken")? {
                    0 => preferred,
                    _ => column::<i64>(&in_use, "greatest")?.checked_add(1).ok_or_else(|| {
                        StoreError::invalid("preferred_version", "there is no version after the greatest")
                    })?,
                };
                let mut sql = Sql::new(
                    "INSERT INTO named_weights (model, version, weights_id, parent_id, run_id, step, time) VALUES (",
                );
                let step = new.step.map(|step| to_integer("step", step)).transpose()?;
                sql.text(&new.model).push(", ").integer(version);
                sql.push(", ").owned_text(new.weights_id.to_string());
                sql.push(", ").optional_text(new.parent_id.map(|id| id.to_string()).as_deref());
                sql.push(", ").optional_text(new.run_id.as_deref()).push(", ");
                match step {
                    Some(step) => sql.integer(step),
                    None => sql.push("NULL"),
                };
                sql.push(", ").optional_real(Some(now())).push(")");
                sql.execute(write.connection()).await?;
                let named = find_by_id(write.connection(), &new).await?;
                named.ok_or_else(|| StoreError::not_found("version of weights", &new.weights_id.to_string()))
            })
        })
        .await
    }

    /// The weights that a version of a model names, if it names any.
    pub async fn of_version(&self, model: &str, version: u64) -> Result<Option<NamedWeights>> {
        let mut sql = Sql::new("SELECT ");
        sql.push(COLUMNS).push(" FROM named_weights n WHERE n.model = ").text(model);
        sql.push(" AND n.version = ").integer(to_integer("version", version)?);
        sql.all(&mut *self.database.reader().await?).await?.first().map(named_from_row).transpose()
    }

    /// The greatest version that names weights of a model.
    pub async fn greatest_version(&self, model: &str) -> Result<Option<u64>> {
        let mut sql = Sql::new("SELECT MAX(version) AS greatest FROM named_weights WHERE model = ");
        sql.text(model);
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let greatest: Option<i64> = rows.first().map(|row| column(row, "greatest")).transpose()?.flatten();
        greatest.map(u64::try_from).transpose().map_err(|error| corrupt("version", &error))
    }

    /// Takes a version back that was given to weights which no server could load, and that were never published.
    pub async fn forget_unpublished_version(&self, model: &str, version: u64) -> Result<()> {
        let model = model.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let version = to_integer("version", version)?;
                    let mut sql = Sql::new("DELETE FROM named_weights WHERE model = ");
                    sql.text(&model).push(" AND version = ").integer(version);
                    sql.push(" AND NOT EXISTS (SELECT 1 FROM publications p WHERE p.model = named_weights.model");
                    sql.push(" AND p.version = named_weights.version)");
                    sql.execute(write.connection()).await?;
                    Ok(())
                })
            })
            .await
    }

    /// All weights of a model that have a version, oldest version first; those of one run alone if it is given.
    pub async fn named(&self, model: &str, run_id: Option<&str>) -> Result<Vec<NamedWeights>> {
        let mut sql = Sql::new("SELECT ");
        sql.push(COLUMNS).push(" FROM named_weights n WHERE n.model = ").text(model);
        if let Some(run_id) = run_id {
            sql.push(" AND n.run_id = ").text(run_id);
        }
        sql.push(" ORDER BY n.version");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        rows.iter().map(named_from_row).collect()
    }
}

async fn find_by_id(connection: &mut AnyConnection, new: &NewNamedWeights) -> Result<Option<NamedWeights>> {
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).push(" FROM named_weights n WHERE n.model = ").text(&new.model);
    sql.push(" AND n.weights_id = ").owned_text(new.weights_id.to_string());
    sql.all(connection).await?.first().map(named_from_row).transpose()
}

pub(super) fn named_from_row(row: &AnyRow) -> Result<NamedWeights> {
    let parent: Option<String> = column(row, "parent_id")?;
    let step: Option<i64> = column(row, "step")?;
    Ok(NamedWeights {
        model: column(row, "model")?,
        version: count(row, "version")?,
        weights_id: word(row, "weights_id")?,
        parent_id: parent.map(|id| id.parse()).transpose().map_err(|error| corrupt("parent_id", &error))?,
        run_id: column(row, "run_id")?,
        step: step.map(u64::try_from).transpose().map_err(|error| corrupt("step", &error))?,
        time: column(row, "named_time")?,
    })
}

pub(super) fn corrupt(column: &str, error: &impl ToString) -> StoreError {
    StoreError::Corrupt { column: column.to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewNamedWeights, NewPublication, OtherFiles, PublicationCause, Replaces, WeightsId};
    use serde_json::json;

    use crate::testing::TestStore;

    fn new(digest: u8, preferred_version: u64) -> NewNamedWeights {
        NewNamedWeights {
            model: "m".into(),
            weights_id: WeightsId::of_digest([digest; 32]),
            parent_id: None,
            run_id: Some(format!("run-{}", digest % 2)),
            step: Some(preferred_version),
            preferred_version,
        }
    }

    #[tokio::test]
    async fn a_version_names_one_set_of_weights_for_ever() {
        let store = TestStore::new().await;
        let mut versions = Vec::new();
        for (digest, preferred) in [(1, 0), (2, 0), (1, 7), (3, 5), (4, 1), (5, 9)] {
            versions.push(store.weights().name(new(digest, preferred)).await.unwrap().version);
        }
        assert_eq!(versions, [0, 1, 0, 5, 6, 9]);
        let other = NewNamedWeights { model: "other".into(), ..new(9, 0) };
        assert_eq!(store.weights().name(other).await.unwrap().version, 0);
        let of =
            |named: Vec<fulgurite_types::NamedWeights>| -> Vec<u64> { named.iter().map(|one| one.version).collect() };
        assert_eq!(of(store.weights().named("m", None).await.unwrap()), [0, 1, 5, 6, 9]);
        assert_eq!(of(store.weights().named("m", Some("run-0")).await.unwrap()), [1, 6]);
    }

    #[tokio::test]
    async fn a_version_of_published_weights_is_not_taken_back() {
        let store = TestStore::new().await;
        assert_eq!(store.weights().greatest_version("m").await.unwrap(), None);
        for version in 0..3 {
            store.weights().name(new(version, version.into())).await.unwrap();
        }
        assert_eq!(store.weights().greatest_version("m").await.unwrap(), Some(2));
        let (source, replaces, cause) = (json!({}), Replaces::Anything, PublicationCause::Update);
        let (model, other_files) = ("m".to_owned(), OtherFiles::Refuse);
        let publication =
            NewPublication { model, version: 1, source, files_id: None, base_id: None, other_files, replaces, cause };
        store.weights().publish(publication).await.unwrap();
        for version in [1, 2] {
            store.weights().forget_unpublished_version("m", version).await.unwrap();
        }
        assert_eq!(store.weights().greatest_version("m").await.unwrap(), Some(1));
    }
}
