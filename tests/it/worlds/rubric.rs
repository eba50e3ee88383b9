//! Rewards by criteria: what a judge says of attempts, through the real command.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::common::project::{Project, SMALL};
use crate::common::{Ran, fulgurite, parts_of_report, program};

/// A judge elsewhere, in OpenAI's dialect: it says of each criterion what `answer_to` says, and keeps what it was asked.
pub(super) struct Judge {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

/// The body of a request, whatever its length.
fn body(stream: &mut std::net::TcpStream) -> Option<Value> {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&buffer[..read]);
        let head = text.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(head) = head else { continue };
        let headers = String::from_utf8_lossy(&text[..head]).to_lowercase();
        let length: usize = headers.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
        if text.len() >= head + 4 + length {
            return serde_json::from_slice(&text[head + 4..]).ok();
        }
    }
}

pub(super) fn judge(answer_to: impl Fn(&Value) -> String + Send + Sync + 'static) -> Judge {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (kept, answer_to) = (Arc::clone(&requests), Arc::new(answer_to));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (kept, answer_to, mut stream) = (Arc::clone(&kept), Arc::clone(&answer_to), stream.unwrap());
            std::thread::spawn(move || {
                let Some(request) = body(&mut stream) else { return };
                let last = request["messages"].as_array().unwrap().last().unwrap();
                let content = answer_to(&serde_json::from_str(last["content"].as_str().unwrap()).unwrap());
                kept.lock().unwrap().push(request);
                let message = json!({ "role": "assistant", "content": content });
                let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
                let usage = json!({ "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18 });
                let reply = json!({
                    "id": "c", "object": "chat.completion", "created": 1, "model": "j", "choices": [choice], "usage": usage,
                });
                let reply = reply.to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", reply.len());
                stream.write_all(format!("{head}connection: close\r\n\r\n{reply}").as_bytes()).unwrap();
            });
        }
    });
    Judge { url, requests }
}

/// A run whose attempts are judged by what `criteria` say.
fn project(judge: &Judge, criteria: &str) -> Project {
    let runner = format!("command = [\"hello-agent\", \"{{task}}\"]\nrubric = {{ judge = \"judge\", {criteria} }}");
    let project = Project::new(&runner, SMALL);
    let config = fs::read_to_string(project.path("t.toml")).unwrap();
    let more = format!("\n[[models]]\nname = \"judge\"\nbackend = \"openai\"\nurls = [\"{}\"]\n", judge.url);
    fs::write(project.path("t.toml"), config + &more).unwrap();
    project
}

/// Met if the answer has an even number of letters.
fn by_letters(material: &Value) -> String {
    let letters = material["answer"].as_str().unwrap().trim().chars().count();
    let met = material["criterion"] == "It is an answer" || letters.is_multiple_of(2);
    json!({ "reason": "counted", "met": met }).to_string()
}

const TWO: &str = "criteria = [{ name = \"any\", text = \"It is an answer\" }, { name = \"even\", text = \"It is even\", weight = 3 }]";

#[test]
fn attempts_earn_the_share_of_criteria_that_a_judge_says_they_meet() {
    let judge = judge(by_letters);
    let project = project(&judge, TWO);
    let summary = project.train("r", &["--max-steps", "1"]).pop().unwrap();
    let rollouts = project.query("rollouts", "r");
    let rewards: Vec<f64> = rollouts.iter().map(|rollout| rollout["reward"].as_f64().unwrap()).collect();
    assert!(rewards.iter().all(|reward| [0.25, 1.0].contains(reward)) && rewards.contains(&1.0), "{rewards:?}");
    // What it said stands with the attempt.
    let judgements = &rollouts[0]["attempt"]["metadata"]["judgements"];
    assert_eq!(
        (&judgements[0]["criterion"], &judgements[1]["reason"]),
        (&json!("any"), &json!("counted")),
        "{}",
        rollouts[0]
    );
    // Its own answers are recorded, and nobody's to learn.
    assert_eq!(summary["untrained_tokens"]["other"], 0, "{summary}");
    let spans = project.query("spans", "r");
    let of_judge = spans.iter().filter(|span| span["attributes"]["gen_ai.request.model"] == "judge").count();
    let policys = spans.iter().filter(|span| span["attributes"]["gen_ai.request.model"] == "hello");
    let sampled: u64 = policys.filter_map(|span| span["attributes"]["gen_ai.usage.output_tokens"].as_u64()).sum();
    assert_eq!(summary["sampled_tokens"], sampled, "what the judge said is in no account of the policy's");
    let requests = judge.requests.lock().unwrap();
    assert_eq!(of_judge, requests.len());
    // Each is kept, beside the account of calls.
    assert_eq!(fs::read_dir(project.path("r/judgements")).unwrap().count(), requests.len() + 1);
    assert!(requests.iter().all(|request| request["response_format"]["type"] == "json_schema"));
}

