//! Resources: named things that agents use, in versions.

use fulgurite_types::{Object, Page, Paginated, ResourcesUpdate, TextFilter, new_id};
use serde_json::{Map, Value, json};
use sqlx::any::AnyRow;

use crate::database::sql::{Conditions, SortField, Sql, checked_id, column, count, json, to_integer, to_json};
use crate::list_pages::{ListKind, ListPages};
use crate::open_database::Database;
use crate::row_checksums::resources_digest;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

const SORT_FIELDS: &[SortField] = &[
    SortField::text("resources_id"),
    SortField::time("create_time"),
    SortField::time("update_time"),
    SortField::number("version"),
    SortField::text("resources"),
];

/// Versioned resources that rollouts refer to.
#[derive(Clone, Debug)]
pub struct Resources {
    database: Database,
}

impl Resources {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }

    /// Stores resources: under a new id, or as the next version of an id that is supplied, which need not be known.
    /// Each needs a known `resource_type` and that type's fields.
    pub async fn update(&self, resources_id: Option<&str>, resources: Object) -> Result<ResourcesUpdate> {
        let resources: Object = resources
            .into_iter()
            .map(|(name, resource)| Ok((name.clone(), normalise(&name, resource)?)))
            .collect::<Result<_>>()?;
        let resources_id = resources_id.map_or_else(|| new_id("rs-", 12), str::to_owned);
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let row = sqlx::query(
                    "INSERT INTO resources (resources_id, create_time, update_time, version, resources, id_checksum)
                     VALUES ($1, $2, $2, 1, $3, $4)
                     ON CONFLICT (resources_id) DO UPDATE SET update_time = excluded.update_time,
                         version = resources.version + 1, resources = excluded.resources
                     RETURNING *",
                )
                .bind(checked_id("resources_id", &resources_id)?)
                .bind(now())
                .bind(to_json("resources", &resources)?)
                .bind(resources_digest(Some(&resources_id)))
                .fetch_one(write.connection())
                .await?;
                    resources_from_row(&row)
                })
            })
            .await
    }

    /// Resources, if the id is known.
    pub async fn get(&self, resources_id: &str) -> Result<Option<ResourcesUpdate>> {
        let row = sqlx::query("SELECT * FROM resources WHERE resources_id = $1")
            .bind(resources_id)
            .fetch_optional(&mut *self.database.reader().await?)
            .await?;
        row.as_ref().map(resources_from_row).transpose()
    }

    /// The resources that were updated last, if there are any.
    pub async fn latest(&self) -> Result<Option<ResourcesUpdate>> {
        let row = sqlx::query("SELECT * FROM resources ORDER BY update_time DESC, position DESC LIMIT 1")
            .fetch_optional(&mut *self.database.reader().await?)
            .await?;
        row.as_ref().map(resources_from_row).transpose()
    }

    /// A page of the resources whose id meets a condition.
    pub async fn query(&self, resources_id: &TextFilter, page: &Page) -> Result<Paginated<ResourcesUpdate>> {
        let mut connection = self.database.reader().await?;
        let mut total = Sql::new("SELECT COUNT(*) FROM resources");
        push_conditions(&mut total, resources_id);
        let mut sql = Sql::new("SELECT * FROM resources");
        push_conditions(&mut sql, resources_id);
        sql.page(page, SORT_FIELDS)?;
        Ok(Paginated {
            total: total.total(&mut connection).await?,
            items: sql.all(&mut connection).await?.iter().map(resources_from_row).collect::<Result<_>>()?,
            limit: page.limit.map_or(Ok(-1), |limit| to_integer("limit", limit))?,
            offset: page.offset,
        })
    }

    /// Resources as [`Resources::query`] gives them.
    pub async fn pages(&self, resources_id: &TextFilter, page: &Page) -> Result<ListPages<ResourcesUpdate>> {
        let mut total = Sql::new("SELECT COUNT(*) FROM resources");
        push_conditions(&mut total, resources_id);
        let mut places = Sql::new("SELECT position FROM resources");
        push_conditions(&mut places, resources_id);
        let rows = Sql::new("SELECT * FROM resources WHERE position IN ");
        // Prompts may be long.
        let kind = ListKind { sort_fields: SORT_FIELDS, part: 8, read: resources_from_row };
        ListPages::find(&self.database, kind, &total, places, rows, page).await
    }
}

