//! Finding a rollout by the name that a person or program has for it.

use fulgurite_types::session_rollout_ids;

use crate::database::sql::{Sql, column};
use crate::rollouts::Rollouts;
use crate::{Result, StoreError};

impl Rollouts {
    /// The id of the rollout with this name: its own id, or the name of the session that it records. An own id comes first.
    /// A name that no rollout has is returned as it is.
    ///
    /// # Errors
    /// [`StoreError::AmbiguousSession`] if two sessions have the name, each by another header.
    pub async fn id_of(&self, name: &str) -> Result<String> {
        let sessions = session_rollout_ids(name);
        let mut sql = Sql::new("SELECT rollout_id FROM rollouts WHERE rollout_id IN (");
        sql.text(name);
        for (_, rollout_id) in &sessions {
            sql.push(", ").text(rollout_id);
        }
        let rows = sql.push(")").all(&mut *self.database.reader().await?).await?;
        let known = rows.iter().map(|row| column(row, "rollout_id")).collect::<Result<Vec<String>>>()?;
        if known.iter().any(|id| id == name) {
            return Ok(name.to_owned());
        }
        let mut found = sessions.into_iter().filter(|(_, rollout_id)| known.contains(rollout_id));
        match (found.next(), found.next()) {
            (None, _) => Ok(name.to_owned()),
            (Some((_, rollout_id)), None) => Ok(rollout_id),
            (Some(first), Some(second)) => {
                let named = |(header, rollout_id)| format!("{rollout_id} ({header})");
                let rollouts = [first, second].into_iter().chain(found).map(named).collect::<Vec<_>>().join(", ");
                Err(StoreError::AmbiguousSession { name: name.to_owned(), rollouts })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewRollout, session_rollout_id};

    use crate::testing::TestStore;

    #[tokio::test]
    async fn a_sessions_name_is_its_rollouts_id_until_another_rollout_has_it() {
        let store = TestStore::new().await;
        let start = async |id: &str| {
            let rollout = NewRollout { rollout_id: Some(id.to_owned()), ..NewRollout::default() };
            store.rollouts().start(rollout, None).await.unwrap();
        };
        let of_header = |header| session_rollout_id(header, b"visit 7");
        assert_eq!(store.rollouts().id_of("visit 7").await.unwrap(), "visit 7");
        start(&of_header("x-session-id")).await;
        assert_eq!(store.rollouts().id_of("visit 7").await.unwrap(), of_header("x-session-id"));
        assert_eq!(store.rollouts().id_of(&of_header("x-session-id")).await.unwrap(), of_header("x-session-id"));
        assert_eq!(store.rollouts().id_of("visit 8").await.unwrap(), "visit 8");

        start(&of_header("thread-id")).await;
        let refused = store.rollouts().id_of("visit 7").await.unwrap_err().to_string();
        let (first, second) = (of_header("x-session-id"), of_header("thread-id"));
        let expected = format!("`visit 7` names more than one session: {first} (x-session-id), {second} (thread-id)");
        assert!(refused.starts_with(&expected), "{refused}");

        start("visit 7").await;
        assert_eq!(store.rollouts().id_of("visit 7").await.unwrap(), "visit 7");
    }
}
