//! A runner against a scripted server, with the shell for an agent.

use crate::support::Scripted;
use fulgurite_runner::{RunnerError, RunnerOptions, RunnerSummary, run};
use serde_json::{Value, json};
use std::future::{pending, ready};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

fn shell(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
}

/// Options for a runner that leaves when `server` has nothing more to do.
fn options(server: &Scripted, agent: &str) -> RunnerOptions {
    RunnerOptions {
        until_idle: true,
        worker_id: "worker".to_owned(),
        patience: Duration::from_secs(30),
        ..RunnerOptions::new(&server.url, shell(agent))
    }
}

async fn run_until_idle(options: RunnerOptions) -> RunnerSummary {
    run(options, pending()).await.unwrap()
}

/// Runs `agent` on one task and returns the rewards that were posted, and the one update that ended the attempt.
async fn play(agent: &str, grade: Option<&str>, posted: Vec<Value>) -> (Vec<Value>, Value) {
    let server = Scripted::start([json!({"n": 17})]).await;
    server.record().posted_rewards = posted;
    run_until_idle(RunnerOptions { grade: grade.map(shell), ..options(&server, agent) }).await;
    let record = server.record();
    assert_eq!(record.endings.len(), 1, "{:?}", record.endings);
    let (attempt, ending) = &record.endings[0];
    assert_eq!(attempt, "at-1");
    (record.rewards.iter().map(|(_, body)| body.clone()).collect(), ending.clone())
}

fn reward(value: f64) -> Value {
    json!({"value": value, "name": "primary", "components": {}})
}

