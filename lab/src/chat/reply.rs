//! One reply of a model, as it comes.

use fulgurite_backends::EventDecoder;
use futures::StreamExt;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use super::error::ChatError;

/// Where a model answers.
#[derive(Clone)]
pub struct ChatEndpoint {
    /// URL before `/chat/completions`.
    pub url: String,
    /// What the server asks for.
    pub key: Option<String>,
}

/// A token of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// Its id, if the host tells it.
    pub id: Option<u64>,
    /// Its logprob.
    pub logprob: f64,
    /// Its text.
    pub text: String,
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// Token by token, as far as the host tells.
    pub tokens: Vec<SampledToken>,
    /// Why it ended; nothing if it was cut short here.
    pub finish_reason: Option<String>,
}

impl Reply {
    /// Takes an event of a stream, and gives the text that is new in it.
    fn take(&mut self, event: &Value) -> Result<String, ChatError> {
        if let Some(message) = event["error"]["message"].as_str() {
            return Err(ChatError::Stated { message: message.to_owned() });
        }
        let choice = &event["choices"][0];
        let new = choice["delta"]["content"].as_str().unwrap_or_default();
        self.text.push_str(new);
        let ids: Vec<u64> = choice["token_ids"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let logprobs = choice["logprobs"]["content"].as_array().into_iter().flatten();
        for (place, token) in logprobs.enumerate() {
            self.tokens.push(SampledToken {
                id: ids.get(place).copied(),
                logprob: token["logprob"].as_f64().unwrap_or(f64::NAN),
                text: token["token"].as_str().unwrap_or_default().to_owned(),
            });
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(new.to_owned())
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "reply": self.text,
            "finish_reason": self.finish_reason,
            "token_ids": self.tokens.iter().map(|token| token.id).collect::<Vec<_>>(),
            "logprobs": self.tokens.iter().map(|token| token.logprob).collect::<Vec<_>>(),
        })
    }
}

/// Asks for a reply to `messages`; `heard` gets each piece of text as it comes. What has come is in `reply` even if this is
/// given up.
///
/// # Errors
/// If no host answers, or it refuses the request, or its answer breaks off.
pub async fn ask(
    client: &Client,
    endpoint: &ChatEndpoint,
    request: &Value,
    reply: &mut Reply,
    heard: &mut (dyn FnMut(&str) + Send),
) -> Result<(), ChatError> {
    let mut request = request.clone();
    request["stream"] = json!(true);
    let plain = request.clone();
    request["logprobs"] = json!(true);
    request["return_token_ids"] = json!(true);
    let mut response = send(client, endpoint, &request).await?;
    if response.status() == StatusCode::BAD_REQUEST {
        // Not every host tells tokens.
        response = send(client, endpoint, &plain).await?;
    }
    if !response.status().is_success() {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let message = body["error"]["message"].as_str().or(body["detail"].as_str());
        return Err(ChatError::Refused { status, message: message.unwrap_or(text.trim()).to_owned() });
    }
    let mut events = EventDecoder::default();
    let mut bytes = response.bytes_stream();
    while let Some(piece) = bytes.next().await {
        for data in whole_events(&mut events, &piece.map_err(ChatError::BrokeOff)?)? {
            if data == "[DONE]" {
                return Ok(());
            }
            let event: Value = serde_json::from_str(&data)?;
            let new = reply.take(&event)?;
            if !new.is_empty() {
                heard(&new);
            }
        }
    }
    Ok(())
}

/// Data of the events that end in these bytes.
fn whole_events(events: &mut EventDecoder, bytes: &[u8]) -> Result<Vec<String>, ChatError> {
    let mut whole = Vec::new();
    let fed = events.feed(bytes, |data| {
        whole.push(data.trim().to_owned());
        Ok(())
    });
    fed.map_err(ChatError::NotEvents)?;
    Ok(whole)
}

async fn send(client: &Client, endpoint: &ChatEndpoint, body: &Value) -> Result<Response, ChatError> {
    let mut request = client.post(format!("{}/chat/completions", endpoint.url)).json(body);
    if let Some(key) = &endpoint.key {
        request = request.bearer_auth(key);
    }
    let unreachable = |source| ChatError::Unreachable { url: endpoint.url.clone(), source };
    request.send().await.map_err(unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_put_together_from_what_comes() {
        let mut reply = Reply::default();
        let token = |text: &str, logprob: f64| json!({ "token": text, "logprob": logprob });
        let first = json!({ "choices": [{ "delta": { "role": "assistant", "content": "Hel" }, "token_ids": [7, 8],
            "logprobs": { "content": [token("He", -0.5), token("l", -1.0)] }, "finish_reason": null }] });
        assert_eq!(reply.take(&first).unwrap(), "Hel");
        let last = json!({ "choices": [{ "delta": { "content": "lo" }, "finish_reason": "stop" }] });
        assert_eq!(reply.take(&last).unwrap(), "lo");
        assert_eq!(reply.take(&json!({ "choices": [] })).unwrap(), "");
        assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("Hello", Some("stop")));
        assert_eq!(reply.tokens[1], SampledToken { id: Some(8), logprob: -1.0, text: "l".into() });
        let broken = reply.take(&json!({ "error": { "message": "gone" } })).unwrap_err().to_string();
        assert_eq!(broken, "the model's host says: gone");
    }

    #[test]
    fn an_event_of_several_data_lines_is_read_as_one() {
        let mut events = EventDecoder::default();
        assert!(whole_events(&mut events, b"data: {\"a\":\ndata: \"\xc3").unwrap().is_empty());
        assert_eq!(whole_events(&mut events, b"\xa4\"}\r\n\ndata: x").unwrap(), ["{\"a\":\n\"\u{e4}\"}"]);
        assert_eq!(whole_events(&mut events, b"\n\n").unwrap(), ["x"]);
    }
}
