//! `hello-agent N`: an ordinary agent of one call. It asks the model to say that it is N and prints what the model says.
//!
//! It speaks OpenAI's chat completions and nothing else, and finds the model where every OpenAI client does: in
//! `OPENAI_BASE_URL` and `OPENAI_API_KEY`. `HELLO_MODEL` names the model (`hello` if unset).
//!
//! A training run starts it thousands of times, so it is built without TLS and starts in a few milliseconds. To reach a
//! model over `https`, use `agent.py`, which does the same.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::env;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

/// How often a request is sent at most: once more after a lost connection or a server's own error.
const TRIES: usize = 2;

fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line with all causes; if even that cannot be written, the exit code has to do.
            let _ = writeln!(stderr().lock(), "hello-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Asks once and prints the answer.
fn play() -> Result<()> {
    let Some(number) = env::args().nth(1) else { bail!("usage: hello-agent N") };
    let base_url = env::var("OPENAI_BASE_URL").unwrap_or_else(|_| "https://api.openai.com/v1".to_owned());
    let key = env::var("OPENAI_API_KEY").context("OPENAI_API_KEY is not set")?;
    let model = env::var("HELLO_MODEL").unwrap_or_else(|_| "hello".to_owned());

    let url = format!("{}/chat/completions", base_url.trim_end_matches('/'));
    let completion = complete(&url, &key, &request(&model, &number))?;
    stdout().lock().write_all(transcript(&completion)?.as_bytes())?;
    Ok(())
}

/// The body of the one call that the agent makes.
fn request(model: &str, number: &str) -> Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": format!("Let's play a game. Say you are {number}.")}],
        "max_completion_tokens": 32,
    })
}

/// Posts `body` to `url` and returns the reply's JSON.
fn complete(url: &str, key: &str, body: &Value) -> Result<Value> {
    let client = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let mut tries = 1;
    loop {
        let post = client
            .post(url)
            .header("authorization", format!("Bearer {key}"))
            // As OpenAI's libraries count: a retry gets the answer of the call that it repeats, though the server was killed
            // in between.
            .header("x-stainless-retry-count", (tries - 1).to_string())
            .content_type("application/json");
        let sent = post.send(body.to_string());
        let failed = sent.as_ref().map_or(true, |reply| reply.status().is_server_error());
        if failed && tries < TRIES {
            tries += 1;
            continue;
        }
        let mut reply = sent.with_context(|| format!("cannot reach {url}"))?;
        let text = reply.body_mut().read_to_string().with_context(|| format!("{url} broke off its reply"))?;
        ensure!(reply.status().is_success(), "{url} answered {}: {}", reply.status(), text.trim());
        return serde_json::from_str(&text)
            .with_context(|| format!("{url} answered what is not JSON: {}", text.trim()));
    }
}

/// What the agent prints: the reply, and one line more when the model did not end it by itself.
fn transcript(completion: &Value) -> Result<String> {
    let choice = &completion["choices"][0];
    let reply = choice["message"]["content"].as_str().context("the completion holds no message content")?;
    let finish_reason = choice["finish_reason"].as_str().context("the completion holds no finish_reason")?;
    Ok(match finish_reason {
        "stop" => format!("{reply}\n"),
        other => format!("{reply}\n[finish_reason: {other}]\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_the_number_in_one_message() {
        let body = request("hello", "17");
        assert_eq!(body["messages"], json!([{"role": "user", "content": "Let's play a game. Say you are 17."}]));
        assert_eq!(body["max_completion_tokens"], 32);
    }

    #[test]
    fn says_when_the_reply_was_cut_off() {
        let completion = |reason| json!({"choices": [{"message": {"content": "I am"}, "finish_reason": reason}]});
        assert_eq!(transcript(&completion("stop")).unwrap(), "I am\n");
        assert_eq!(transcript(&completion("length")).unwrap(), "I am\n[finish_reason: length]\n");
        assert!(transcript(&json!({"choices": []})).is_err());
    }
}