fn push_conditions(sql: &mut Sql, resources_id: &TextFilter) {
    sql.push(" WHERE 1 = 1");
    let mut conditions = Conditions::new(None);
    conditions.text(sql, "resources_id", resources_id);
    conditions.close(sql);
}

pub(crate) fn resources_from_row(row: &AnyRow) -> Result<ResourcesUpdate> {
    Ok(ResourcesUpdate {
        resources_id: column(row, "resources_id")?,
        create_time: column(row, "create_time")?,
        update_time: column(row, "update_time")?,
        version: count(row, "version")?,
        resources: json(row, "resources")?,
    })
}

/// Checks a resource and fills in what may be left out, in the order in which clients write it.
fn normalise(name: &str, resource: Value) -> Result<Value> {
    let invalid = |message: &str| StoreError::invalid(name, message);
    let Value::Object(mut given) = resource else { return Err(invalid("must be an object")) };
    let (required, defaults): (&[&str], Object) = match given.get("resource_type").and_then(Value::as_str) {
        Some("llm" | "proxy_llm") => {
            let mut defaults = Map::new();
            defaults.insert("api_key".into(), Value::Null);
            defaults.insert("sampling_parameters".into(), json!({}));
            (&["endpoint", "model"], defaults)
        }
        Some("prompt_template") => (&["template", "engine"], Map::new()),
        _ => return Err(invalid("resource_type must be 'llm', 'proxy_llm' or 'prompt_template'")),
    };
    if let Some(missing) = required.iter().find(|key| !given.get(**key).is_some_and(Value::is_string)) {
        return Err(invalid(&format!("{missing} must be a text")));
    }
    for (key, value) in defaults {
        given.entry(key).or_insert(value);
    }
    Ok(Value::Object(given))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::NewRollout;

    use super::*;
    use crate::testing::TestStore;

    fn model(name: &str) -> Object {
        json!({"llm": {"resource_type": "llm", "endpoint": "http://127.0.0.1", "model": name}})
            .as_object()
            .cloned()
            .unwrap()
    }

    #[tokio::test]
    async fn resources_have_versions_and_new_rollouts_use_the_latest() {
        let store = TestStore::new().await;
        assert_eq!(store.resources().latest().await.unwrap(), None);
        let first = store.resources().update(Some("rs-mine"), model("a")).await.unwrap();
        assert_eq!(first.resources["llm"]["sampling_parameters"], json!({}));
        let other = store.resources().update(None, model("b")).await.unwrap();
        assert!(other.resources_id.starts_with("rs-") && other.resources_id.len() == 15);
        let second = store.resources().update(Some("rs-mine"), model("c")).await.unwrap();
        assert_eq!((second.version, second.create_time), (2, first.create_time));
        assert_eq!(store.resources().get("rs-mine").await.unwrap(), Some(second.clone()));
        assert_eq!(store.resources().latest().await.unwrap(), Some(second));
        let rollout = store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap().remove(0);
        assert_eq!(rollout.resources_id.as_deref(), Some("rs-mine"));
        let bad = json!({"x": {"resource_type": "bogus"}}).as_object().cloned().unwrap();
        assert!(
            matches!(store.resources().update(None, bad).await, Err(StoreError::Invalid { field, .. }) if field == "x")
        );
        assert_eq!(store.resources().query(&TextFilter::default(), &Page::default()).await.unwrap().total, 2);
    }
}
