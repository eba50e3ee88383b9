use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `PUT /api/v1/training_runs/{run}/checkpoints/{kind}/{name}/ttl`, answered by an empty success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetTtlRequest {
    /// Seconds from now until the checkpoint may be deleted; none: never.
    pub ttl_seconds: Option<u64>,
}

/// `POST /api/v1/copy_weights`: into a project, or as a training run of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopyWeightsRequest {
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The copy's place among the session's models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_seq_id: Option<u64>,
    /// The project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_project_id: Option<String>,
    /// The checkpoint.
    pub source_path: String,
    /// Seconds until the copy may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Opens somebody else's checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_access_token: Option<String>,
}

/// The answer of `POST /api/v1/copy_weights`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyWeightsResponse {
    /// The copy.
    pub tinker_path: String,
}

/// `PUT /api/v1/sessions/{session_id}/project`, answered by an empty success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssignProjectRequest {
    /// Whose the session is from now on.
    pub project_id: String,
}

/// `POST /api/v1/sessions/search`. All that is requested must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSearchRequest {
    /// This session, or one of `display_name`.
    pub session_id: Option<String>,
    /// A session of one of these projects.
    pub project_ids: Option<Vec<String>>,
    /// A session whose notes say these.
    pub user_metadata: Map<String, Value>,
    /// A session in whose name each of these words stands, in capitals or not.
    pub display_name: Option<String>,
    /// A session of theirs.
    pub owner: SessionOwner,
    /// A session that is or ended in one of these ways.
    pub statuses: Option<Vec<SessionStatusQuery>>,
    /// Sessions at most, from 1 to 200.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<SessionSearchCursor>,
}

impl Default for SessionSearchRequest {
    fn default() -> Self {
        Self {
            session_id: None,
            project_ids: None,
            user_metadata: Map::new(),
            display_name: None,
            owner: SessionOwner::default(),
            statuses: None,
            limit: 50,
            cursor: None,
        }
    }
}

/// Whose sessions are searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionOwner {
    /// One's own.
    #[default]
    Own,
    /// All that one may see.
    Accessible,
    /// Those of some users.
    User {
        /// Who they are.
        owner_urns: Vec<String>,
    },
}

/// How a session is or ended, in a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionStatusQuery {
    /// It goes on.
    Active,
    /// It was ended for its client.
    Cancelled,
    /// It failed.
    Failed,
    /// Its client ended it.
    ClientFinished {
        /// In one of these ways; none: in any.
        #[serde(default)]
        reasons: Option<Vec<String>>,
    },
}

/// Where a page of found sessions ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSearchCursor {
    /// When its last session began.
    pub last_created_at: String,
    /// Its last session.
    pub last_session_id: String,
}
