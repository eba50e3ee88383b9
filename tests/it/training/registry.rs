//! `fulgurite runs` and `fulgurite doctor`: what is known of runs, and what is amiss with them.

use serde_json::{Value, json};

use crate::common::data_project::DataProject;
use crate::common::project::{CALL, Project, SMALL, UNEVEN, UNEVEN_GRADE, numbers};
use crate::common::{Ran, Server, fulgurite, parts_of_report};

fn ran(project: &Project, arguments: &[&str]) -> Ran {
    fulgurite(arguments).current_dir(project.directory.path()).output().unwrap().into()
}

#[test]
fn runs_are_listed_shown_and_compared_by_what_their_stores_hold() {
    let project = Project::new(UNEVEN, SMALL);
    project.change_config(
        "[tasks]",
        "[prices]\ncurrency = \"EUR\"\nsampled = 2.0\nprefilled = 0.5\ntrained = 4.0\n\n[tasks]",
    );
    let summary = project.train("runs/one", &[]).pop().unwrap();
    project.change_config("learning_rate = 1e-3", "learning_rate = 2e-3");
    project.train("runs/two", &["--max-steps", "3"]);
    let listed = ran(&project, &["runs", "--json"]).json_lines();
    let names: Vec<&Value> = listed.iter().map(|run| &run["run_id"]).collect();
    assert_eq!(names, ["one", "two"]);
    let one = &listed[0];
    assert_eq!((&one["state"], &one["objective"], &one["updates"]), (&json!("ended"), &json!("grpo"), &json!(5)));
    assert_eq!(one["last"]["value"], summary["held_out_reward_after"]);
    assert_eq!(one["first"]["value"], summary["held_out_reward_before"]);

    // Every token is that of the run's own account, and the cost is theirs.
    let tokens = &one["tokens"];
    assert_eq!((&tokens["sampled"], &tokens["trained"]), (&summary["sampled_tokens"], &summary["trained_tokens"]));
    let number = |key: &str| tokens[key].as_u64().unwrap();
    assert_eq!(number("trained") + number("evaluation") + number("thrown_away"), number("sampled"));
    let prompts: u64 = project
        .query("spans", "runs/one")
        .iter()
        .filter_map(|span| span["attributes"]["gen_ai.usage.input_tokens"].as_u64())
        .sum();
    assert_eq!((number("prompts"), number("prefilled")), (prompts, prompts), "each rollout calls once");
    let expected = (2.0 * number("sampled") as f64 + 0.5 * prompts as f64 + 4.0 * number("trained") as f64) / 1e6;
    assert!((one["cost"]["total"].as_f64().unwrap() - expected).abs() < 1e-12);
    let rollouts = project.query("rollouts", "runs/one").len() as f64;
    assert!((one["cost"]["per_rollout"].as_f64().unwrap() - expected / rollouts).abs() < 1e-12);

    let shown = ran(&project, &["runs", "show", "one"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    for line in ["state                 ended", "updates               5"] {
        assert!(shown.stdout.lines().any(|shown| shown == line), "{line}: {}", shown.stdout);
    }
    assert!(shown.stdout.contains(" EUR\n"), "{}", shown.stdout);
    let compared = ran(&project, &["runs", "compare", "one", "two", "--json"]).json_lines();
    let keys = &compared[0]["differing_keys"];
    assert_eq!(keys["trainer.learning_rate"], json!(["0.001", "0.002"]));
    assert_eq!(keys["trainer.max_steps"], json!(["5", "3"]));
    let table = ran(&project, &["runs"]).stdout;
    assert_eq!(table.lines().count(), 3, "{table}");

    // A run that was cut short is stopped; one that cannot be read hides no other.
    project.sql("runs/one", "SELECT 1");
    std::fs::remove_file(project.path("runs/two/fulgurite.db")).unwrap();
    let rest = ran(&project, &["runs", "--json"]);
    assert!(rest.stderr.starts_with("warning: runs/two: cannot open the store"), "{}", rest.stderr);
    assert_eq!(rest.json_lines().len(), 1);
    let nothing = ran(&project, &["runs", "show", "three"]).failure(project.directory.path());
    insta::assert_snapshot!(nothing, @"error: three is the directory of no run, and there is none of that name in runs/");
}

#[test]
fn runs_on_data_tell_their_trained_tokens_and_their_accuracy() {
    let row = |n: usize| json!({ "prompt": format!("Say {n}."), "chosen": format!("I am {n}."), "rejected": "No." });
    let config = "[run]\nname = \"t\"\nseed = 1\n\n[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n\n\
                  [trainer]\nobjective = \"dpo\"\nsource = { comparisons = \"rows.jsonl\", validation = 0.2 }\n\
                  batch_size = 4\nlearning_rate = 1e-2\n";
    let rows: String = (0..10).map(|n| format!("{}\n", row(n))).collect();
    let project = DataProject::new(config, "rows.jsonl", &rows);
    let runs = |arguments: &[&str]| -> Ran {
        fulgurite(["runs"]).args(arguments).current_dir(project.directory.path()).output().unwrap().into()
    };
    let check = |name: &str| {
        let (steps, _) = project.train(&format!("runs/{name}"), &[]);
        let shown = runs(&["show", name, "--json"]).json_lines().remove(0);
        assert_eq!(shown["measure"], "accuracy");
        assert_eq!(shown["last"]["value"].as_f64(), numbers(&steps, "test/accuracy").last().copied());
        let trained: f64 = numbers(&steps, "num_loss_tokens").iter().sum();
        assert!(trained > 0.0 && shown["tokens"]["trained"].as_f64() == Some(trained), "{shown}");
    };
    check("dpo");
    project.change("dpo", "sft");
    project.change("comparisons", "conversations");
    let chat = |n: usize| {
        let message_of = |role: &str, text: String| json!({ "role": role, "content": text });
        json!({ "messages": [message_of("user", format!("Say {n}.")), message_of("assistant", format!("I am {n}."))] })
    };
    project.write("rows.jsonl", (0..10).map(|n| format!("{}\n", chat(n))).collect::<String>());
    check("sft");

    // A start that fails is no run that was cut short, and its error is told until it goes on.
    let model = std::fs::read(project.path("model/model.safetensors")).unwrap();
    project.write("model/model.safetensors", &model[..64]);
    let torn = project.refused("runs/torn");
    let shown = runs(&["show", "torn", "--json"]).json_lines().remove(0);
    assert_eq!((&shown["state"], &shown["updates"]), (&json!("failed"), &json!(0)));
    let failure = shown["failure"].as_str().unwrap();
    let cause = "model.safetensors is not what was saved";
    assert!(failure.contains(cause) && torn.contains(cause), "{failure}: {torn}");
    let table = runs(&[]).stdout;
    assert!(table.contains("failed") && !table.contains("stopped") && !table.contains("-0.0"), "{table}");
    project.write("model/model.safetensors", &model);
    project.train("runs/torn", &["--resume"]);
    let shown = runs(&["show", "torn", "--json"]).json_lines().remove(0);
    assert_eq!((&shown["state"], &shown["failure"]), (&json!("ended"), &Value::Null));
}

#[test]
fn a_run_that_cannot_learn_is_diagnosed_and_ends() {
    let grade = r#"grade = ["python3", "-c", "print('{\"reward\": 0}')"]"#;
    let runner = format!("command = [\"hello-agent\", \"{{task}}\"]\n{grade}\n");
    let project = Project::new(&runner, &format!("{SMALL}stop_without_gradient = 2\n"));
    let failed = Ran::from(project.command("runs/stuck").output().unwrap());
    assert_eq!(failed.code, Some(1));
    insta::assert_snapshot!(failed.stderr, @"error: 2 updates in a row had nothing to learn from, and [trainer] stop_without_gradient is 2: `fulgurite doctor RUN` tells why; --resume goes on, with a greater number or 0, which never stops");
    assert_eq!(project.sql("runs/stuck", "SELECT COUNT(*) AS steps FROM steps"), [json!({ "steps": 2 })]);

    let found = ran(&project, &["doctor", "stuck", "--json"]).json_lines();
    assert_eq!((&found[0]["name"], &found[0]["severity"]), (&json!("constant_groups"), &json!("error")));
    assert_eq!(found[0]["answers"].as_array().unwrap().len(), 3);
    assert_eq!(found[0]["numbers"]["without_gradient"], 2);
    let ran_command = ran(&project, &["doctor", "runs/stuck"]);
    assert_eq!(ran_command.code, Some(0), "{}", ran_command.stderr);
    assert!(
        ran_command.stdout.starts_with("error constant_groups: 100 % of groups earned the same bad reward"),
        "{}",
        ran_command.stdout
    );

    let store = format!("sqlite://{}", project.path("runs/stuck/fulgurite.db").display());
    let server = Server::start_on::<&str>(&store, project.directory.path(), []);
    assert_eq!(server.get("/v1/fulgurite/runs/stuck/findings").expect(200), json!(found));
    assert_eq!(server.get("/v1/fulgurite/runs/no/findings").expect(404)["detail"], "run not found: no");

    // 0 never stops.
    project.change_config("stop_without_gradient = 2", "stop_without_gradient = 0");
    assert_eq!(project.train("runs/patient", &[]).pop().unwrap()["steps"], 5);
}

#[test]
fn a_dry_run_says_what_a_run_would_take_and_keeps_nothing_of_it() {
    let project = Project::new(UNEVEN, SMALL);
    let config = std::fs::read_to_string(project.path("t.toml")).unwrap();
    let prices = "[prices]\ncurrency = \"USD\"\nsampled = 1.0\nprefilled = 1.0\ntrained = 1.0\n";
    std::fs::write(project.path("t.toml"), format!("{config}\n{prices}")).unwrap();
    let estimate = ran(&project, &["train", "t.toml", "--dry-run", "--json"]).json_lines().pop().unwrap();
    // 5 updates of 9; 2 held-out tasks scored 4 times and 2 final ones, each twice.
    assert_eq!((&estimate["rollouts"], &estimate["planned"]["updates"]), (&json!(45 + 20), &json!(5)));
    assert_eq!(estimate["measured"]["rollouts"], 3);
    let group = estimate["group"].as_array().unwrap();
    assert_eq!(group.len(), 3);
    assert!(group.iter().all(|rollout| rollout["reward"].is_number() && rollout["calls"].is_number()), "{estimate}");
    assert!(
        group.iter().any(|rollout| rollout["answer"].as_str().is_some_and(|answer| !answer.is_empty())),
        "{estimate}"
    );
    let tokens = |key: &str| estimate["tokens"][key].as_u64().unwrap();
    assert!(tokens("trained") >= 45 && tokens("sampled") == tokens("trained") + tokens("evaluation"), "{estimate}");
    let cost = (tokens("sampled") + tokens("prefilled") + tokens("trained")) as f64 / 1e6;
    assert!((estimate["cost"]["total"].as_f64().unwrap() - cost).abs() < 1e-12, "{estimate}");
    assert!(!project.path("runs").exists());
    let ran_command = ran(&project, &["train", "t.toml", "--dry-run"]);
    for part in [
        "run               5 updates, 9 rollouts each, and 20 that are scored alone",
        "sampled tokens",
        "USD",
        "measured",
        ": 3 earned ",
    ] {
        assert!(ran_command.stdout.contains(part), "{part}: {ran_command:?}");
    }
    let trained = project.train("real", &[]).pop().unwrap();
    let real = trained["sampled_tokens"].as_u64().unwrap();
    assert!(tokens("sampled") > real / 4 && tokens("sampled") < real * 4, "{real}: {estimate}");
}

#[test]
fn a_report_stands_alone_and_what_an_agent_says_is_text() {
    let scripted = CALL.replace("Say 7", "<script>alert(1)</script>");
    let project = Project::new(&format!("command = {}\n{UNEVEN_GRADE}\n", json!(["python3", "-c", scripted])), SMALL);
    project.train("runs/one", &["--max-steps", "2"]);
    project.train("runs/two", &["--max-steps", "1", "--seed", "1"]);
    let written = ran(&project, &["report", "one", "runs/two", "-o", "report.html"]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(project.path("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(
        (page.matches("<script").count(), page.matches("</script").count()),
        (2, 2),
        "the page's own and its data"
    );
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
    let (document, data) = parts_of_report(&page);
    for foreign in [" src=", " href=", "url(", "@import"] {
        assert!(!document.contains(foreign), "{foreign}");
    }
    for run in ["one", "two"] {
        let summary = &data["summaries"][run];
        assert!(summary["best"].to_string().contains("<script>alert(1)</script>"), "{summary}");
        assert!(summary["worst"].is_array() && summary["facts"][0] == json!(["run", run]), "{summary}");
        let of_run = |part: &str| &data["answers"][format!("/v1/fulgurite/runs/{run}{part}")];
        assert!(of_run("/ledger").to_string().contains("constant_group"), "{}", of_run("/ledger"));
        assert_eq!(of_run("")["config"]["trainer"]["group_size"], 3);
        assert!(of_run("/steps")[0]["metrics"]["test/env/all/reward/total"].is_number());
        assert!(of_run("/findings").is_array());
    }
    let changed = data["answers"]["/v1/fulgurite/runs/one/changed"][0]["answers"].as_array().unwrap();
    let steps: Vec<_> = changed.iter().map(|answer| &answer["step"]).collect();
    assert!(steps.first() == Some(&&json!(0)) && steps.last() == Some(&&json!(2)), "{changed:?}");
    assert_eq!(data["answers"]["/ui/data/runs"].as_array().unwrap().len(), 2);
}
