//! Training runs of the real command that end before they are over, or go on after they were, and are resumed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::project::{CALL, Project, SMALL, UNEVEN, recorded_steps, saved, weights};
use crate::common::{Process, Ran, client, eventually, fulgurite, text, wait_until_ready};
use serde_json::{Value, json};

#[test]
fn an_adapter_is_trained_beside_its_model_and_goes_on_after_a_kill() {
    let project = Project::new(UNEVEN, SMALL);
    project.train_adapters(4);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let mut train = project.command("killed").stdout(Stdio::null()).spawn().unwrap();
    let run = project.path("killed");
    eventually("a step", || (recorded_steps(&run) >= 2).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    let summary = project.train("killed", &["--resume"]).pop().unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors", "optimizer.state"] {
        assert!(saved(&summary, file) == saved(&undisturbed, file), "{file}");
    }
    assert!(!Path::new(summary["checkpoint"].as_str().unwrap()).join("model.safetensors").exists());
    assert_eq!(summary["max_logprob_difference"], json!(0.0));
    project.account("killed", &summary);
}

#[test]
fn a_run_that_is_killed_at_any_moment_ends_as_if_it_had_not_been() {
    let project = Project::new(UNEVEN, SMALL);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();

    // Killed again and again: after so many recorded steps and so many milliseconds more. `TRAINER_KILLS` says how often.
    let kills: usize = std::env::var("TRAINER_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut resume: &[&str] = &[];
    for kill in 0..kills {
        let (steps, milliseconds) = (5 * kill / kills, (30 + 67 * kill as u64) % 100);
        let mut train = project.command("killed").args(resume).stdout(Stdio::null()).spawn().unwrap();
        let run = project.path("killed");
        eventually("a step", || (run.join("config.json").exists() && recorded_steps(&run) >= steps).then_some(()));
        std::thread::sleep(Duration::from_millis(milliseconds));
        train.kill().unwrap();
        train.wait().unwrap();
        resume = &["--resume"];
    }
    let lines = project.train("killed", &["--resume"]);
    let summary = lines.last().unwrap();
    assert!(weights(summary) == weights(&undisturbed), "{summary}");
    assert_eq!(summary["steps"], 5);
    for key in ["held_out_reward_before", "held_out_reward_after", "final_reward_after"] {
        assert_eq!(summary[key], undisturbed[key]);
    }

    // Over is over: the final tasks are scored once.
    let rollouts = project.query("rollouts", "killed").len();
    let again = project.train("killed", &["--resume"]);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["final_reward_after"], summary["final_reward_after"]);
    assert_eq!(project.query("rollouts", "killed").len(), rollouts);

    // Nothing twice, nothing lost, and what the kills cost is accounted for.
    let account = project.account("killed", summary);
    assert_eq!(account["trained"], undisturbed["trained_tokens"].as_u64().unwrap());
    let metrics = std::fs::read_to_string(project.path("killed/metrics.jsonl")).unwrap();
    let batches: Vec<u64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["progress/batch"].as_u64().unwrap())
        .collect();
    assert_eq!(batches, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before_it() {
    let project = Project::new(UNEVEN, SMALL);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let max_steps = |from: &str, to: &str| {
        let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
        std::fs::write(project.path("t.toml"), config.replace(from, to)).unwrap();
    };
    max_steps("max_steps = 5\nlearning", "max_steps = 3\nlearning");
    project.train("run", &[]);
    max_steps("max_steps = 3\nlearning", "max_steps = 5\nlearning");

    // One bit of one weight.
    let flip = |checkpoint: &str| {
        let path = project.path("run/checkpoints").join(checkpoint).join("model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    flip("000003");
    let lines = project.train("run", &["--resume"]);
    assert_eq!(lines[0]["event"], "checkpoint_passed_over");
    assert_eq!(lines[0]["checkpoint"], "checkpoints/000003");
    let reason = lines[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("model.safetensors is not what was saved"), "{reason}");
    assert_eq!(lines[1]["step"], 2, "the third update is made again");
    let summary = lines.last().unwrap();
    assert_eq!(summary["steps"], 5);
    assert!(weights(summary) == weights(&undisturbed), "{summary}");
    project.account("run", summary);

    // None is left: an error that says why, and nothing is undone.
    max_steps("max_steps = 5\nlearning", "max_steps = 6\nlearning");
    flip("000005");
    std::fs::remove_dir_all(project.path("run/checkpoints/000004")).unwrap();
    let failed = Ran::from(project.command("run").arg("--resume").output().unwrap());
    assert_eq!(failed.code, Some(1));
    for part in
        ["checkpoints/000005: model.safetensors is not what was saved", "checkpoints/000004: its directory is gone"]
    {
        assert!(failed.stderr.contains(part), "{}", failed.stderr);
    }
    flip("000005");
    assert_eq!(project.train("run", &["--resume"]).last().unwrap()["steps"], 6);
}

#[test]
fn what_was_trained_after_the_last_checkpoint_is_trained_again() {
    // Four rollouts of the first evaluation and nine of the first step are graded at once; those of the second step
    // wait for a file.
    let grader = "import os, sys, time; n = len(sys.stdin.read())\n\
                  with open('graded', 'a') as graded: graded.write('.'); graded.flush(); count = graded.tell()\n\
                  while count > 13 and not os.path.exists('go'): time.sleep(0.01)\n\
                  print('{\"reward\": %d}' % (n % 3))";
    let project = Project::new("", &format!("{SMALL}checkpoint_every = 100\n"));
    let grade = json!(["python3", "-c", grader]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let runner = format!("[runner]\ncommand = [\"hello-agent\", \"{{task}}\"]\ngrade = {grade}\n");
    std::fs::write(project.path("t.toml"), config.replace("[runner]\n", &runner)).unwrap();

    let mut train = project.command("run").stdout(Stdio::null()).spawn().unwrap();
    eventually("the first step", || (recorded_steps(&project.path("run")) == 1).then_some(()));
    let lost = |rollout: &Value| rollout["mode"] == "train" && rollout["status"] == "running";
    eventually("a call of the second step", || project.query("rollouts", "run").iter().any(lost).then_some(()));
    train.kill().unwrap();
    train.wait().unwrap();
    std::fs::write(project.path("go"), "").unwrap();

    // A run is its directory, wherever that is.
    std::fs::rename(project.path("run"), project.path("moved")).unwrap();
    let summary = project.train("moved", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
    let account = project.account("moved", &summary);
    assert!(account["after_last_checkpoint"] > 0, "{account:?}");
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    assert!(weights(&summary) == weights(&undisturbed));
    assert_eq!(summary["trained_tokens"], undisturbed["trained_tokens"]);
}

#[test]
fn a_runner_that_is_killed_is_replaced_and_its_attempts_are_tried_again() {
    // Of a training rollout the grader waits for a file, so that the kill comes after the agents' calls and before
    // their rewards.
    let wait = "import os, sys, time; n = len(sys.stdin.read()); training = int(os.environ['FULGURITE_TASK']) < 100\n\
                while training and not os.path.exists(sys.argv[1]): time.sleep(0.01)";
    let grader = format!("{wait}\nprint('{{\"reward\": %d}}' % (n % 3))");
    let project = Project::new("", SMALL);
    let go = project.path("go");
    let grade = json!(["python3", "-c", grader, go]);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let runner = format!("[runner]\ncommand = [\"hello-agent\", \"{{task}}\"]\ngrade = {grade}\n");
    std::fs::write(project.path("t.toml"), config.replace("[runner]\n", &runner)).unwrap();

    let train = project.command("run").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a runner and a store", || project.path("run/metrics.jsonl").exists().then_some(()));
    let runner = eventually("the runner", || child_of(train.id(), "run"));
    // An attempt is heard of when a call of it is recorded.
    eventually("a recorded call", || {
        let is_called = |rollout: &Value| rollout["mode"] == "train" && rollout["status"] == "running";
        project.query("rollouts", "run").iter().any(is_called).then_some(())
    });
    assert!(Command::new("kill").args(["-9", &runner.to_string()]).status().unwrap().success());
    eventually("another runner", || child_of(train.id(), "run").filter(|other| *other != runner));
    std::fs::write(go, "").unwrap();

    let output = train.wait_with_output().unwrap();
    let summary = Ran::from(output).json_lines().pop().unwrap();
    assert_eq!(summary["steps"], 5);
    let account = project.account("run", &summary);
    assert!(account["superseded_attempt"] > 0, "{account:?}");
    let rollouts = project.query("rollouts", "run");
    assert!(rollouts.iter().all(|rollout| rollout["status"] == "succeeded"));
    assert!(rollouts.iter().any(|rollout| rollout["attempt"]["sequence_id"] == 2), "nothing was tried again");
}

/// The id of a child whose command line has `word` as an argument.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).find(|id| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let stat = read("stat");
        // After the command's name, which may hold anything, come the state and the parent.
        let parent_id = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parent_id == Some(parent) && (word.is_empty() || read("cmdline").split('\0').any(|argument| argument == word))
    })
}

#[test]
fn an_interrupted_run_takes_its_agents_along_and_can_be_resumed() {
    let project = Project::new(r#"command = ["python3", "agent.py"]"#, SMALL);
    // It says who it is, and then hangs while there is no file that lets it go.
    std::fs::write(
        project.path("agent.py"),
        format!(
            "import os, time\nopen(f'agent-{{os.getpid()}}', 'w').close()\n\
             while not os.path.exists('go'): time.sleep(0.01)\n{CALL}print('{{\"reward\": 1}}')"
        ),
    )
    .unwrap();
    let train = project.command("run").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let agent = eventually("an agent", || {
        let entries = std::fs::read_dir(project.directory.path()).unwrap();
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("agent-")?.parse::<u32>().ok()).next()
    });
    assert!(Command::new("kill").args(["-TERM", &train.id().to_string()]).status().unwrap().success());
    let output = train.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--resume"));
    // It is killed by then; that it is gone is for the system to see to.
    eventually("the agent's end", || (!Path::new(&format!("/proc/{agent}")).exists()).then_some(()));

    std::fs::write(project.path("go"), "").unwrap();
    let summary = project.train("run", &["--resume"]).pop().unwrap();
    assert_eq!(summary["steps"], 5);
}

#[test]
fn a_step_whose_line_was_lost_is_printed_by_the_resumed_run() {
    let project = Project::new(UNEVEN, SMALL);
    let first = project.train("run", &["--max-steps", "2"]);
    // As a crash leaves it between a step's record and its line.
    let path = project.path("run/metrics.jsonl");
    let metrics = std::fs::read_to_string(&path).unwrap();
    let (kept, _) = metrics.split_once('\n').unwrap();
    std::fs::write(&path, format!("{kept}\n")).unwrap();
    let again = project.train("run", &["--max-steps", "2", "--resume"]);
    assert_eq!(again[..again.len() - 1], first[1..first.len() - 1], "the run is over, and what was not told is told");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), metrics);

    std::fs::write(&path, format!("{kept}\n{{\"step\": 1")).unwrap();
    let further = project.train("run", &["--max-steps", "3", "--resume"]);
    let steps: Vec<u64> = further.iter().filter_map(|line| line["step"].as_u64()).collect();
    assert_eq!(steps, [1, 2, 3], "the lost line, the next update, and the last evaluation");
    assert_eq!(further[0], first[1]);
}

