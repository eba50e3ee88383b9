//! `fulgurite template` as people and scripts run them.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("renderers/tests/vectors")
}

fn tokenizer(name: &str) -> String {
    vectors().join(format!("tokenizers/{name}/tokenizer.json")).display().to_string()
}

fn vector(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(vectors().join(format!("cookbook/{name}.json"))).unwrap()).unwrap()
}

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fulgurite"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output
}

/// The lines that a command prints for some rows; there must be one for each.
fn answers(arguments: &[&str], rows: &[Value]) -> Vec<Value> {
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let output = run(arguments, input.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), rows.len());
    lines
}

/// The rows of the vectors, in their own form: bare tools, the system prompt apart, content in parts.
#[test]
fn rendering_with_cookbook_exact_is_the_cookbook() {
    let conversations = vector("conversations");
    for (file, name) in [("qwen3_5", "qwen3"), ("kimi_k25", "kimi"), ("role_colon__llama3", "llama3")] {
        let expected = vector(file);
        let renderer = expected["renderer"].as_str().unwrap();
        let (cases, rows): (Vec<_>, Vec<_>) = expected["generation_prompt"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(case, expected)| (expected, conversations[case].clone()))
            .unzip();
        let tokenizer = tokenizer(name);
        let arguments = ["template", "render", "--renderer", renderer, "--tokenizer", &tokenizer, "--cookbook-exact"];
        for (row, (expected, answer)) in rows.iter().zip(cases.iter().zip(answers(&arguments, &rows))) {
            assert_eq!(answer.get("error").is_some(), expected.get("error").is_some(), "{file}: {row} {answer}");
            assert_eq!(answer.get("tokens"), expected.get("ids"), "{file}: {row}");
            assert_eq!(answer.get("text"), expected.get("decoded"), "{file}: {row}");
            if answer.get("error").is_none() {
                assert_eq!(answer["stop"], expected_stop(&vector(file)));
            }
        }
    }
}

fn expected_stop(vector: &Value) -> Value {
    vector["stop_sequences"].clone()
}

#[test]
fn supervised_rows_have_segments() {
    let messages = vector("conversations")["multi_turn_plain"]["messages"].clone();
    let messages: Vec<Value> = messages.as_array().unwrap()[..4].to_vec();
    let tokenizer = tokenizer("qwen3");
    let arguments = ["template", "render", "--renderer", "qwen3", "--tokenizer", &tokenizer, "--cookbook-exact"];
    let modes = ["last_assistant_message", "all_assistant_messages", "all_tokens", "every_second"];
    let rows = modes.map(|mode| json!({"messages": messages, "train_on": mode}));
    let answers = answers(&arguments, &rows);
    for (mode, answer) in modes.iter().zip(&answers).take(2) {
        let expected = &vector("qwen3")["supervised_examples"][format!("multi_turn_plain:{mode}")];
        let segments: Vec<&Value> =
            answer["examples"].as_array().unwrap().iter().map(|example| &example["segments"]).collect();
        let expected: Vec<&Value> = expected.as_array().unwrap().iter().map(|example| &example["segments"]).collect();
        assert_eq!(segments, expected, "{mode}");
        assert_eq!(answer["segments"], *expected[expected.len() - 1]);
    }
    assert!(answers[2]["error"].as_str().unwrap().contains("qwen3"), "{}", answers[2]);
    assert!(answers[3]["error"].as_str().unwrap().contains("there is no `every_second`"), "{}", answers[3]);
}

