//! Worlds: a directory for each attempt, with commands around it, and what is left of them when runners die.

use crate::support::Scripted;
use fulgurite_runner::{RunnerError, RunnerOptions, SandboxOptions, WorldOptions, run};
use serde_json::{Value, json};
use std::fs;
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::sleep;

fn shell(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
}

/// A project with a directory of worlds.
struct Project {
    folder: TempDir,
    options: WorldOptions,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = WorldOptions {
            directory: folder.path().join("worlds"),
            setup: Vec::new(),
            snapshot: Vec::new(),
            teardown: Vec::new(),
            hook_timeout: Duration::from_secs(600),
            unwatched: Vec::new(),
            reward_file: None,
            reward_key: None,
            harbor_tests: false,
            sandbox: SandboxOptions::default(),
            own_program: std::path::PathBuf::new(),
        };
        Self { folder, options }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn runner(&self, server: &Scripted, agent: &str, grade: Option<&str>) -> RunnerOptions {
        RunnerOptions {
            until_idle: true,
            worker_id: "worker".to_owned(),
            grade: grade.map(shell),
            working_directory: Some(self.folder.path().to_owned()),
            worlds: Some(self.options.clone()),
            ..RunnerOptions::new(&server.url, shell(agent))
        }
    }

    /// Has `agent` do one task; gives the rewards and the end.
    async fn play(&self, agent: &str, grade: Option<&str>) -> (Vec<Value>, Value) {
        let server = Scripted::start([json!({"n": 17})]).await;
        run(self.runner(&server, agent, grade), pending()).await.unwrap();
        let record = server.record();
        let rewards = record.rewards.iter().map(|(_, body)| body["value"].clone()).collect();
        (rewards, record.endings[0].1.clone())
    }

    /// What is left of worlds.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(&self.options.directory).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name != ".lock").collect()
    }
}

