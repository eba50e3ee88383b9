use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{AnswerFault, BackendError};

/// How much of a host's error message is kept, in characters.
pub(crate) const MESSAGE_LIMIT: usize = 500;

/// An error with its causes.
pub(crate) fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// An error of the client with its causes, without the URL, which may hold a password.
pub fn describe(error: reqwest::Error) -> String {
    error_text(&error.without_url())
}

/// A server's words for what went wrong, in any of the forms that servers have for it.
pub fn error_message(value: &Value) -> String {
    let found = [&value["error"]["message"], &value["error"], &value["message"], &value["detail"]];
    let message = found.into_iter().find(|found| !found.is_null()).unwrap_or(value);
    let text = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    text.chars().take(MESSAGE_LIMIT).collect()
}

/// An error in the middle of a stream. Servers begin some streams before they look at the request.
pub(crate) fn fault_of_error(error: &Value) -> AnswerFault {
    let message = error_message(&json!({ "error": error }));
    match [&error["code"], &error["status_code"]].into_iter().find_map(Value::as_u64) {
        Some(400 | 413 | 422) => AnswerFault::Refused { message },
        _ => AnswerFault::HostError { message },
    }
}

/// What a status other than success means for the caller.
pub fn refusal(host: &str, status: StatusCode, message: &str) -> BackendError {
    let explained = format!("{host} answers {}: {message}", status.as_u16());
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            BackendError::InvalidRequest { message: AnswerFault::Refused { message: message.to_owned() }.to_string() }
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => BackendError::KeyRefused {
            message: format!("{explained} (is the variable that api_key_env names set to a key of this host?)"),
        },
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => BackendError::Configuration {
            message: format!("{explained} (is the right kind of server behind this URL?)"),
        },
        _ => BackendError::Unavailable { message: explained },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_found_wherever_it_puts_them() {
        for value in [
            json!({ "error": { "message": "why", "code": 400 } }),
            json!({ "error": "why" }),
            json!({ "message": "why", "object": "error" }),
            json!({ "detail": "why" }),
            json!("why"),
        ] {
            assert_eq!(error_message(&value), "why");
        }
        assert_eq!(error_message(&json!({ "detail": [1] })), "[1]");
    }

    #[test]
    fn a_status_says_whose_fault_it_is() {
        for (status, is_hosts) in
            [(400, false), (413, false), (422, false), (401, true), (404, true), (429, true), (503, true)]
        {
            let error = refusal("http://h", StatusCode::from_u16(status).unwrap(), "why");
            assert_eq!(error.is_hosts_fault(), is_hosts, "{error}");
            assert!(error.to_string().contains("why"));
        }
    }
}