#[test]
fn a_run_that_was_over_goes_on_from_its_last_checkpoint_and_keeps_it() {
    let project = Project::new(UNEVEN, &format!("{SMALL}checkpoint_every = 100\n"));
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    project.train("run", &["--max-steps", "3"]);
    let checkpoints = || -> Vec<(u64, String)> {
        let rows = project.sql("run", "SELECT step, directory FROM checkpoints ORDER BY step");
        rows.iter().map(|row| (row["step"].as_u64().unwrap(), text(&row["directory"]))).collect()
    };
    assert_eq!(checkpoints(), [(4, "checkpoints/000003".to_owned())], "the end's, which has no update of its own");

    let mut train = project.command("run").arg("--resume").stdout(Stdio::null()).spawn().unwrap();
    eventually("the fourth step", || {
        (!project.sql("run", "SELECT step FROM steps WHERE step = 4 AND weights_version = 4").is_empty()).then_some(())
    });
    train.kill().unwrap();
    train.wait().unwrap();
    assert_eq!(checkpoints()[0], (3, "checkpoints/000003".to_owned()), "what it went on from");

    let summary = project.train("run", &["--resume"]).pop().unwrap();
    assert!(weights(&summary) == weights(&undisturbed), "{summary}");
    assert!(saved(&summary, "optimizer.state") == saved(&undisturbed, "optimizer.state"));
    let expected = [(3, "checkpoints/000003".to_owned()), (6, "checkpoints/000005".to_owned())];
    assert_eq!(checkpoints(), expected);
    assert!(project.path("run/checkpoints/000003/model.safetensors").exists());
    project.account("run", &summary);
}

