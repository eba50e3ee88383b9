use axum::http::Method;
use fulgurite_store::{KeyHolder, KeyRefused};

/// What a route needs of a request's key. The admin key opens every route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No key.
    Nothing,
    /// A key to model calls.
    ModelCalls,
    /// The rollout's own key.
    Rollout,
    /// A worker's key.
    Worker,
    /// The admin key.
    Admin,
}

impl Need {
    /// Refuses a key that does not open a route by this method, for the rollout that the path names.
    pub fn is_met_by(self, holder: &KeyHolder, method: &Method, rollout_id: Option<&str>) -> Result<(), KeyRefused> {
        match (self, holder) {
            (Need::Nothing, _)
            | (_, KeyHolder::Admin)
            | (Need::ModelCalls, KeyHolder::ModelCalls)
            | (Need::Worker, KeyHolder::Worker { .. }) => Ok(()),
            (
                Need::ModelCalls | Need::Rollout,
                KeyHolder::Attempt { rollout_id: of, .. } | KeyHolder::Grader { rollout_id: of, .. },
            ) => match rollout_id {
                Some(requested) if requested != of => {
                    Err(KeyRefused::OtherRollout { of: of.clone(), requested: requested.to_owned() })
                }
                _ => Ok(()),
            },
            (_, KeyHolder::Reader) if method.is_safe() => Ok(()),
            (_, KeyHolder::Reader) => Err(KeyRefused::ReadsOnly),
            (_, KeyHolder::Grader { .. }) => Err(KeyRefused::AdminOnly { of: "a grader" }),
            (_, KeyHolder::Attempt { .. }) => Err(KeyRefused::AdminOnly { of: "a rollout" }),
            (_, KeyHolder::ModelCalls) => Err(KeyRefused::AdminOnly { of: "model calls" }),
            (_, KeyHolder::Worker { .. }) => Err(KeyRefused::AdminOnly { of: "a worker" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_its_own_door() {
        let of = |id: &str| KeyHolder::Attempt { rollout_id: id.into(), attempt_id: "a".into() };
        let grader = |id: &str| KeyHolder::Grader { rollout_id: id.into(), attempt_id: "a".into() };
        let other = KeyRefused::OtherRollout { of: "r".into(), requested: "s".into() };
        for (need, holder, rollout_id, expected) in [
            (Need::Admin, KeyHolder::Admin, None, Ok(())),
            (Need::Rollout, KeyHolder::Admin, Some("s"), Ok(())),
            (Need::ModelCalls, of("r"), Some("r"), Ok(())),
            (Need::ModelCalls, of("r"), None, Ok(())),
            (Need::ModelCalls, of("r"), Some("s"), Err(other.clone())),
            (Need::Rollout, of("r"), Some("r"), Ok(())),
            (Need::Rollout, of("r"), Some("s"), Err(other)),
            (Need::Admin, of("r"), Some("r"), Err(KeyRefused::AdminOnly { of: "a rollout" })),
            (Need::Rollout, grader("r"), Some("r"), Ok(())),
            (
                Need::Rollout,
                grader("s"),
                Some("r"),
                Err(KeyRefused::OtherRollout { of: "s".into(), requested: "r".into() }),
            ),
            (Need::ModelCalls, grader("r"), Some("r"), Ok(())),
            (
                Need::ModelCalls,
                grader("s"),
                Some("r"),
                Err(KeyRefused::OtherRollout { of: "s".into(), requested: "r".into() }),
            ),
            (Need::Admin, grader("r"), None, Err(KeyRefused::AdminOnly { of: "a grader" })),
            (Need::ModelCalls, KeyHolder::ModelCalls, Some("s"), Ok(())),
            (Need::Worker, KeyHolder::Worker { name: "w".into() }, None, Ok(())),
            (Need::Worker, of("r"), Some("r"), Err(KeyRefused::AdminOnly { of: "a rollout" })),
            (
                Need::ModelCalls,
                KeyHolder::Worker { name: "w".into() },
                Some("s"),
                Err(KeyRefused::AdminOnly { of: "a worker" }),
            ),
            (
                Need::Rollout,
                KeyHolder::Worker { name: "w".into() },
                Some("s"),
                Err(KeyRefused::AdminOnly { of: "a worker" }),
            ),
            (Need::Rollout, KeyHolder::ModelCalls, Some("s"), Err(KeyRefused::AdminOnly { of: "model calls" })),
            (Need::Admin, KeyHolder::Reader, None, Err(KeyRefused::ReadsOnly)),
            (Need::ModelCalls, KeyHolder::Reader, None, Err(KeyRefused::ReadsOnly)),
        ] {
            assert_eq!(
                need.is_met_by(&holder, &Method::POST, rollout_id),
                expected,
                "{need:?} {holder:?} {rollout_id:?}"
            );
        }
        assert_eq!(Need::Admin.is_met_by(&KeyHolder::Reader, &Method::GET, Some("r")), Ok(()));
    }
}
