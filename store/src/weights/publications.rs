//! Which weights are behind a model at every server of the store.

use fulgurite_types::{NewPublication, Publication, PublishedFiles, WeightsId};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;
use tokio::sync::watch;

use crate::database::sql::{Sql, column, count, json, to_integer, to_json, word};
use crate::weights::Weights;
use crate::weights::names::{COLUMNS, corrupt, named_from_row};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

impl Weights {
    /// Publishes weights that have a version: every server of the store puts them behind the model. Weights that are there
    /// already are published again only if they are elsewhere now, or in other files.
    ///
    /// # Errors
    /// [`StoreError::WeightsInPlace`] if others are behind the model than those that they may take the place of;
    /// [`StoreError::OtherFiles`] if the version was published with others before, and may not have these, or over another
    /// base; [`StoreError::NotFound`] if the version names nothing.
    pub async fn publish(&self, new: NewPublication) -> Result<Publication> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let version = to_integer("version", new.version)?;
                    let source = to_json("source", &new.source)?;
                    let known = files_of_version(write.connection(), &new.model, version).await?;
                    if let Some(known) = known.filter(|known| !may_have_files(known, &new)) {
                        let NewPublication { model, version, .. } = new;
                        return Err(StoreError::OtherFiles { model, version, known: Box::new(known) });
                    }
                    let current = current(write.connection(), Some(&new.model)).await?.pop();
                    if let Some(current) = current {
                        let is_there = current.weights.version == new.version;
                        if is_there && current.source == new.source && are_files_of(&current, &new) {
                            return Ok(current);
                        }
                        if !is_there && !new.replaces.allows(new.version, current.weights.version) {
                            let NewPublication { model, version, .. } = new;
                            return Err(StoreError::WeightsInPlace { model, version, current: Box::new(current) });
                        }
                    }
                    let mut sql = Sql::new("SELECT 1 FROM named_weights WHERE model = ");
                    sql.text(&new.model).push(" AND version = ").integer(version);
                    if sql.all(write.connection()).await?.is_empty() {
                        let id = format!("{} of model {}", new.version, new.model);
                        return Err(StoreError::NotFound { kind: "version", id });
                    }
                    sqlx::query(
                        "INSERT INTO publications (model, version, source, files_id, base_id, cause, time)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    )
                    .bind(new.model.as_str())
                    .bind(version)
                    .bind(source)
                    .bind(new.files_id.map(|id| id.to_string()))
                    .bind(new.base_id.map(|id| id.to_string()))
                    .bind(cause_word(&new)?)
                    .bind(now())
                    .execute(write.connection())
                    .await?;
                    write.weights_were_published();
                    let made = self::current(write.connection(), Some(&new.model)).await?.pop();
                    made.ok_or_else(|| StoreError::not_found("publication", &new.model))
                })
            })
            .await
    }

    /// The newest publication of each model, by its name.
    pub async fn publications(&self) -> Result<Vec<Publication>> {
        current(&mut *self.database.reader().await?, None).await
    }

    /// The newest publication of a model, if there was one.
    pub async fn publication(&self, model: &str) -> Result<Option<Publication>> {
        Ok(current(&mut *self.database.reader().await?, Some(model)).await?.pop())
    }

    /// The files that a version was published with last, if it was.
    pub async fn published_files(&self, model: &str, version: u64) -> Result<Option<PublishedFiles>> {
        files_of_version(&mut *self.database.reader().await?, model, to_integer("version", version)?).await
    }

    /// Changes whenever weights may have been published, here or by another server of the store.
    pub fn published_weights(&self) -> watch::Receiver<()> {
        self.database.signals().published.subscribe()
    }
}

/// Whether nothing is known of the new files that the publication does not say.
fn are_files_of(current: &Publication, new: &NewPublication) -> bool {
    let is_known = |known, new: Option<WeightsId>| new.is_none() || new == known;
    is_known(current.files_id, new.files_id) && is_known(current.base_id, new.base_id)
}

