//! Skills: installed where agents look, and every command in them runs.

use std::fs;
use std::process::Command;

use regex::Regex;
use serde_json::json;

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

fn install(project: &Project, arguments: &[&str]) -> Ran {
    fulgurite(["skills", "install"]).args(arguments).current_dir(project.directory.path()).output().unwrap().into()
}

/// The commands of a skill, in their order.
fn commands(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("    fulgurite ")).map(str::to_owned).collect()
}

/// What stands in a skill for something of its reader's, and what that is in the tests' project.
fn filled_in(command: &str, project: &Project) -> String {
    let rollout = || {
        let rollouts = project.query("rollouts", "run");
        rollouts.last().map_or(String::new(), |rollout| rollout["rollout_id"].as_str().unwrap().to_owned())
    };
    let word = Regex::new("[A-Z_]{3,}").unwrap();
    let value_of = |name: &str| match name {
        "MODEL" => "model-1".to_owned(),
        "CONFIG" => "t.toml".to_owned(),
        "RUN" => "run".to_owned(),
        "CHATS" => "chats.jsonl".to_owned(),
        "SFT" => "sft.toml".to_owned(),
        "DPO" => "dpo.toml".to_owned(),
        "SFT_RUN" => "sft-run".to_owned(),
        "DPO_RUN" => "dpo-run".to_owned(),
        "SWEEP" => "sweep".to_owned(),
        "EXPORT" => "export".to_owned(),
        "PAGE" => "page.html".to_owned(),
        "METRICS" => "metrics".to_owned(),
        "QUESTION" => "Say you are 7.".to_owned(),
        "GRADER" => "sh grade.sh".to_owned(),
        "ROLLOUT" => rollout(),
        other => panic!("{other} of {command:?} stands for nothing"),
    };
    word.replace_all(command, |found: &regex::Captures<'_>| value_of(&found[0])).into_owned()
}

/// Runs a command of a skill as a shell does.
fn shell(command: &str, project: &Project) -> Ran {
    let program = env!("CARGO_BIN_EXE_fulgurite");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("'{program}' {command}")]).current_dir(project.directory.path());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FULGURITE_")) {
        shell.env_remove(name);
    }
    shell.output().unwrap().into()
}

fn project_with_data() -> Project {
    let project = Project::new(UNEVEN, SMALL);
    project.train("made", &["--max-steps", "1"]);
    fs::remove_dir_all(project.path("made")).unwrap();
    let chat = |n: u32| json!({ "messages": [{ "role": "user", "content": n.to_string() }, { "role": "assistant", "content": "yes" }] });
    let pair = |n: u32| json!({ "prompt": n.to_string(), "chosen": "no", "rejected": "yes" });
    let rows = |row: &dyn Fn(u32) -> serde_json::Value| (0..8).map(|n| format!("{}\n", row(n))).collect::<String>();
    fs::write(project.path("chats.jsonl"), rows(&chat)).unwrap();
    fs::write(project.path("pairs.jsonl"), rows(&pair)).unwrap();
    fs::write(project.path("grade.sh"), "cat > /dev/null; echo '{\"reward\": 1}'").unwrap();
    for (name, objective, source) in
        [("sft", "sft", "conversations = \"chats.jsonl\""), ("dpo", "dpo", "comparisons = \"pairs.jsonl\"")]
    {
        let config = format!(
            "[[models]]\nname = \"hello\"\nbackend = \"embedded\"\npath = \"model-1\"\n[trainer]\nobjective = \"{objective}\"\n\
             source = {{ {source} }}\nbatch_size = 4\nepochs = 1\nlearning_rate = 1e-3\n"
        );
        fs::write(project.path(&format!("{name}.toml")), config).unwrap();
    }
    project
}

#[test]
fn skills_are_put_where_agents_look_and_replace_nothing_of_others() {
    let project = project_with_data();
    let text = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    let both = install(&project, &[]);
    assert_eq!(
        both.stdout,
        ".claude/skills/fulgurite-research/SKILL.md\n.claude/skills/fulgurite-debugging/SKILL.md\n\
         .agents/skills/fulgurite-research/SKILL.md\n.agents/skills/fulgurite-debugging/SKILL.md\n"
    );
    let research = text(".claude/skills/fulgurite-research/SKILL.md");
    assert!(research.starts_with("---\nname: fulgurite-research\ndescription: "), "{research}");
    fs::write(project.path(".claude/skills/fulgurite-research/SKILL.md"), "---\nname: fulgurite-research\nold")
        .unwrap();
    assert_eq!(install(&project, &["--claude"]).code, Some(0));
    assert_eq!(text(".claude/skills/fulgurite-research/SKILL.md"), research);
    fs::create_dir_all(project.path("mine/fulgurite-research")).unwrap();
    fs::write(project.path("mine/fulgurite-research/SKILL.md"), "mine").unwrap();
    let refused = install(&project, &["mine"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("is no skill fulgurite-research: move it away"));
    assert_eq!(text("mine/fulgurite-research/SKILL.md"), "mine");
}

#[test]
fn every_command_of_a_skill_runs() {
    for skill in ["research", "debugging"] {
        let text =
            fs::read_to_string(format!("{}/mcp/src/skills/{skill}/SKILL.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let project = project_with_data();
        let commands = commands(&text);
        assert!(commands.len() >= 10, "{skill}");
        if skill == "debugging" {
            // It is about a run that is there.
            let ran =
                shell("train t.toml --max-steps 3 --run-directory run --set trainer.checkpoint_every=1", &project);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
        for command in &commands {
            let filled = filled_in(command, &project);
            let ran = shell(&filled, &project);
            assert_eq!(ran.code, Some(0), "{skill}: fulgurite {filled}: {}{}", ran.stdout, ran.stderr);
            assert!(
                !ran.stdout.is_empty() || project.path("page.html").exists(),
                "{skill}: fulgurite {filled} says nothing"
            );
        }
    }
}