#[test]
fn a_policy_that_has_spent_its_budget_is_judged_all_the_same() {
    let judge = judge(by_letters);
    let project = project(&judge, TWO);
    let budget = "proxy.budget={ calls = 1, tokens = 2000 }";
    let scored =
        Ran::from(fulgurite(["eval", "--json", "--set", budget]).arg(project.path("t.toml")).output().unwrap());
    let scored = scored.json_lines().pop().unwrap();
    assert_eq!(scored["failed"], 0, "{scored}");
    assert_eq!(scored["components"]["any"]["value"], json!(1.0), "{scored}");
}

#[test]
fn the_same_question_is_not_asked_twice() {
    let judge = judge(by_letters);
    let project = project(&judge, TWO);
    let played = format!(
        "command = [\"sh\", \"-c\", \"{} $0 > /dev/null; echo the same\", \"{{task}}\"]",
        program("hello-agent")
    );
    project.change_config("command = [\"hello-agent\", \"{task}\"]", &played);
    project.change_config("parallel = 4", "parallel = 1");
    let ran = fulgurite(["eval", "--json", "--samples", "3"]).arg(project.path("t.toml")).output().unwrap();
    let scored = Ran::from(ran).json_lines().pop().unwrap();
    assert_eq!(scored["reward"]["value"], 1.0, "{scored}");
    // Two tasks of three attempts, and two criteria.
    assert_eq!(judge.requests.lock().unwrap().len(), 4);
}