#[tokio::test]
async fn an_agent_lives_in_a_world_that_its_setup_made_and_what_it_changed_is_kept() {
    let mut project = Project::new();
    fs::write(project.at("template"), "one\ntwo\n").unwrap();
    project.options.setup =
        shell("test -z \"$(ls -A $FULGURITE_WORLD)\" && cp template {world}/file && cp template {world}/old");
    let agent = r#"test "$PWD" = "{world}" && test {project} = "$FULGURITE_PROJECT" || exit 3
        echo three >> file; echo {task.n} > new; rm old; echo '{"reward": 1}'"#;
    let (rewards, end) = project.play(agent, None).await;
    assert_eq!((rewards, &end["status"]), (vec![json!(1)], &json!("succeeded")), "{end}");
    let changes = &end["metadata"]["world_changes"];
    let of = |kind: &str| [changes[kind][0]["path"].clone(), changes[kind][0]["diff"].clone()];
    assert_eq!(of("created"), ["new", "@@ -0,0 +1 @@\n+17\n"]);
    assert_eq!(of("changed"), ["file", "@@ -1,2 +1,3 @@\n one\n two\n+three\n"]);
    assert_eq!(of("deleted"), ["old", "@@ -1,2 +0,0 @@\n-one\n-two\n"]);
    let hooks = end["metadata"]["hooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 1);
    assert_eq!([&hooks[0]["hook"], &hooks[0]["exit_status"]], [&json!("setup"), &json!(0)]);
    assert!(project.left().is_empty(), "{:?}", project.left());
}

#[tokio::test]
async fn worlds_of_one_setup_have_one_digest_and_another_state_has_another() {
    let digest = async |setup: &str| {
        let mut project = Project::new();
        project.options.setup = shell(setup);
        let (_, end) = project.play(r#"echo x > changed; echo '{"reward": 1}'"#, None).await;
        end["metadata"]["world_digest"].clone()
    };
    let one = digest("echo 1 > {world}/file").await;
    assert!(one.is_string());
    assert_eq!(one, digest("printf '1\\n' > {world}/file").await);
    assert_ne!(one, digest("echo 2 > {world}/file").await);
}

#[tokio::test]
async fn a_world_that_cannot_be_made_is_no_fault_of_the_agents_and_one_that_it_broke_is() {
    let play = async |setup: &str, snapshot: Option<&str>, fault: &str| {
        let mut project = Project::new();
        project.options.setup = shell(setup);
        project.options.snapshot = snapshot.map(shell).unwrap_or_default();
        let (rewards, end) = project.play(r#"touch {project}/ran; echo '{"reward": 1}'"#, None).await;
        assert!(rewards.is_empty() && project.left().is_empty());
        let metadata = &end["metadata"];
        assert_eq!([&end["status"], &metadata["fault"]], [&json!("failed"), &json!(fault)]);
        (metadata["reason"].as_str().unwrap().to_owned(), project.at("ran").exists())
    };
    let failed = play("echo no glass >&2; exit 4", None, "world").await;
    assert_eq!(failed, ("setup exited with status 4: no glass".to_owned(), false));
    let (reason, ran) = play("echo FULGURITE_TASK=1 > $FULGURITE_WORLD_VARIABLES", None, "world").await;
    assert!(reason.contains("is no NAME=VALUE") && !ran, "{reason}");
    let (reason, ran) = play(":", Some("test -e {project}/ran && exit 5; exit 0"), "agent").await;
    assert_eq!((reason.as_str(), ran), ("snapshot exited with status 5", true));
    let (reason, ran) = play("{task.no}", None, "world").await;
    assert!(reason.contains("`no`") && !ran, "{reason}");
}

#[tokio::test]
async fn what_a_setup_hands_on_reaches_the_agent_the_grader_and_the_teardown_but_no_key_reaches_the_disk() {
    let mut project = Project::new();
    project.options.setup = shell(
        r#"echo "PORT=80 81" > $FULGURITE_WORLD_VARIABLES
           grep -rl secret-key $FULGURITE_WORLD/.. && exit 3; test "$OPENAI_API_KEY" = secret-key"#,
    );
    project.options.teardown = shell(r#"echo "$PORT $FULGURITE_ATTEMPT_ID [$OPENAI_API_KEY]" > down"#);
    let server = Scripted::start([json!(1)]).await;
    server.record().keys = Some("secret-key".to_owned());
    let agent = r#"test "$PORT" = "80 81" && echo said"#;
    let grade = r#"test "$PORT" = "80 81" && grep -q '"path":"x"' $FULGURITE_WORLD_CHANGES; echo '{"reward": 0.5}'"#;
    let summary = run(project.runner(&server, agent, Some(grade)), pending()).await.unwrap();
    assert_eq!(summary.succeeded, 1, "{:?}", server.record().endings);
    assert_eq!(project.text("down"), "80 81 at-1 []\n");
}

#[tokio::test]
async fn a_snapshot_stands_for_the_state_of_what_is_outside_of_the_world() {
    let mut project = Project::new();
    project.options.setup = shell("echo rows > database");
    project.options.snapshot = shell("cp database $FULGURITE_SNAPSHOT/database.sql");
    let (_, end) = project.play(r#"echo more >> {project}/database; touch unseen; echo '{"reward": 1}'"#, None).await;
    let changes = &end["metadata"]["world_changes"];
    assert_eq!(changes["changed"][0]["path"], "database.sql");
    assert_eq!(changes.as_object().unwrap().len(), 1, "{changes}");
    let hooks: Vec<&Value> = end["metadata"]["hooks"].as_array().unwrap().iter().map(|hook| &hook["hook"]).collect();
    assert_eq!(hooks, ["setup", "snapshot", "snapshot"]);
}

#[tokio::test]
async fn a_reward_file_is_the_graders_and_what_the_agent_put_there_does_not_count() {
    let mut project = Project::new();
    project.options.reward_file = Some("out/reward.json".into());
    let forge = r#"mkdir out; echo '{"reward": 1, "tests": 2}' > out/reward.json; echo done"#;
    assert_eq!(project.play(forge, None).await.0, [json!(1)], "nobody else judges");
    let (rewards, end) = project.play(forge, Some("true")).await;
    assert!(rewards.is_empty());
    assert_eq!(end["metadata"]["fault"], "grader");
    let reason = end["metadata"]["reason"].as_str().unwrap();
    let expected = "no reward of the grader: in out/reward.json of its world: there is no such file (help: a grader writes a number";
    assert!(reason.starts_with(expected), "{reason}");
    let (rewards, _) = project.play(forge, Some("echo 0.25 > {world}/out/reward.json")).await;
    assert_eq!(rewards, [json!(0.25)]);
    let (rewards, end) = project.play("echo done", None).await;
    assert!(rewards.is_empty() && end["metadata"]["reason"].as_str().unwrap().contains("out/reward.json"), "{end}");
}

#[tokio::test]
async fn programs_after_the_agent_find_nothing_that_it_planted_in_their_environment() {
    let mut project = Project::new();
    // The setup is trusted, what its variables point at is the agent's by now.
    project.options.setup = shell(
        "printf 'PATH=%s/bin:%s\\nPYTHONPATH=%s\\nPORT=80\\n' {world} \"$PATH\" {world} > $FULGURITE_WORLD_VARIABLES",
    );
    let look = |name: &str| {
        format!(
            "cat > /dev/null; type whoami > {{project}}/{name}; env >> {{project}}/{name}; ls -A $HOME >> {{project}}/{name}"
        )
    };
    project.options.snapshot = shell(&look("snapshot"));
    project.options.teardown = shell(&look("teardown"));
    let agent = "mkdir bin; echo 'echo forged' > bin/whoami; chmod +x bin/whoami
        test \"$(whoami)\" = forged || exit 3
        echo 'LD_PRELOAD=x.so' >> $FULGURITE_WORLD_VARIABLES; echo 'PORT=81' >> $FULGURITE_WORLD_VARIABLES";
    let grade = format!("{}; echo '{{\"reward\": 0.5}}'", look("grade"));
    let (rewards, end) = project.play(agent, Some(&grade)).await;
    assert_eq!(rewards, [json!(0.5)], "{end}");
    let own = std::env::var("HOME").unwrap_or_default();
    for name in ["snapshot", "grade", "teardown"] {
        let printed = project.text(name);
        let world = project.options.directory.display().to_string();
        let home = printed.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
        assert!(home.starts_with(&world) && home != own && !Path::new(home).exists(), "{name}: {home}");
        assert!(!printed.lines().next().unwrap().contains(&world), "{name}: {printed}");
        assert!(!printed.contains("PYTHONPATH=") && !printed.contains("LD_PRELOAD="), "{name}: {printed}");
        assert!(printed.contains("PORT=80\n") && printed.contains("LANG=C.UTF-8\n"), "{name}: {printed}");
    }
}

#[tokio::test]
async fn a_link_on_the_way_to_the_reward_file_neither_gives_a_reward_nor_keeps_the_grader_from_giving_one() {
    let mut project = Project::new();
    project.options.reward_file = Some("out/reward.json".into());
    let grade = "mkdir -p {world}/out && echo 0.25 > {world}/out/reward.json";
    for agent in [
        "ln -s {project} out",
        "touch out",
        "mkdir out; ln -s {project}/x out/reward.json",
        "mkdir -p out/reward.json/x",
    ] {
        let (rewards, end) = project.play(agent, Some(grade)).await;
        assert_eq!(rewards, [json!(0.25)], "{agent}: {end}");
    }
    assert!(!project.at("reward.json").exists() && !project.at("x").exists());
}

#[tokio::test]
async fn nothing_stays_of_a_world_at_whatever_stage_its_runner_is_gone() {
    for stage in ["setup", "snapshot", "agent", "grade", "teardown"] {
        let mut project = Project::new();
        // Waits at its stage the first time, until it is killed.
        let at = |name: &str, then: &str| {
            format!(
                "if [ {name} = {stage} ] && [ ! -e {{project}}/here ]; then touch {{project}}/here; sleep 600; fi; {then}"
            )
        };
        project.options.setup = shell(&at("setup", "echo $FULGURITE_ATTEMPT_ID >> outside"));
        project.options.snapshot = shell(&at("snapshot", "true"));
        project.options.teardown = shell(&at("teardown", "test -e {world} && echo $FULGURITE_ATTEMPT_ID >> down"));
        let (agent, grade) = (at("agent", "true"), at("grade", r#"echo '{"reward": 1}'"#));
        {
            let server = Scripted::start([json!(1)]).await;
            let running = run(project.runner(&server, &agent, Some(&grade)), pending());
            tokio::select! {
                ended = running => panic!("it ended at {stage}: {ended:?}"),
                () = async { while !project.at("here").exists() { sleep(Duration::from_millis(5)).await; } } => {}
            }
        }
        assert_eq!(project.left(), ["ro-1.at-1"], "{stage}");
        let server = Scripted::start([]).await;
        run(project.runner(&server, &agent, Some(&grade)), pending()).await.unwrap();
        assert!(project.left().is_empty(), "{stage}: {:?}", project.left());
        assert_eq!(project.text("down"), "at-1\n", "{stage}");
    }
}

#[tokio::test]
async fn a_runner_that_is_told_to_stop_takes_its_worlds_away_itself() {
    let mut project = Project::new();
    project.options.teardown = shell("touch down");
    let server = Scripted::start([json!(1)]).await;
    let here = project.at("here");
    let shutdown = async move {
        while !here.exists() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let summary = run(project.runner(&server, "touch {project}/here; sleep 600", None), shutdown).await.unwrap();
    assert_eq!(summary.released, 1);
    assert!(project.left().is_empty() && project.at("down").exists());
}

#[tokio::test]
async fn a_teardown_that_fails_is_tried_again_by_the_next_runner() {
    let mut project = Project::new();
    project.options.teardown = shell("test -e may || { echo not yet >&2; exit 1; }; touch down");
    let (rewards, end) = project.play(r#"echo '{"reward": 1}'"#, None).await;
    assert_eq!(rewards, [json!(1)], "it is no fault of the agent's");
    assert_eq!(end["metadata"]["hooks"][0]["stderr_tail"], "not yet\n");
    assert_eq!(project.left(), ["ro-1.at-1"]);
    fs::write(project.at("may"), "").unwrap();
    run(project.runner(&Scripted::start([]).await, "true", None), pending()).await.unwrap();
    assert!(project.left().is_empty() && project.at("down").exists());
}

#[tokio::test]
async fn worlds_are_refused_where_they_cannot_be() {
    let refused = async |options: RunnerOptions| run(options, pending()).await.unwrap_err();
    let server = Scripted::start([]).await;
    let project = Project::new();
    let warm = RunnerOptions { warm: true, ..project.runner(&server, "true", None) };
    assert!(matches!(refused(warm).await, RunnerError::SharedWorlds));
    let mut project = Project::new();
    let open = project.at("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    project.options.directory = open;
    assert!(refused(project.runner(&server, "true", None)).await.to_string().contains("nobody else can write to"));
    project.options.directory = project.at("worlds");
    project.options.setup = vec!["./no-such".to_owned()];
    assert!(matches!(refused(project.runner(&server, "true", None)).await, RunnerError::ProgramNotFound { .. }));
    let no_world =
        RunnerOptions { worlds: None, until_idle: true, ..RunnerOptions::new(&server.url, shell("{world}")) };
    server.record().queue.push_back(json!(1));
    run(no_world, pending()).await.unwrap();
    let reason = server.record().endings[0].1["metadata"]["reason"].clone();
    assert!(reason.as_str().unwrap().contains("it has none"), "{reason}");
}

/// What only this user may look into.
#[tokio::test]
async fn a_directory_of_worlds_is_closed_to_others() {
    let project = Project::new();
    project.play("true", None).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&project.options.directory), 0o700);
}
