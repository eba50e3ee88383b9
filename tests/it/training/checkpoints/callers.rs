//! A driven run that goes on from a checkpoint behind its own published weights, while others call its model.

use std::process::Stdio;

use serde_json::{Value, json};

use super::run_ids::change;
use super::starts::truncate;
use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Process, Ran, Server, client, eventually, model_flag, run};

/// A project whose model a server has, and in which a driven run was killed: what it published is newer than its start.
struct Driven {
    project: Project,
    server: Server,
}

impl Driven {
    fn served(checkpoint_every: u64) -> Self {
        let lines = format!("max_steps = 4\ncheckpoint_every = {checkpoint_every}");
        let project = Project::new(UNEVEN, &SMALL.replace("max_steps = 5", &lines));
        project.train("base", &["--max-steps", "1"]);
        let served = project.path("served");
        std::fs::create_dir(&served).unwrap();
        let server = Server::start(&served, ["--model", &model_flag("hello", &project.path("model-1"))]);
        Self { project, server }
    }

    fn killed() -> Self {
        let it = Self::served(50);
        let mut command = it.project.command("run");
        command.args(["--server", &it.server.url]).stdout(Stdio::null());
        let mut process = Process::spawn(command);
        eventually("two updates", || (it.step_behind() == Some(2)).then_some(()));
        process.kill();
        // What it had handed out ends with its runner, and is not others'.
        it
    }

    fn step_behind(&self) -> Option<u64> {
        self.server.get("/v1/fulgurite/publications").expect(200)[0]["step"].as_u64()
    }

    fn ran(&self, flags: &[&str]) -> Ran {
        self.project.command("run").args(["--server", &self.server.url]).args(flags).output().unwrap().into()
    }

    fn resumed(&self) -> Ran {
        self.ran(&["--resume"])
    }

    /// The updates of what was behind the model, in order.
    fn published(&self) -> Vec<Value> {
        let query = "SELECT n.step FROM publications p JOIN named_weights n USING (model, version) ORDER BY p.position";
        let rows = run(["sql", query, "--json", "--store", &self.server.store]).json_lines();
        rows.iter().map(|row| row["step"].clone()).collect()
    }

    fn is_refused(&self, what: &str) {
        let before = self.published();
        let refused = self.resumed();
        assert_eq!(refused.code, Some(1), "{what}: {refused:?}");
        assert!(refused.stderr.contains("others than the run call it"), "{what}: {}", refused.stderr);
        assert!(refused.stderr.contains("--resume --replace-weights`"), "{what}: {}", refused.stderr);
        assert_eq!(self.published(), before, "{what}");
    }

    fn called(&self) {
        let body = json!({ "model": "hello", "messages": [{ "role": "user", "content": "Say 1" }], "max_tokens": 3 });
        let call = client().post(format!("{}/v1/chat/completions", self.server.url));
        let call = call.header("x-fulgurite-session", "long").json(&body).send().unwrap();
        assert!(call.status().is_success(), "{}", call.text().unwrap());
    }

    fn long_ago(&self, statements: &[&str]) {
        change(&self.server.store, statements);
    }
}

#[test]
fn a_driven_run_puts_no_older_weights_behind_a_model_that_others_call() {
    let it = Driven::killed();
    // Tasks that wait for agents of others.
    let waiting = it.server.enqueue((0..3).map(|task| json!(task)), &json!({}));
    it.is_refused("tasks are in the queue");
    for rollout in waiting {
        it.server.post(&format!("/v1/agl/rollouts/{rollout}"), &json!({ "status": "cancelled" })).expect(200);
    }
    // A session that began long ago and calls now.
    it.called();
    let began_long_ago = [
        "UPDATE rollouts SET start_time = start_time - 7200 WHERE run_id IS NULL",
        "UPDATE attempts SET start_time = start_time - 7200, last_heartbeat_time = last_heartbeat_time - 7200
             WHERE rollout_id IN (SELECT rollout_id FROM rollouts WHERE run_id IS NULL)",
    ];
    it.long_ago(&began_long_ago);
    it.is_refused("it was called a moment ago");
    // Its last call is long ago as well: the run is alone.
    it.long_ago(&["UPDATE spans SET start_time = start_time - 7200, end_time = end_time - 7200
        WHERE rollout_id IN (SELECT rollout_id FROM rollouts WHERE run_id IS NULL)"]);
    let lines = it.resumed().json_lines();
    assert_eq!((&lines.last().unwrap()["steps"], it.step_behind()), (&json!(4), Some(4)));
    let steps = it.published();
    assert!(steps.windows(2).any(|two| two == [json!(2), json!(0)]), "its start was put back: {steps:?}");
}

#[test]
fn a_driven_run_with_a_damaged_checkpoint_puts_no_older_weights_behind_a_model_that_others_call() {
    let it = Driven::served(1);
    it.ran(&[]).json_lines();
    assert_eq!(it.step_behind(), Some(4));
    // It has ended: only with more to do it goes on.
    it.project.change_config("max_steps = 4", "max_steps = 5");
    truncate(&it.project.path("run/checkpoints/000004"));
    it.called();
    it.is_refused("its third update is the last that it can go on from");
    let ran = it.ran(&["--resume", "--replace-weights"]);
    let lines = ran.json_lines();
    let passed_over = lines.iter().any(|line| line["event"] == "checkpoint_passed_over");
    assert!(passed_over && it.step_behind() == Some(5), "{lines:?}");
    assert_eq!(lines.last().unwrap()["steps"], 5);
}
