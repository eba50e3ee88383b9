use crate::server::management::checkpoint_list::of_run;
use crate::server::registry::Registry;
use crate::server::state::records::OWNER;
use crate::server::state::records::SessionRecord;
use crate::wire::{SessionOwner, SessionSearchCursor, SessionSearchRequest, SessionStatusQuery};
use fulgurite_types::time::rfc3339;
use serde_json::{Value, json};

/// Sessions of a page at most.
const LARGEST_PAGE: usize = 200;

/// A page of the sessions that are searched for, the newest first. Fails with what is wrong about the search.
pub(crate) fn search(registry: &Registry, request: &SessionSearchRequest) -> Result<Value, String> {
    if !(1..=LARGEST_PAGE).contains(&request.limit) {
        return Err(format!("limit is {}, but must be from 1 to {LARGEST_PAGE}", request.limit));
    }
    // Ids begin with the time, so their order is that of the beginnings.
    let last = request.cursor.as_ref().map(|cursor| &cursor.last_session_id);
    let is_found =
        |session: &&SessionRecord| last.is_none_or(|last| session.session_id < *last) && matches(session, request);
    let mut found = registry.sessions.values().rev().filter(is_found);
    let page: Vec<&SessionRecord> = found.by_ref().take(request.limit).collect();
    let next_cursor = page.last().filter(|_| found.next().is_some()).map(|last| SessionSearchCursor {
        last_created_at: rfc3339(last.created),
        last_session_id: last.session_id.clone(),
    });
    let sessions: Vec<Value> = page.into_iter().map(|session| summary(registry, session)).collect();
    Ok(json!({ "sessions": sessions, "next_cursor": next_cursor }))
}

fn matches(session: &SessionRecord, request: &SessionSearchRequest) -> bool {
    let is_called = |searched: &String| {
        let name = session.display_name.as_deref().unwrap_or_default().to_lowercase();
        searched.to_lowercase().split_whitespace().all(|word| name.contains(word))
    };
    let is_one = match (&request.session_id, &request.display_name) {
        (None, None) => true,
        (id, name) => id.as_ref() == Some(&session.session_id) || name.as_ref().is_some_and(is_called),
    };
    let is_of_owner = match &request.owner {
        SessionOwner::Own | SessionOwner::Accessible => true,
        SessionOwner::User { owner_urns } => owner_urns.iter().any(|owner| owner == OWNER),
    };
    let has_value = |(name, value): (&String, &Value)| {
        session.user_metadata.as_ref().is_some_and(|notes| notes.get(name) == Some(value))
    };
    let is_of = |projects: &Vec<String>| projects.iter().any(|project| *project == project_of(session));
    let is_so = |statuses: &Vec<SessionStatusQuery>| statuses.iter().any(|status| has_status(session, status));
    is_one
        && is_of_owner
        && request.user_metadata.iter().all(has_value)
        && request.project_ids.as_ref().is_none_or(is_of)
        && request.statuses.as_ref().is_none_or(is_so)
}

fn has_status(session: &SessionRecord, status: &SessionStatusQuery) -> bool {
    match (status, &session.finish) {
        (SessionStatusQuery::Active, _) => !session.is_over,
        (SessionStatusQuery::Cancelled, finish) => session.is_over && finish.is_none(),
        (SessionStatusQuery::ClientFinished { reasons }, Some(finish)) => {
            reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|reason| reason == finish.reason.name()))
        }
        (SessionStatusQuery::ClientFinished { .. }, None) | (SessionStatusQuery::Failed, _) => false,
    }
}

/// Clients insist on a project.
fn project_of(session: &SessionRecord) -> &str {
    session.project_id.as_deref().unwrap_or("default")
}

fn summary(registry: &Registry, session: &SessionRecord) -> Value {
    let runs = registry.runs.values().filter(|run| run.session_id == session.session_id);
    let sizes: Vec<u64> =
        runs.flat_map(|run| of_run(registry, &run.run_id)).map(|(_, checkpoint)| checkpoint.size_bytes).collect();
    let status = match (&session.finish, session.is_over) {
        (Some(finish), _) => json!({ "type": "client_finished", "reason": finish.reason, "detail": finish.detail }),
        (None, true) => json!({ "type": "cancelled", "detail": "nobody kept it alive" }),
        (None, false) => json!({ "type": "active" }),
    };
    json!({
        "session_id": session.session_id,
        "created_at": rfc3339(session.created),
        "owner": OWNER,
        "project_id": project_of(session),
        "status": status,
        "checkpoints_count": sizes.len(),
        "checkpoint_storage_bytes": sizes.iter().sum::<u64>(),
        "display_name": session.display_name,
        "user_metadata": session.user_metadata,
    })
}

#[cfg(test)]
mod tests {
    use crate::wire::FinishReason;
    use crate::wire::FinishSessionRequest;

    use super::*;

    fn registry() -> Registry {
        let session = |id: &str, name: &str, is_over: bool, finish: Option<FinishReason>| SessionRecord {
            session_id: id.into(),
            created: 0.0,
            tags: vec![],
            display_name: Some(name.into()),
            user_metadata: json!({ "of": name }).as_object().cloned(),
            project_id: None,
            is_over,
            finish: finish.map(|reason| FinishSessionRequest { reason, detail: None }),
        };
        let mut registry = Registry::default();
        for record in [
            session("1", "Nightly run A", true, Some(FinishReason::Success)),
            session("2", "Nightly run B", true, None),
            session("3", "by hand", false, None),
        ] {
            registry.sessions.insert(record.session_id.clone(), record);
        }
        registry
    }

    fn found(query: Value) -> (Vec<String>, Value) {
        let page = search(&registry(), &serde_json::from_value(query).unwrap()).unwrap();
        let ids = page["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].as_str().unwrap());
        (ids.map(str::to_owned).collect(), page["next_cursor"].clone())
    }

    #[test]
    fn sessions_are_found_by_what_is_said_of_them_newest_first() {
        for (query, expected) in [
            (json!({}), vec!["3", "2", "1"]),
            (json!({ "display_name": "run NIGHTLY" }), vec!["2", "1"]),
            (json!({ "display_name": "b", "session_id": "1" }), vec!["3", "2", "1"]),
            (json!({ "session_id": "4" }), vec![]),
            (json!({ "user_metadata": { "of": "by hand" } }), vec!["3"]),
            (json!({ "project_ids": ["default"] }), vec!["3", "2", "1"]),
            (json!({ "project_ids": ["other"] }), vec![]),
            (json!({ "owner": { "type": "user", "owner_urns": ["somebody"] } }), vec![]),
            (json!({ "statuses": [{ "type": "active" }, { "type": "cancelled" }] }), vec!["3", "2"]),
            (json!({ "statuses": [{ "type": "failed" }] }), vec![]),
            (json!({ "statuses": [{ "type": "client_finished" }] }), vec!["1"]),
            (json!({ "statuses": [{ "type": "client_finished", "reasons": ["errored"] }] }), vec![]),
        ] {
            assert_eq!(
                found(query.clone()),
                (expected.into_iter().map(str::to_owned).collect(), Value::Null),
                "{query}"
            );
        }
    }

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        let (first, cursor) = found(json!({ "limit": 2 }));
        assert_eq!(first, ["3", "2"]);
        assert_eq!(found(json!({ "limit": 2, "cursor": cursor })), (vec!["1".to_owned()], Value::Null));
        let too_large = SessionSearchRequest { limit: 201, ..SessionSearchRequest::default() };
        assert!(search(&registry(), &too_large).unwrap_err().contains("limit is 201"));
    }
}
