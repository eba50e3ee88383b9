//! Models that agents call beside the one that is trained.

use std::fs;

use serde_json::json;

use super::rubric::judge;
use crate::common::Ran;
use crate::common::project::{Project, SMALL};

/// Asks the policy for a word and another model what it is worth.
const AGENT: &str = r#"
import json, os, urllib.request

def ask(model, content):
    body = json.dumps({"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": content}]})
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    reply = json.load(urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)))
    return reply["choices"][0]["message"]["content"]

word = ask("hello", "Say 7")
print(json.dumps({"reward": float(ask("adviser", json.dumps(word)))}))
"#;

#[test]
fn an_agent_calls_a_model_that_is_not_trained_beside_the_one_that_is() {
    let adviser = judge(|word| word.as_str().unwrap().chars().count().to_string());
    let project = Project::new("command = [\"python3\", \"agent.py\"]", SMALL);
    fs::write(project.path("agent.py"), AGENT).unwrap();
    let config = fs::read_to_string(project.path("t.toml")).unwrap();
    let more = format!("\n[[models]]\nname = \"adviser\"\nbackend = \"openai\"\nurls = [\"{}\"]\n", adviser.url);
    fs::write(project.path("t.toml"), format!("{config}{more}")).unwrap();
    let two = Ran::from(project.command("r").output().unwrap());
    assert!(two.stderr.contains("training needs exactly one [[models]], and there are 2; those with trained = false"));

    fs::write(project.path("t.toml"), format!("{config}{more}trained = false\n")).unwrap();
    let summary = project.train("r", &["--max-steps", "1"]).pop().unwrap();
    let spans = project.query("spans", "r");
    let sampled_by = |model: &str| -> u64 {
        let of_model = spans.iter().filter(|span| span["attributes"]["gen_ai.request.model"] == model);
        of_model.filter_map(|span| span["attributes"]["gen_ai.usage.output_tokens"].as_u64()).sum()
    };
    assert_eq!(summary["sampled_tokens"], sampled_by("hello"));
    assert!(sampled_by("adviser") > 0 && summary["trained_tokens"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["untrained_tokens"]["other"], json!(0), "{summary}");
    let none = config.replace("name = \"hello\"", "name = \"hello\"\ntrained = false");
    fs::write(project.path("t.toml"), none).unwrap();
    let nothing = Ran::from(project.command("s").output().unwrap());
    assert!(nothing.stderr.contains("[[models]] hello: judges, and models with trained = false"), "{}", nothing.stderr);
}