fn may_have_files(known: &PublishedFiles, new: &NewPublication) -> bool {
    known.admit(new.other_files, &new.source, new.files_id, new.base_id)
}

/// Publishers that could not read the files have left no fingerprint: the newest one counts.
async fn files_of_version(connection: &mut AnyConnection, model: &str, version: i64) -> Result<Option<PublishedFiles>> {
    let mut sql = Sql::new("SELECT p.source, p.files_id, p.base_id FROM publications p WHERE p.model = ");
    sql.text(model).push(" AND p.version = ").integer(version).push(" ORDER BY p.position DESC");
    let rows = sql.all(connection).await?;
    let Some(newest) = rows.first() else { return Ok(None) };
    let first_id = |name: &'static str| -> Result<Option<WeightsId>> {
        let ids = rows.iter().map(|row| id_column(row, name));
        ids.filter_map(Result::transpose).next().transpose()
    };
    let (files_id, base_id) = (first_id("files_id")?, first_id("base_id")?);
    Ok(Some(PublishedFiles { source: json(newest, "source")?, files_id, base_id }))
}

fn cause_word(new: &NewPublication) -> Result<String> {
    Ok(to_json("cause", &new.cause)?.trim_matches('"').to_owned())
}

async fn current(connection: &mut AnyConnection, model: Option<&str>) -> Result<Vec<Publication>> {
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS)
        .push(", p.position, p.source, p.files_id, p.base_id, p.cause, p.time AS published_time FROM publications p ");
    sql.push("JOIN named_weights n ON n.model = p.model AND n.version = p.version ");
    sql.push("WHERE p.position IN (SELECT MAX(position) FROM publications GROUP BY model)");
    if let Some(model) = model {
        sql.push(" AND p.model = ").text(model);
    }
    sql.push(" ORDER BY p.model");
    sql.all(connection).await?.iter().map(publication_from_row).collect()
}

fn publication_from_row(row: &AnyRow) -> Result<Publication> {
    Ok(Publication {
        position: count(row, "position")?,
        weights: named_from_row(row)?,
        source: json(row, "source")?,
        files_id: id_column(row, "files_id")?,
        base_id: id_column(row, "base_id")?,
        cause: word(row, "cause")?,
        published_time: column(row, "published_time")?,
    })
}