#[test]
fn a_resumed_run_prints_the_columns_of_one_that_was_not_disturbed() {
    let grade = "import sys; n = len(sys.stdin.read()); print('{\\\"reward\\\": %d, \\\"exact\\\": 1}' % (n % 3))";
    let runner = format!("command = [\"hello-agent\", \"{{task}}\"]\ngrade = [\"python3\", \"-c\", \"{grade}\"]");
    let project = Project::new(&runner, "groups_per_batch = 2\ngroup_size = 2\n");
    let header = |run: &str, arguments: &[&str]| {
        let mut command = fulgurite(["train"]);
        command.arg(project.path("t.toml")).arg("--run-directory").arg(project.path(run)).args(arguments);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let headers: Vec<String> =
            ran.stdout.lines().filter(|line| line.trim_start().starts_with("step ")).map(str::to_owned).collect();
        let [header] = &headers[..] else { panic!("{}", ran.stdout) };
        header.clone()
    };
    let whole = header("run", &["--max-steps", "2"]);
    assert!(whole.contains("exact"), "{whole}");
    // The next update comes before the next evaluation.
    project.change_config("every = 2", "every = 4");
    assert_eq!(header("run", &["--resume", "--max-steps", "3"]), whole);
}

#[test]
fn a_run_waits_for_leave_with_a_checkpoint_of_what_it_has_learnt_and_ends_as_if_it_had_not() {
    let project = Project::new(UNEVEN, SMALL);
    let undisturbed = project.train("undisturbed", &[]).pop().unwrap();
    let (run, ready, log) = (project.path("patient"), project.path("ready.json"), project.path("log"));
    let checkpoint = |step: &str| run.join("checkpoints").join(step).join("fulgurite.sha256");
    let start = |arguments: &[&str]| {
        let mut command = project.command("patient");
        command.args(arguments).arg("--ready-file").arg(&ready);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        Process::spawn(command)
    };
    let mut train = start(&["--allowed-steps", "1"]);
    let url = wait_until_ready(&mut train, &ready, &log);
    eventually("its checkpoint", || checkpoint("000001").exists().then_some(()));
    let allow = |url: &str, steps: Value| {
        let body = json!({ "steps": steps });
        client().post(format!("{url}/v1/fulgurite/runs/patient/allowed-steps")).json(&body).send().unwrap().status()
    };
    assert_eq!(allow(&url, json!(-1)), 422);
    assert_eq!(allow(&url, json!(3)), 204);
    eventually("its checkpoint", || (checkpoint("000003").exists() && recorded_steps(&run) == 3).then_some(()));
    // Leave is kept with the record: whoever goes on with the run without more of it waits at once.
    train.kill();
    std::fs::remove_file(&ready).unwrap();
    let mut train = start(&["--resume"]);
    let url = wait_until_ready(&mut train, &ready, &log);
    let runs: Value = client().get(format!("{url}/v1/fulgurite/runs/patient")).send().unwrap().json().unwrap();
    assert_eq!(runs["allowed_steps"], 3);
    assert_eq!(recorded_steps(&run), 3);
    assert_eq!(allow(&url, Value::Null), 204);
    assert_eq!(train.exit_code(), Some(0));
    let summary = project.train("patient", &["--resume"]).pop().unwrap();
    assert!(weights(&summary) == weights(&undisturbed), "{summary}");
    project.account("patient", &summary);
}