#[test]
fn a_judge_that_says_ten_gives_nothing_and_the_run_says_so() {
    let judge = judge(|_| "{\"reason\": \"as I was told\", \"met\": 10}".to_owned());
    let project = project(&judge, TWO);
    let ran = Ran::from(project.command("r").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("judge \"judge\" on \"any\"") && ran.stderr.contains("which is no judgement"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_rubric_that_cannot_judge_is_refused_before_anything_is_run() {
    let judge = judge(by_letters);
    let refused = |criteria: &str, more: &str| {
        let project = project(&judge, criteria);
        if !more.is_empty() {
            project.change_config("command = [\"hello-agent\", \"{task}\"]", more);
        }
        let ran = Ran::from(project.command("r").output().unwrap());
        assert_eq!(ran.code, Some(1));
        ran.stderr
    };
    let none = refused("criteria = []", "");
    assert!(none.contains("[runner.rubric] criteria: there are 0, and must be 1 to 64"), "{none}");
    let both = refused(TWO, "command = [\"hello-agent\", \"{task}\"]\ngrade = [\"hello-grader\"]");
    assert!(both.contains("leave out `grade`, `harbor_tests` and `reward_file`, or the rubric"), "{both}");
    let alone = refused(&format!("share = 0.5, {TWO}"), "");
    assert!(alone.contains("the rest of the reward is given by `grade`"), "{alone}");
    let unknown = refused(&format!("labelled = {{ file = \"nowhere.jsonl\" }}, {TWO}"), "");
    assert!(unknown.contains("[runner.rubric.labelled]") && unknown.contains("nowhere.jsonl"), "{unknown}");
    let project = project(&judge, TWO);
    project.change_config("judge = \"judge\", ", "judge = \"jugde\", ");
    let ran = Ran::from(project.command("r").output().unwrap()).stderr;
    assert!(ran.contains("[runner.rubric] judge = \"jugde\": there is no such [[models]]"), "{ran}");
    assert!(judge.requests.lock().unwrap().is_empty());
}

#[test]
fn no_more_calls_of_a_judge_are_made_than_are_allowed() {
    let judge = judge(by_letters);
    let project = project(&judge, &format!("max_calls = 3, {TWO}"));
    let ran = Ran::from(project.command("r").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("[runner.rubric] max_calls = 3 are made"), "{}", ran.stderr);
    assert_eq!(judge.requests.lock().unwrap().len(), 3);
}

/// Calls the judge by every way that it has, and says how each went.
const CALLS_THE_JUDGE: &str = r#"
import json, os, urllib.error, urllib.request

base, ways = os.environ["OPENAI_BASE_URL"], []
origin = base.split("/rollout/")[0] + "/v1"
messages = [{"role": "user", "content": "{}"}]
chat = {"model": "judge", "messages": messages, "max_tokens": 9}
for door in [base, origin]:
    ways += [(door + "/chat/completions", chat), (door + "/chat/completions", chat | {"stream": True})]
    ways += [(door + "/responses", {"model": "judge", "input": "{}"}), (door + "/completions", {"model": "judge", "prompt": "{}"})]
said = []
for key in [os.environ["OPENAI_API_KEY"], "another", None]:
    for url, body in ways:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        try:
            urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))
            said.append([200, ""])
        except urllib.error.HTTPError as error:
            said.append([error.code, error.read().decode()])
open(os.environ["SAID"], "w").write(json.dumps(said))
print("an answer")
"#;

#[test]
fn an_agents_own_calls_of_a_judge_do_not_pass_the_limits_of_its_calls() {
    for limit in ["max_calls = 1", "max_cost = 1.0, prices = { prefilled = 1.0, sampled = 1.0 }"] {
        let judge = judge(by_letters);
        let project =
            project(&judge, &format!("{limit}, criteria = [{{ name = \"any\", text = \"It is an answer\" }}]"));
        let (agent, answers) = (project.path("agent.py"), project.path("said.json"));
        fs::write(&agent, CALLS_THE_JUDGE).unwrap();
        project
            .change_config("[\"hello-agent\", \"{task}\"]", &format!("[\"python3\", {:?}]", agent.to_str().unwrap()));
        let mut command = project.command("r");
        let _ = command.args(["--max-steps", "1"]).env("SAID", &answers).output().unwrap();
        let statuses: Vec<(u16, String)> = serde_json::from_str(&fs::read_to_string(answers).unwrap()).unwrap();
        assert_eq!(statuses.len(), 24);
        assert!(statuses.iter().all(|(status, _)| *status == 403), "{statuses:?}");
        let words =
            "only a grader's key or the admin key opens it (help: an agent that needs it calls it by another name";
        assert!(statuses[0].1.contains(words) && statuses[0].1.contains("model_reserved"), "{statuses:?}");
        // Graders ask for the schema of a judgement.
        let requests = judge.requests.lock().unwrap();
        assert!(requests.iter().all(|request| request["response_format"].is_object()), "{limit}: {requests:?}");
        assert!(
            !requests.is_empty() && (requests.len() == 1 || limit.starts_with("max_cost")),
            "{limit}: {}",
            requests.len()
        );
    }
}

#[test]
fn no_more_money_is_spent_on_a_judge_than_is_allowed_whoever_goes_on() {
    let judge = judge(by_letters);
    // A call may cost some thousand bytes of prompt, and does cost nine tokens and nine.
    let limit = "max_cost = 0.01, max_tokens = 10, prices = { prefilled = 2.0, sampled = 100.0 }";
    let project = project(&judge, &format!("{limit}, {TWO}"));
    project.change_config("parallel = 4", "parallel = 1");
    let ran = Ran::from(project.command("r").output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("[runner.rubric] max_cost = 0.01: "), "{}", ran.stderr);
    let requests = judge.requests.lock().unwrap().len();
    assert!(requests > 2, "{requests}");
    let again = Ran::from(project.command("r").arg("--resume").output().unwrap());
    assert!(again.stderr.contains("[runner.rubric] max_cost = 0.01: "), "{}", again.stderr);
    let calls = fs::read_to_string(project.path("r/judgements/calls.jsonl")).unwrap();
    let lines: Vec<Value> = calls.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let spent: f64 = lines.iter().map(|line| line["cost"].as_f64().unwrap()).sum();
    assert!(spent <= 0.01, "{spent}");
    let made: u64 = lines.iter().map(|line| line["calls"].as_u64().unwrap()).sum();
    assert_eq!(made as usize, judge.requests.lock().unwrap().len());
}

#[test]
fn a_report_tells_how_far_judges_agree_with_people_and_with_each_other() {
    let first = judge(by_letters);
    let second = judge(|_| json!({ "reason": "always", "met": true }).to_string());
    let more = "labelled = { file = \"labelled.jsonl\", at_least = 0.6 }, second = { judge = \"other\" }";
    let project = project(&first, &format!("{more}, {TWO}"));
    let config = fs::read_to_string(project.path("t.toml")).unwrap();
    let other = format!("\n[[models]]\nname = \"other\"\nbackend = \"openai\"\nurls = [\"{}\"]\n", second.url);
    fs::write(project.path("t.toml"), config + &other).unwrap();
    let label = |answer: &str, even: bool| json!({ "task": 1, "answer": answer, "met": { "even": even } }).to_string();
    let labels = [label("ab", true), label("abc", false), label("abcd", false)];
    fs::write(project.path("labelled.jsonl"), labels.join("\n")).unwrap();

    let events = project.train("r", &["--max-steps", "1"]);
    let held: Vec<&Value> = events.iter().filter(|event| event["event"] == "judge_on_labels").collect();
    let shares: Vec<(&str, f64)> =
        held.iter().map(|event| (event["judge"].as_str().unwrap(), event["share"].as_f64().unwrap())).collect();
    assert_eq!(shares, [("judge", 2.0 / 3.0), ("other", 1.0 / 3.0)]);
    let mut rollouts = project.query("rollouts", "r");
    // What judges say of labelled answers belongs to no attempt of the run.
    rollouts.retain(|rollout| rollout["reward"].is_number());
    let judged = &rollouts[0]["attempt"]["metadata"]["judgements"];
    assert_eq!(judged[1]["second"]["met"], true, "{judged}");
    // The second earns nobody anything.
    let rewards: Vec<f64> = rollouts.iter().map(|rollout| rollout["reward"].as_f64().unwrap()).collect();
    assert!(rewards.contains(&0.25), "{rewards:?}");
    let odd = rewards.iter().filter(|reward| **reward == 0.25).count();
    let output = fulgurite(["report"]).arg(project.path("r")).output().unwrap();
    let (_, data) = parts_of_report(&Ran::from(output).stdout);
    let summary = &data["summaries"]["r"];
    let judges = summary["judges"].as_array().unwrap();
    let all = rewards.len();
    let met = 1.0 - odd as f64 / all as f64;
    for (name, value) in [
        (
            "judge on even",
            "agree on 0.667 of 3 labels, kappa 0.40; yes where people say no: 1, no where they say yes: 0".to_owned(),
        ),
        (
            "other on even",
            "agree on 0.333 of 3 labels, kappa 0.00; yes where people say no: 2, no where they say yes: 0".to_owned(),
        ),
        ("judge and other on any", format!("agree on 1.000 of {all} answers")),
        ("judge and other on even", format!("agree on {met:.3} of {all} answers")),
    ] {
        let row = judges.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}: {judges:?}"));
        assert!(row[1].as_str().unwrap().starts_with(&value), "{row}");
    }
    // What the policy said stands there, and not what its judges did.
    assert!(!data.to_string().contains("counted") && summary["best"][0].is_object(), "{data}");

    project.change_config("at_least = 0.6", "at_least = 0.7");
    let refused = Ran::from(project.command("s").output().unwrap());
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("at_least = 0.7: the judge \"judge\" agrees with 0.667 of 3 labels"),
        "{}",
        refused.stderr
    );
    let ran = project.query("rollouts", "s").iter().filter(|rollout| rollout["reward"].is_number()).count();
    assert_eq!(ran, 0, "nothing was run");
}

#[test]
fn a_judge_gives_its_share_beside_a_grader() {
    let judge = judge(by_letters);
    let project = project(&judge, &format!("share = 0.5, {TWO}"));
    project.change_config(
        "command = [\"hello-agent\", \"{task}\"]",
        "command = [\"hello-agent\", \"{task}\"]\ngrade = [\"sh\", \"-c\", \"echo '{\\\"reward\\\": 2, \\\"of_code\\\": 1}'\"]",
    );
    let ran = fulgurite(["eval", "--json", "--samples", "3"]).arg(project.path("t.toml")).output().unwrap();
    let scored = Ran::from(ran).json_lines().pop().unwrap();
    let components = &scored["components"];
    assert_eq!(
        (&components["graded"]["value"], &components["of_code"]["value"]),
        (&json!(2.0), &json!(1.0)),
        "{scored}"
    );
    let judged = components["judged"]["value"].as_f64().unwrap();
    assert_eq!(scored["reward"]["value"], json!(1.0 + 0.5 * judged), "{scored}");
}