#[tokio::test]
async fn the_agents_last_line_is_its_reward() {
    let (rewards, ending) = play(r#"echo hi; echo '{"reward": 0.5, "exact": 1}'; echo"#, None, vec![]).await;
    assert_eq!(rewards, [json!({"value": 0.5, "name": "primary", "components": {"exact": 1}})]);
    assert_eq!(ending["status"], "succeeded");
    assert_eq!(ending["metadata"]["exit_status"], 0);
    assert!(ending["metadata"]["wall_seconds"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_grader_comes_before_the_agents_own_line_and_a_posted_reward() {
    let posted = vec![json!({"value": 0.1})];
    let grader = r#"read said; echo "grading $said of $FULGURITE_TASK" >&2; echo '{"reward": 0.9}'"#;
    let (rewards, ending) = play(r#"echo '{"reward": 0.5}'"#, Some(grader), posted).await;
    assert_eq!(rewards, [reward(0.9)]);
    assert_eq!(ending["status"], "succeeded");
}

#[tokio::test]
async fn the_grader_reads_what_the_agent_printed() {
    let grader = r#"test "$(cat)" = "I am 17." && test "$FULGURITE_TASK" = '{"n":17}' && echo '{"reward": 1.0}'"#;
    let (rewards, _) = play("echo 'I am 17.'", Some(grader), vec![]).await;
    assert_eq!(rewards, [reward(1.0)]);
}

#[tokio::test]
async fn a_reward_comes_with_its_givers_key_and_the_same_idempotency_key_each_time() {
    let given = async |grade: Option<&str>, lost: usize| {
        let server = Scripted::start([json!(1), json!(2)]).await;
        {
            let mut record = server.record();
            record.keys = Some("agent-key".to_owned());
            record.grader_keys = grade.map(|_| "grader-key".to_owned());
            record.lost_rewards = lost;
        }
        let agent = r#"env | grep -q grader-key && exit 1; echo '{"reward": 0.5}'"#;
        let summary = run_until_idle(RunnerOptions { grade: grade.map(shell), ..options(&server, agent) }).await;
        assert_eq!(summary.succeeded, 2);
        let record = server.record();
        (record.reward_keys.clone(), record.graders[0].clone())
    };
    let (keys, grader) = given(Some(r#"echo '{"reward": 1}'"#), 1).await;
    assert_eq!(grader, "sh");
    let authorizations: Vec<_> = keys.iter().map(|[authorization, _]| authorization.as_deref().unwrap()).collect();
    assert_eq!(authorizations, ["Bearer grader-key"; 3]);
    let [lost, again, other] = [0, 1, 2].map(|index| keys[index][1].clone().unwrap());
    assert!(lost == again && again != other, "{keys:?}");

    let (keys, grader) = given(None, 0).await;
    assert_eq!(grader, Value::Null, "what nobody grades is said to be graded by nobody");
    assert_eq!(keys[0][0].as_deref(), Some("Bearer agent-key"));
}

#[tokio::test]
async fn a_posted_reward_is_enough() {
    let (rewards, ending) = play("echo bye", None, vec![json!({"value": 1.0})]).await;
    assert!(rewards.is_empty());
    assert_eq!(ending["status"], "succeeded");
}

#[tokio::test]
async fn without_a_reward_the_attempt_fails() {
    let (rewards, ending) = play("echo bye", None, Vec::new()).await;
    assert!(rewards.is_empty());
    assert_eq!(ending["status"], "failed");
    let reason = ending["metadata"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no reward: ") && reason.contains("bye"), "{reason}");
    assert!(reason.contains(r#"help: print {"reward": 1.0} as the last line"#), "{reason}");
}

#[tokio::test]
async fn a_crash_fails_the_attempt_with_its_reason_whatever_was_printed() {
    let crash = r#"echo '{"reward": 1}'; echo 'out of glass' >&2; exit 3"#;
    let (rewards, ending) = play(crash, Some(r#"echo '{"reward": 1}'"#), vec![json!({"reward": 1.0})]).await;
    assert!(rewards.is_empty());
    assert_eq!(ending["status"], "failed");
    let metadata = &ending["metadata"];
    assert_eq!(metadata["reason"], "agent exited with status 3");
    assert_eq!((&metadata["exit_status"], &metadata["stderr_tail"]), (&json!(3), &json!("out of glass\n")));

    let (_, ending) = play("kill -9 $$", None, vec![]).await;
    assert_eq!(ending["metadata"]["reason"], "agent was killed by signal 9");
}

#[tokio::test]
async fn a_grader_that_does_not_grade_fails_the_attempt() {
    for (grader, expected) in [
        ("echo oops >&2; exit 2", "grader exited with status 2: oops"),
        (
            "cat",
            r#"no reward of the grader: of its output: its last line is not a JSON object with a number `reward`: bye"#,
        ),
        (
            ":",
            "no reward of the grader: of its output: it printed nothing (help: a grader prints {\"reward\": 1.0} as its last",
        ),
        (
            r#"echo '{"reward": NaN}'"#,
            r#"no reward of the grader: of its output: its last line is not a JSON object with a number `reward`: {"reward": NaN}"#,
        ),
    ] {
        let (rewards, ending) = play("echo bye", Some(grader), vec![json!({"reward": 1.0})]).await;
        assert!(rewards.is_empty());
        assert_eq!(ending["status"], "failed");
        let reason = ending["metadata"]["reason"].as_str().unwrap();
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[tokio::test]
async fn a_refused_reward_fails_the_attempt() {
    let server = Scripted::start([json!(1)]).await;
    server.record().refuse_rewards = true;
    let summary = run_until_idle(options(&server, r#"echo '{"reward": 1}'"#)).await;
    assert_eq!(summary, RunnerSummary { failed: 1, ..RunnerSummary::default() });
    let reason = server.record().endings[0].1["metadata"]["reason"].to_string();
    assert!(reason.contains("the reward was refused") && reason.contains("(status 400): too late"), "{reason}");
}

#[tokio::test]
async fn agent_and_grader_share_one_timeout() {
    for (agent, grade, reason) in [
        (
            "echo half >&2; sleep 600",
            None,
            "agent still ran after 1s ([runner] timeout_seconds): the agent's standard error ends with \"half\"",
        ),
        (
            "echo hi",
            Some("sleep 600"),
            "grader still ran after 1s ([runner] timeout_seconds): the agent wrote nothing to standard error",
        ),
    ] {
        let server = Scripted::start([json!(1)]).await;
        let timeout = Duration::from_secs(1);
        let options = RunnerOptions { timeout, grade: grade.map(shell), ..options(&server, agent) };
        assert_eq!(run_until_idle(options).await, RunnerSummary { timed_out: 1, ..RunnerSummary::default() });
        let (_, ending) = &server.record().endings[0];
        assert_eq!(ending["status"], "timeout");
        assert_eq!(ending["metadata"]["reason"], reason);
    }
}

#[tokio::test]
async fn arguments_are_filled_and_never_seen_by_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let task = json!({"text": "a; touch x $(touch y)", "n": 17});
    let server = Scripted::start([task]).await;
    let script =
        r#"test "$#" = 2 && test "$1" = 'say a; touch x $(touch y)' && test "$2" = 17 && echo '{"reward": 1}'"#;
    let mut command = shell(script);
    command.extend(["sh", "say {task.text}", "{task.n}"].map(str::to_owned));
    let working_directory = Some(folder.path().to_path_buf());
    let summary = run_until_idle(RunnerOptions { command, working_directory, ..options(&server, "") }).await;
    assert_eq!(summary.succeeded, 1, "{:?}", server.record().endings);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn an_unknown_field_fails_the_attempt_by_name() {
    let server = Scripted::start([json!({"n": 17})]).await;
    let mut command = shell("exit 0");
    command.push("{task.m.o}".to_owned());
    run_until_idle(RunnerOptions { command, ..options(&server, "") }).await;
    let (_, ending) = &server.record().endings[0];
    assert_eq!(ending["status"], "failed");
    assert!(ending["metadata"]["reason"].as_str().unwrap().contains("the task has no field `m.o`"));
}

#[tokio::test]
async fn the_environment_points_clients_at_the_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::start([json!({"n": 1}), json!("two")]).await;
    server.record().keys = Some("key-one, key-two".to_owned());
    let agent = r#"env | grep -E '^(OPENAI|ANTHROPIC|GEMINI|GOOGLE_GEMINI)_(BASE_URL|API_KEY)=|^FULGURITE_' | sort > "$FULGURITE_ATTEMPT_ID"; echo '{"reward": 1}'"#;
    let working_directory = Some(folder.path().to_path_buf());
    let admin_key = Some("opens all".to_owned());
    run_until_idle(RunnerOptions { parallel: 2, working_directory, admin_key, ..options(&server, agent) }).await;
    for (attempt, key, task) in [(1, "key-one", r#"{"n":1}"#), (2, "key-two", r#""two""#)] {
        let base = format!("{}/rollout/ro-{attempt}/attempt/at-{attempt}", server.url);
        let expected = format!(
            "ANTHROPIC_API_KEY={key}\nANTHROPIC_BASE_URL={base}\nFULGURITE_ATTEMPT_ID=at-{attempt}\n\
             FULGURITE_REWARD_URL={base}/reward\nFULGURITE_ROLLOUT_ID=ro-{attempt}\nFULGURITE_TASK={task}\n\
             GEMINI_API_KEY={key}\nGOOGLE_GEMINI_BASE_URL={base}\nOPENAI_API_KEY={key}\nOPENAI_BASE_URL={base}/v1\n"
        );
        assert_eq!(std::fs::read_to_string(folder.path().join(format!("at-{attempt}"))).unwrap(), expected);
    }
    assert!(server.record().authorizations.iter().all(|header| header == "Bearer opens all"));
}

#[tokio::test]
async fn takes_no_more_than_it_has_room_for_and_leaves_when_idle() {
    let server = Scripted::start((0..7).map(Value::from)).await;
    let agent = r#"echo '{"reward": 1}'"#;
    let summary = run_until_idle(RunnerOptions { parallel: 3, ..options(&server, agent) }).await;
    assert_eq!(summary, RunnerSummary { succeeded: 7, ..RunnerSummary::default() });
    let record = server.record();
    assert_eq!(record.limits[0], 3);
    assert!(record.limits.iter().all(|limit| (1..=3).contains(limit)), "{:?}", record.limits);
    assert_eq!(record.releases, ["worker", "worker"], "one at the start, one at the end");
}

#[tokio::test]
async fn a_server_that_comes_back_is_taken_up_again() {
    let server = Scripted::start((0..3).map(Value::from)).await;
    server.record().outages = 4;
    let summary = run_until_idle(options(&server, r#"echo '{"reward": 1}'"#)).await;
    assert_eq!(summary.succeeded, 3);
    assert_eq!(server.record().endings.len(), 3);
}

#[tokio::test]
async fn what_a_lost_reply_handed_out_is_given_back() {
    let server = Scripted::start([json!(1), json!(2)]).await;
    server.record().lost_replies = 1;
    run_until_idle(options(&server, r#"echo '{"reward": 1}'"#)).await;
    let record = server.record();
    let ended: Vec<_> = record.endings.iter().map(|(attempt, _)| attempt.as_str()).collect();
    assert_eq!(ended, ["at-2"], "at-1 was handed out in the reply that was lost");
    assert_eq!(record.releases.len(), 3, "at the start, when nothing ran any more, at the end");
}

/// Waits until the server has heard a heartbeat that names `attempts`.
async fn heard(server: &Scripted, attempts: &[&str]) {
    while !server.record().heartbeats.iter().any(|named| named == attempts) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn one_heartbeat_names_all_that_runs_and_an_attempt_that_has_ended_elsewhere_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::start([json!("wait"), json!("hang")]).await;
    let agent = r#"if [ "$FULGURITE_TASK" = '"hang"' ]; then sleep 600; fi
        until [ -e go ]; do sleep 0.01; done; echo '{"reward": 1}'"#;
    let options = RunnerOptions {
        parallel: 2,
        heartbeat_interval: Duration::from_millis(5),
        working_directory: Some(folder.path().to_path_buf()),
        ..options(&server, agent)
    };
    let scenario = async {
        heard(&server, &["at-1", "at-2"]).await;
        server.record().ended_elsewhere.insert("at-2".to_owned(), "unresponsive");
        heard(&server, &["at-1"]).await;
        std::fs::write(folder.path().join("go"), "").unwrap();
    };
    let (summary, ()) = tokio::join!(run_until_idle(options), scenario);
    assert_eq!(summary, RunnerSummary { succeeded: 1, unreported: 1, ..RunnerSummary::default() });
    let record = server.record();
    let ended: Vec<_> = record.endings.iter().map(|(attempt, _)| attempt.as_str()).collect();
    assert_eq!(ended, ["at-1"], "of the killed one there is nothing to report");
}

#[tokio::test]
async fn an_attempt_that_ended_too_late_counts_for_nothing() {
    let server = Scripted::start([json!(1)]).await;
    server.record().ended_elsewhere.insert("at-1".to_owned(), "timeout");
    let summary = run_until_idle(options(&server, r#"echo '{"reward": 1}'"#)).await;
    assert_eq!(summary, RunnerSummary { unreported: 1, ..RunnerSummary::default() });
}

#[tokio::test]
async fn a_server_that_stays_away_ends_the_runner() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let options = RunnerOptions { patience: Duration::ZERO, ..RunnerOptions::new(url, shell("exit 0")) };
    let error = run(options, pending()).await.unwrap_err();
    assert!(matches!(error, RunnerError::Server(_)), "{error}");
}

#[tokio::test]
async fn shutdown_kills_the_agents_and_gives_their_rollouts_back() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("alive");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let server = Scripted::start([json!(1)]).await;
    let agent = format!("exec 3>{}; (sleep 600; echo survived >&3) & wait", pipe.display());
    let (stop, stopped) = oneshot::channel::<()>();
    let running =
        run(RunnerOptions { until_idle: false, ..options(&server, &agent) }, async { stopped.await.unwrap() });
    let (summary, left) = tokio::join!(running, stop_once_open(&pipe, stop));
    assert_eq!(summary.unwrap(), RunnerSummary { released: 1, ..RunnerSummary::default() });
    assert_eq!(left, "", "nobody who could write to the pipe is alive");
    let record = server.record();
    assert!(record.endings.is_empty(), "a released attempt has not failed");
    assert_eq!(record.releases.len(), 2);
}

/// Waits until the agent has opened the pipe, stops the runner, and reads the pipe until the last who held it is gone.
async fn stop_once_open(pipe: &Path, stop: oneshot::Sender<()>) -> String {
    let mut opened = tokio::fs::File::open(pipe).await.unwrap();
    stop.send(()).unwrap();
    let mut left = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut opened, &mut left).await.unwrap();
    left
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_runs() {
    let good = || RunnerOptions::new("http://127.0.0.1:9", shell("exit 0"));
    let refused = async |options| run(options, ready(())).await.unwrap_err();
    let nowhere = RunnerOptions { working_directory: Some("/no/such/folder".into()), ..good() };
    assert!(matches!(refused(nowhere).await, RunnerError::WorkingDirectory { .. }));
    let unknown = RunnerOptions { command: vec!["no-such-agent".to_owned()], ..good() };
    assert!(matches!(refused(unknown).await, RunnerError::ProgramNotFound { .. }));
    let empty = RunnerOptions { grade: Some(vec![]), ..good() };
    assert!(matches!(refused(empty).await, RunnerError::EmptyCommand { role: "grader" }));
    let idle = RunnerOptions { parallel: 0, ..good() };
    assert!(matches!(refused(idle).await, RunnerError::NoParallelism));
}
