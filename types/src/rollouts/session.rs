use sha2::{Digest, Sha256};

use crate::ids::{new_attempt_id, new_rollout_id};

/// Rollout and attempt of a session: calls that do not say whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionIds {
    /// The rollout.
    pub rollout_id: String,
    /// Its only attempt.
    pub attempt_id: String,
}

impl SessionIds {
    /// Ids of a session that is not recorded yet.
    pub fn new() -> Self {
        Self { rollout_id: new_rollout_id(), attempt_id: new_attempt_id() }
    }
}

impl Default for SessionIds {
    fn default() -> Self {
        Self::new()
    }
}

/// Headers with session names of clients; the first one present counts. Ours, which is set on purpose; Claude Code's;
/// opencode's; Codex's, one of whose sessions has several threads.
pub const SESSION_HEADERS: [&str; 5] =
    ["x-fulgurite-session", "x-claude-code-session-id", "x-session-id", "session-id", "thread-id"];

/// The id of the rollout of the session with this name in this header. Every server computes the same.
pub fn session_rollout_id(header: &str, name: &[u8]) -> String {
    let digest = Sha256::new().chain_update(header).chain_update("\n").chain_update(name).finalize();
    format!("session-{:.32}", format!("{digest:x}"))
}

/// The rollouts that a session's name may belong to, by the header that it came in.
pub fn session_rollout_ids(name: &str) -> [(&'static str, String); SESSION_HEADERS.len()] {
    SESSION_HEADERS.map(|header| (header, session_rollout_id(header, name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_header_and_name_are_the_same_rollout() {
        // printf 'session-id\ns' | sha256sum
        assert_eq!(session_rollout_id("session-id", b"s"), "session-29a1264af627fbcaba0e60598aed6b82");
        let ids = session_rollout_ids("s");
        assert_eq!(ids[3], ("session-id", session_rollout_id("session-id", b"s")));
        assert!(ids.iter().enumerate().all(|(index, one)| ids[..index].iter().all(|other| other.1 != one.1)));
    }
}
