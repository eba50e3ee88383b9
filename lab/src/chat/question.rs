//! A task that is one question, asked of a model.

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::reply::ChatEndpoint;

/// How a task is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// What is sent in `model`.
    pub model: &'q str,
    /// What the model is told first.
    pub system: Option<&'q str>,
    /// The field of a task that holds the question, where tasks are objects.
    pub field: &'q str,
    /// Tokens of the answer at most.
    pub max_tokens: Option<u64>,
}

/// Error for a question that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// The task has no question.
    #[error("a task must be text, or have `messages` or the text `{field}`; this one is {task}")]
    NoQuestion {
        /// Where it should be.
        field: String,
        /// The task.
        task: Value,
    },
    /// No host answers.
    #[error("cannot reach the model")]
    Unreachable(#[source] reqwest::Error),
    /// The answer broke off.
    #[error("cannot read the model's answer")]
    BrokeOff(#[source] reqwest::Error),
    /// The host refused the request.
    #[error("the model answered {status}: {text}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// What it says.
        text: String,
    },
    /// The answer is something else.
    #[error("the model's answer is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The answer has no text.
    #[error("the model answered no text: {text}")]
    NoText {
        /// The answer.
        text: String,
    },
}

impl Question<'_> {
    /// Asks a task, and gives the answer.
    ///
    /// # Errors
    /// If the task has no question, or no answer comes.
    pub async fn ask(&self, client: &Client, endpoint: &ChatEndpoint, task: &Value) -> Result<String, QuestionError> {
        let ChatEndpoint { url, key } = endpoint;
        let request = client.post(format!("{url}/chat/completions")).bearer_auth(key.as_deref().unwrap_or_default());
        let reply = request.json(&self.request(task)?).send().await.map_err(QuestionError::Unreachable)?;
        let (status, text) = (reply.status(), reply.text().await.map_err(QuestionError::BrokeOff)?);
        if !status.is_success() {
            return Err(QuestionError::Refused { status, text });
        }
        let reply: Value = serde_json::from_str(&text).map_err(QuestionError::NotJson)?;
        let content = reply["choices"][0]["message"]["content"].as_str().map(str::to_owned);
        content.ok_or(QuestionError::NoText { text })
    }

    fn request(&self, task: &Value) -> Result<Value, QuestionError> {
        let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
        let messages: Vec<Value> = system.chain(messages(task, self.field)?).collect();
        let mut request = json!({ "model": self.model, "messages": messages });
        if let Some(max_tokens) = self.max_tokens {
            request["max_tokens"] = json!(max_tokens);
        }
        Ok(request)
    }
}

/// What a task has the model asked: itself if it is text, its messages, or a field of it.
fn messages(task: &Value, field: &str) -> Result<Vec<Value>, QuestionError> {
    let question = match (task, &task["messages"], &task[field]) {
        (Value::String(question), ..) => question,
        (Value::Object(_), Value::Array(messages), _) => return Ok(messages.clone()),
        (Value::Object(_), _, Value::String(question)) => question,
        _ => return Err(QuestionError::NoQuestion { field: field.to_owned(), task: task.clone() }),
    };
    Ok(vec![json!({ "role": "user", "content": question })])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_question_or_holds_one() {
        let user = |text: &str| json!([{ "role": "user", "content": text }]);
        let messages_of = |task: Value| messages(&task, "q").map(Value::from).map_err(|error| error.to_string());
        assert_eq!(messages_of(json!("2+2")), Ok(user("2+2")));
        assert_eq!(messages_of(json!({ "q": "2+2", "answer": 4 })), Ok(user("2+2")));
        assert_eq!(messages_of(json!({ "messages": user("a"), "q": "b" })), Ok(user("a")));
        assert!(messages_of(json!({ "prompt": "2+2" })).unwrap_err().contains("the text `q`"));
        assert!(messages_of(json!(4)).is_err());
    }
}
