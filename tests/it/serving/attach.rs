//! Runners with a worker's key: what it opens, and that it suffices.

use reqwest::Method;
use serde_json::{Value, json};

use super::keys::{ADMIN, Guarded};
use crate::common::{Ran, fulgurite, text};

/// What the command says with the server's address, and no key but what is given here.
fn run_with(guarded: &Guarded, words: &[&str], keys: &[(&str, &str)]) -> Ran {
    let mut command = fulgurite(words);
    command.env_remove("FULGURITE_ADMIN_KEY").env("FULGURITE_SERVER", &guarded.server.url);
    Ran::from(command.envs(keys.iter().copied()).output().unwrap())
}

fn worker_key(guarded: &Guarded, name: &str) -> String {
    let printed = run_with(guarded, &["worker-key", name], &[("FULGURITE_ADMIN_KEY", ADMIN)]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    printed.stdout.trim().to_owned()
}

#[test]
fn a_runner_that_may_only_call_out_works_off_the_queue_with_a_workers_key() {
    let guarded = Guarded::start();
    let key = worker_key(&guarded, "box");
    let queued = run_with(&guarded, &["enqueue", "1", "2", "3"], &[("FULGURITE_ADMIN_KEY", ADMIN)]);
    assert_eq!(queued.code, Some(0), "{}", queued.stderr);
    // Of the three, one prints no reward, so that the runner looks for one that was posted.
    let agent = r#"test -z "$FULGURITE_WORKER_KEY$FULGURITE_ADMIN_KEY" || exit 7
        "$1" ask "Say $0" --model tiny --max-tokens 3 > /dev/null || exit 8
        test "$0" = 2 || echo '{"reward": 1}'"#;
    let asks = env!("CARGO_BIN_EXE_fulgurite");
    let words = ["run", "--attach", "--until-idle", "--json", "--", "sh", "-c", agent, "{task}", asks];
    let ran = run_with(&guarded, &words, &[("FULGURITE_WORKER_KEY", &key)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&json!(2), &json!(1)), "{summary}");
    let rollouts = guarded.server.query("rollouts");
    let workers: Vec<String> = rollouts.iter().map(|rollout| text(&rollout["attempt"]["worker_id"])).collect();
    assert!(workers.iter().all(|worker| worker.starts_with("box-")), "{workers:?}");
    let why: Vec<String> = rollouts.iter().map(|rollout| rollout["attempt"]["metadata"].to_string()).collect();
    assert!(why.iter().any(|why| why.contains("no reward: none was posted")), "{why:?}");
    let generations = guarded.server.query("generations");
    assert_eq!(generations.len(), 3);

    let without = run_with(&guarded, &["run", "--attach", "--", "true"], &[]);
    assert!(without.stderr.contains("--attach needs a worker's key in FULGURITE_WORKER_KEY"), "{}", without.stderr);
    let admins = run_with(&guarded, &["run", "--attach", "--", "true"], &[("FULGURITE_WORKER_KEY", ADMIN)]);
    assert!(admins.stderr.contains("the key in FULGURITE_WORKER_KEY is no worker's"), "{}", admins.stderr);
    let wrong = run_with(&guarded, &["run", "--attach", "--", "true"], &[("FULGURITE_WORKER_KEY", "fgr-a.b")]);
    assert!(wrong.stderr.contains("Invalid or missing API key"), "{}", wrong.stderr);
    let nobody = run_with(&guarded, &["worker-key", "box"], &[]);
    assert!(nobody.stderr.contains("only the admin key issues keys"), "{}", nobody.stderr);
}

#[test]
fn a_workers_key_speaks_for_its_own_attempts_and_opens_nothing_else() {
    let guarded = Guarded::start();
    let key = worker_key(&guarded, "box");
    let queued = json!({ "rollouts": [{ "input": 1 }, { "input": 2 }] });
    let post = |path: &str, key: &str, body: &Value| {
        let answered = guarded.with_key(Method::POST, path, key, body);
        (answered.status, answered.json())
    };
    assert_eq!(post("/v1/agl/queues/rollouts/enqueue", ADMIN, &queued).0, 201);
    let take = |worker: &str, key: &str| {
        let body = json!({ "limit": 1, "worker_id": worker, "grader": "g" });
        post("/v1/agl/queues/rollouts/dequeue", key, &body)
    };
    let (status, refused) = take("another", &key);
    assert_eq!(
        (status, &refused["detail"]),
        (403, &json!("the API key is of the workers `box` and `box-...`, and opens nothing of `another`"))
    );
    let (own, other) = (take("box-1", &key).1, take("another", ADMIN).1);
    let name = |claimed: &Value| (text(&claimed[0]["rollout_id"]), text(&claimed[0]["attempt"]["attempt_id"]));
    let ((own_rollout, own_attempt), (other_rollout, other_attempt)) = (name(&own), name(&other));
    let beat = |rollout: &str, attempt: &str| {
        let body = json!({ "attempts": [{ "rollout_id": rollout, "attempt_id": attempt }] });
        post("/v1/fulgurite/attempts/heartbeat", &key, &body).0
    };
    let report = |rollout: &str, attempt: &str| {
        let path = format!("/v1/fulgurite/rollouts/{rollout}/attempts/{attempt}/report");
        post(&path, &key, &json!({ "status": "succeeded" })).0
    };
    let release = |worker: &str| post(&format!("/v1/fulgurite/workers/{worker}/release"), &key, &json!({})).0;
    assert_eq!((beat(&own_rollout, &own_attempt), beat(&other_rollout, &other_attempt)), (200, 403));
    assert_eq!((report(&own_rollout, &own_attempt), report(&other_rollout, &other_attempt)), (200, 403));
    assert_eq!((report("ro-none", "at-none"), release("box-1"), release("another")), (403, 200, 403));
    // Rewards need the key of the attempt's grader, and calls that of its agent.
    let reward = json!({ "value": 1.0 });
    for path in [
        format!("/rollout/{own_rollout}/attempt/{own_attempt}/reward"),
        format!("/rollout/{own_rollout}/attempt/{own_attempt}/v1/chat/completions"),
        "/v1/chat/completions".to_owned(),
        "/v1/agl/queues/rollouts/enqueue".to_owned(),
        "/v1/fulgurite/keys/worker".to_owned(),
        "/v1/fulgurite/keys/model-calls".to_owned(),
        "/v1/agl/spans".to_owned(),
        "/v1/fulgurite/runs".to_owned(),
        "/v1/agl/rollouts/search".to_owned(),
    ] {
        assert_eq!(post(&path, &key, &reward).0, 403, "{path}");
    }
    assert!(guarded.server.query("rewards").is_empty());
    let empty = post("/v1/fulgurite/keys/worker", ADMIN, &json!({ "name": "", "seconds": 9 }));
    assert_eq!(empty.0, 422, "{empty:?}");
}
