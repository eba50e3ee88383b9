//! Advice for agents that fail because their client looks for the model elsewhere.

/// Where an agent's client finds the attempt's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// In the variables of its process.
    OfEnvironment,
    /// In the task that a warm or a remote agent is given.
    OfTask,
}

/// What clients say, in small letters, that reach nobody at the URL that they use, or were given no key.
const UNCONNECTED: [&str; 20] = [
    "connection error",
    "connection refused",
    "connecterror",
    "connectionerror",
    "connectionrefused",
    "connection attempts failed",
    "econnrefused",
    "getaddrinfo enotfound",
    "failed to connect",
    "couldn't connect",
    "fetch failed",
    "name or service not known",
    "name resolution",
    "max retries exceeded",
    "api_key client option",
    "api_key must be set",
    "openai_api_key",
    "anthropic_api_key",
    "missing credentials",
    "incorrect api key",
];

/// Where the model is, in parentheses behind a space, if what an agent wrote says that its client did not find it.
pub(crate) fn connection_help(written: &str, client: Client) -> &'static str {
    let written = written.to_lowercase();
    if !UNCONNECTED.iter().any(|sign| written.contains(sign)) {
        return "";
    }
    match client {
        Client::OfEnvironment => {
            " (help: the attempt's model is at OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL of the agent's \
             environment: leave base URL, port and key out of the agent's own code)"
        }
        Client::OfTask => {
            " (help: each task brings its own base URL and key, which are not in the environment: \
             OpenAI(base_url=task[\"base_url\"], api_key=task[\"api_key\"]))"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_find_no_model_are_pointed_to_the_base_url() {
        for written in [
            "openai.APIConnectionError: Connection error.",
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=9): Max retries exceeded",
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "openai.OpenAIError: The api_key client option must be set either by passing api_key to the client",
            "TypeError: fetch failed\n  cause: Error: connect ECONNREFUSED 127.0.0.1:1",
        ] {
            assert!(connection_help(written, Client::OfEnvironment).contains("OPENAI_BASE_URL"), "{written}");
            assert!(connection_help(written, Client::OfTask).contains("base_url=task["), "{written}");
        }
        for other in ["ValueError: boom", "ModuleNotFoundError: No module named 'no_such_module'"] {
            assert_eq!(connection_help(other, Client::OfTask), "");
        }
    }
}
