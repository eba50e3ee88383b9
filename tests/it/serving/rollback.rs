//! `fulgurite model rollback`: an earlier checkpoint behind a model that is served.

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, Server, fulgurite, model_flag};
use serde_json::{Value, json};

struct RolledBack {
    project: Project,
    server: Server,
}

impl RolledBack {
    /// A server with the model that a run of four updates began with; an adapter of this rank, if there is one.
    fn of_rank(rank: usize) -> Self {
        let trainer = SMALL.replace("max_steps = 5", "max_steps = 4\nkeep_checkpoints = 9");
        let project = Project::new(UNEVEN, &trainer);
        if rank > 0 {
            project.train_adapters(rank);
        }
        project.train("run", &[]);
        let server = Self::serve(&project);
        Self { project, server }
    }

    fn serve(project: &Project) -> Server {
        Server::start(project.directory.path(), ["--model", &model_flag("hello", &project.path("model-1"))])
    }

    fn rollback(&self, arguments: &[&str]) -> Ran {
        let mut command = fulgurite(["model", "rollback", "--server", &self.server.url]);
        command.current_dir(self.project.directory.path()).args(arguments).output().unwrap().into()
    }

    fn publish(&self, arguments: &[&str]) -> String {
        let ran = self.rollback(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        ran.stdout.trim_end().to_owned()
    }

    /// The version behind the model, and its words for a question.
    fn answer(&self) -> (Value, Value) {
        let request = json!({ "model": "hello", "temperature": 1, "seed": 7, "max_tokens": 8, "logprobs": true,
                            "messages": [{ "role": "user", "content": "Say 7" }] });
        let words = self.server.post("/v1/chat/completions", &request).expect(200)["choices"][0]["logprobs"].clone();
        (self.server.get("/v1/fulgurite/models/hello").expect(200)["weights_version"].clone(), words)
    }
}

#[test]
fn an_earlier_checkpoint_is_put_back_and_stays_over_a_restart_when_the_run_has_removed_it() {
    for rank in [0, 4] {
        let mut it = RolledBack::of_rank(rank);
        assert_eq!(it.publish(&["run", "--checkpoint", "4"]), "hello: version 4 in place of version 0");
        let newest = it.answer();
        // Without a word of which, the one before what is served; then the one before that.
        assert_eq!(it.publish(&["run"]), "hello: version 3 in place of version 4");
        let third = it.answer();
        assert_eq!(it.publish(&["run/checkpoints/000002"]), "hello: version 2 in place of version 3");
        let second = it.answer();
        assert_eq!((&newest.0, &third.0, &second.0), (&json!(4), &json!(3), &json!(2)));
        assert!(newest.1 != third.1 && third.1 != second.1 && second.1["content"][0]["logprob"].is_number());

        std::fs::remove_dir_all(it.project.path("run/checkpoints/000002")).unwrap();
        it.server.process.kill();
        it.server = RolledBack::serve(&it.project);
        assert_eq!(it.answer(), second, "after a restart, without the checkpoint");
        let kept: Vec<_> = std::fs::read_dir(it.project.path("run/rolled-back")).unwrap().collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(it.publish(&["run", "--checkpoint", "newest"]), "hello: version 4 in place of version 2");
        assert_eq!(it.answer(), newest);
    }
}

#[test]
fn an_adapter_put_back_after_whole_weights_computes_the_same_after_a_restart() {
    let mut it = RolledBack::of_rank(0);
    let base = it.answer();
    it.project.train_adapters(4);
    it.project.train("lora", &[]);
    it.publish(&["lora", "--checkpoint", "newest"]);
    let adapter = it.answer().1;
    it.publish(&["run", "--checkpoint", "newest"]);
    let whole = it.answer().1;
    it.publish(&["lora", "--checkpoint", "newest"]);
    assert!(
        it.answer().1 == adapter && adapter != whole && adapter != base.1,
        "over the base, not over the whole model"
    );
    it.server.process.kill();
    it.server = RolledBack::serve(&it.project);
    assert_eq!(it.answer().1, adapter);
    let published = it.server.get("/v1/fulgurite/publications").expect(200)[0].clone();
    let named = it.server.get("/v1/fulgurite/weights?model=hello").expect(200);
    assert_eq!(
        (&published["base_id"], &named[0]["version"]),
        (&named[0]["weights_id"], &json!(0)),
        "{published} {named}"
    );
}

#[test]
fn other_files_of_a_published_version_are_refused_also_to_who_names_its_run() {
    let it = RolledBack::of_rank(0);
    it.publish(&["run", "--checkpoint", "4"]);
    let before = it.answer();
    let post = |checkpoint: &str| {
        let model = it.project.path("run/checkpoints").join(checkpoint);
        let body = json!({ "version": 4, "model": model, "run_id": "run", "replaces": "anything" });
        it.server.post("/v1/fulgurite/models/hello/weights", &body)
    };
    let refused = post("000003").expect(409);
    assert_eq!(refused["error"]["code"], "version_has_other_files", "{refused}");
    assert_eq!(it.answer(), before);
    post("000004").expect(200);
    assert_eq!(it.answer(), before);
}

#[test]
fn a_run_is_not_rolled_back_by_the_count_of_another_runs_updates() {
    let it = RolledBack::of_rank(0);
    it.project.train("other", &[]);
    it.publish(&["other", "--checkpoint", "4"]);
    let failure = it.rollback(&["run"]).failure(it.project.directory.path());
    assert!(
        failure.contains("version 4, which is served, is of run other and not of run: say by --checkpoint"),
        "{failure}"
    );
}

#[test]
fn what_cannot_be_put_back_is_refused_by_name_and_changes_nothing() {
    let it = RolledBack::of_rank(0);
    let before = it.answer();
    let directory = it.project.directory.path();
    let refused = |arguments: &[&str]| it.rollback(arguments).failure(directory).replace(&it.server.url, "[server]");
    insta::assert_snapshot!(refused(&["run"]), @"error: run has no checkpoint older than version 0, which is served: --checkpoint names another");
    insta::assert_snapshot!(refused(&["rum", "--model", "hello"]), @"error: rum is no run, in runs/ neither, and no directory of weights: `fulgurite runs` lists the runs");
    insta::assert_snapshot!(refused(&["run", "--checkpoint", "9"]), @"error: [directory]/run has no checkpoint after 9 updates: there are those after 1, 2, 3, 4");
    insta::assert_snapshot!(refused(&["run", "--checkpoint", "2", "--model", "hallo"]), @r"
    error: cannot put earlier weights behind `hallo`
      caused by: [server]/v1/fulgurite/models/hallo refused (status 404): the model `hallo` does not exist here; served: hello
    ");
    insta::assert_snapshot!(refused(&["model-1", "--model", "hello"]), @"error: [directory]/model-1 is no checkpoint of a run");
    // A checkpoint that is damaged is never put behind the model.
    let weights = it.project.path("run/checkpoints/000003/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let failure = refused(&["run", "--checkpoint", "3"]);
    assert!(failure.contains("model.safetensors is not what was saved"), "{failure}");
    assert_eq!(it.answer(), before);
}