#[test]
fn a_bad_row_is_answered_in_its_place_and_the_rest_goes_on() {
    let tokenizer = tokenizer("qwen3");
    let arguments = ["template", "render", "--renderer", "qwen3", "--tokenizer", &tokenizer];
    let good = json!({"messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let rows = format!("{good}\n{{\"messages\": 3}}\n\n\u{fffd}{{\n{good}");
    let mut bytes = rows.into_bytes();
    bytes.extend(b"\n\xff\xfe\n");
    let output = run(&arguments, &bytes);
    assert!(output.status.success());
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_error: Vec<bool> = lines.iter().map(|line| line.get("error").is_some()).collect();
    assert_eq!(is_error, [false, true, true, true, false, true], "{lines:?}");
    assert_eq!(lines[0], lines[4]);
}

#[test]
fn integers_of_any_length_keep_their_digits_in_what_is_rendered() {
    let tokenizer = tokenizer("qwen3");
    let long = "123456789012345678901234567890";
    let row = format!(
        r#"{{"messages": [{{"role": "user", "content": "Hi"}}], "tools": [{{"type": "function", "function":
            {{"name": "f", "parameters": {{"properties": {{"n": {{"maximum": {long}}}}}}}}}}}]}}"#
    );
    let row = row.replace('\n', " ") + "\n";
    let output = run(&["template", "render", "--renderer", "qwen3", "--tokenizer", &tokenizer], row.as_bytes());
    let rendered: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rendered["text"].as_str().unwrap().contains(long), "{rendered}");
}

#[test]
fn parsing_with_cookbook_exact_is_the_cookbook() {
    for (file, name) in
        [("qwen3_5", "qwen3"), ("deepseekv3_thinking", "deepseek"), ("gpt_oss_low_reasoning", "gpt_oss")]
    {
        let expected = vector(file);
        let cases = expected["parse_response"].as_array().unwrap();
        let rows: Vec<Value> = cases.iter().map(|case| json!({"tokens": case["ids"]})).collect();
        let tokenizer = tokenizer(name);
        let renderer = expected["renderer"].as_str().unwrap();
        let arguments = ["template", "parse", "--renderer", renderer, "--tokenizer", &tokenizer, "--cookbook-exact"];
        for (case, answer) in cases.iter().zip(answers(&arguments, &rows)) {
            match case["result"].get("error") {
                Some(_) => assert!(answer["error"].is_string(), "{file}: {case} {answer}"),
                None => assert_eq!(answer, case["result"], "{file}: {}", case["text"]),
            }
        }
    }
}

#[test]
fn what_cannot_be_opened_is_named() {
    let failure = |arguments: &[&str]| {
        let output = run(arguments, b"");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let tokenizer = tokenizer("qwen3");
    let error = failure(&["template", "render", "--renderer", "qwen9", "--tokenizer", &tokenizer]);
    assert!(error.contains("--renderer qwen9") && error.contains("qwen3_5"), "{error}");
    let error = failure(&["template", "parse", "--model", "/nowhere"]);
    assert!(error.contains("there is no model at /nowhere"), "{error}");
    let error = failure(&["template", "render"]);
    assert!(error.contains("--model <DIR>"), "{error}");
}

/// A model directory of a tokenizer of the vectors and a chat template.
fn model_directory(template: &str, eos_token: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(tokenizer("qwen3"), dir.path().join("tokenizer.json")).unwrap();
    let config = json!({"eos_token": eos_token, "chat_template": template});
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    dir
}

#[test]
fn a_template_is_checked_for_people_and_for_programs() {
    let qwen3 = std::fs::read_to_string(vectors().join("templates/qwen3.jinja")).unwrap();
    let dir = model_directory(&qwen3, "<|im_end|>");
    let path = dir.path().to_str().unwrap();
    let output = run(&["template", "check", path, "--json"], b"");
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["response_format"], &report["continues_without_history"]), (&json!("qwen_json"), &json!(true)));
    let findings = report["findings"].as_array().unwrap();
    let drops_reasoning = |finding: &Value| {
        let message = finding["message"].as_str().unwrap();
        finding["verdict"] == "warning" && message.starts_with("a turn with reasoning, before the user speaks again: ")
    };
    assert!(findings.iter().any(drops_reasoning), "{report}");
    let output = run(&["template", "check", path], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), findings.len());
    assert!(text.contains("ok       stop_tokens   sampling stops at `<|im_end|>`"), "{text}");
}

#[test]
fn a_fault_of_a_template_fails_the_check() {
    let dir = model_directory("{% for m in messages %}{{ m.content }}{% endfor %}", "<|im_end|>");
    let output = run(&["template", "check", dir.path().to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("2 faults"));
    let output = run(&["template", "check", vectors().join("tokenizers/qwen3").to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("has no chat template"));
}