fn id_column(row: &AnyRow, name: &'static str) -> Result<Option<WeightsId>> {
    let id: Option<String> = column(row, name)?;
    id.map(|id| id.parse()).transpose().map_err(|error| corrupt(name, &error))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewNamedWeights, NewPublication, OtherFiles, PublicationCause, Replaces, WeightsId};
    use serde_json::json;

    use crate::StoreError;
    use crate::testing::TestStore;

    fn publication(version: u64, replaces: Replaces) -> NewPublication {
        let source = json!({ "adapter": format!("/w/{version}") });
        let (cause, other_files) = (PublicationCause::Update, OtherFiles::Refuse);
        NewPublication {
            model: "m".into(),
            version,
            source,
            files_id: None,
            base_id: None,
            other_files,
            replaces,
            cause,
        }
    }

    async fn store_with_versions(versions: u8) -> TestStore {
        let store = TestStore::new().await;
        for version in 0..versions {
            let new = NewNamedWeights::of_no_run("m", WeightsId::of_digest([version; 32]), u64::from(version));
            store.weights().name(new).await.unwrap();
        }
        store
    }

    #[tokio::test]
    async fn weights_take_the_place_of_those_alone_that_they_may_replace() {
        let store = store_with_versions(4).await;
        for (version, replaces, expected) in [
            (1, Replaces::Version(0), Ok(1)),
            (1, Replaces::Version(0), Ok(1)),
            (2, Replaces::Version(0), Err(1)),
            (2, Replaces::Version(1), Ok(2)),
            (1, Replaces::Older, Err(2)),
            (3, Replaces::Older, Ok(3)),
            (0, Replaces::Anything, Ok(0)),
        ] {
            let published = match store.weights().publish(publication(version, replaces)).await {
                Ok(published) => Ok(published.weights.version),
                Err(StoreError::WeightsInPlace { current, .. }) => Err(current.weights.version),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(published, expected, "{version} {replaces:?}");
        }
        assert_eq!(store.weights().publications().await.unwrap().len(), 1);
        assert_eq!(store.weights().publication("m").await.unwrap().unwrap().weights.version, 0);
        assert_eq!(store.weights().publication("n").await.unwrap(), None);
        let unnamed = store.weights().publish(publication(9, Replaces::Anything)).await;
        assert_eq!(unnamed.unwrap_err().to_string(), "version not found: 9 of model m");
    }

    #[tokio::test]
    async fn whoever_watches_hears_of_a_publication_and_of_no_repetition() {
        let store = store_with_versions(2).await;
        let mut watched = store.weights().published_weights();
        watched.mark_unchanged();
        store.weights().publish(publication(1, Replaces::Older)).await.unwrap();
        watched.changed().await.unwrap();
        store.weights().publish(publication(1, Replaces::Older)).await.unwrap();
        assert!(!watched.has_changed().unwrap());
        let files_id = Some(WeightsId::of_digest([7; 32]));
        let read = NewPublication { files_id, ..publication(1, Replaces::Older) };
        assert_eq!(store.weights().publish(read).await.unwrap().files_id, files_id);
        watched.changed().await.unwrap();
        store.weights().publish(publication(1, Replaces::Older)).await.unwrap();
        assert_eq!(store.weights().publication("m").await.unwrap().unwrap().files_id, files_id);
    }

    #[tokio::test]
    async fn a_version_is_published_again_with_the_same_files_alone() {
        let store = store_with_versions(3).await;
        let id = |digest: u8| Some(WeightsId::of_digest([digest; 32]));
        let elsewhere = || json!({ "adapter": "/elsewhere" });
        let first = NewPublication { files_id: id(7), base_id: id(1), ..publication(1, Replaces::Anything) };
        assert_eq!(store.weights().published_files("m", 1).await.unwrap(), None);
        store.weights().publish(first.clone()).await.unwrap();
        store.weights().publish(publication(2, Replaces::Anything)).await.unwrap();
        let position = async || store.weights().publication("m").await.unwrap().unwrap().position;
        let before = position().await;
        for refused in [
            NewPublication { files_id: id(8), ..first.clone() },
            NewPublication { source: elsewhere(), files_id: id(8), ..first.clone() },
            // They cannot be read, and are elsewhere.
            NewPublication { source: elsewhere(), files_id: None, ..first.clone() },
            NewPublication { base_id: id(2), ..first.clone() },
            NewPublication { base_id: id(2), other_files: OtherFiles::Accept, ..first.clone() },
        ] {
            let error = store.weights().publish(refused.clone()).await.unwrap_err();
            assert!(matches!(error, StoreError::OtherFiles { version: 1, .. }), "{error} {refused:?}");
            assert_eq!(position().await, before);
        }
        for accepted in [
            NewPublication { source: elsewhere(), ..first.clone() },
            NewPublication { source: elsewhere(), files_id: None, base_id: None, ..first.clone() },
            NewPublication { files_id: id(8), other_files: OtherFiles::Accept, ..first.clone() },
        ] {
            store.weights().publish(accepted.clone()).await.unwrap();
            assert_eq!(store.weights().published_files("m", 1).await.unwrap().unwrap().source, accepted.source);
        }
        let known = store.weights().published_files("m", 1).await.unwrap().unwrap();
        assert_eq!((known.files_id, known.base_id), (id(8), id(1)), "what was not read since is as it was");
    }
}
