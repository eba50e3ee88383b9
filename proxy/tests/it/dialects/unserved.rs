//! What the model makers' own servers serve and this one does not.

use serde_json::{Value, json};

use crate::common::Setup;

#[tokio::test]
async fn what_is_not_served_names_what_to_use_instead_in_the_callers_dialect() {
    let setup = Setup::new(vec![]).await;
    let (_, attempt) = setup.attempt().await;
    for base in [format!("{}/v1", setup.url), attempt.clone(), attempt.strip_suffix("/v1").unwrap().to_owned()] {
        for (method, path, words) in [
            ("POST", "batches", "/v1/chat/completions"),
            ("GET", "batches/batch_1", "/v1/chat/completions"),
            ("POST", "files", "into a message"),
            ("DELETE", "files/file_1", "into a message"),
            ("GET", "files/file_1/content", "into a message"),
            ("POST", "conversations", "previous_response_id"),
            ("POST", "assistants", "/v1/responses"),
            ("POST", "threads/thread_1/messages", "/v1/responses"),
            ("POST", "vector_stores", "a tool"),
            ("POST", "images/generations", "text"),
            ("POST", "audio/transcriptions", "text"),
            ("POST", "moderations", "/v1/chat/completions"),
            ("POST", "fine_tuning/jobs", "fulgurite train"),
        ] {
            let url = format!("{base}/{path}");
            let reply = setup.client.request(method.parse().unwrap(), url).json(&json!({})).send().await.unwrap();
            assert_eq!(reply.status(), 404, "{path}");
            let error: Value = reply.json().await.unwrap();
            assert_eq!(error["error"]["code"], "not_served", "{path}: {error}");
            assert!(error["error"]["message"].as_str().unwrap().contains(words), "{path}: {error}");
        }
        // By its own path, and by the client's header.
        for (path, header, words) in [
            ("messages/batches", "x-other", "/v1/messages"),
            ("messages/batches/msgbatch_1/results", "x-other", "/v1/messages"),
            ("files", "anthropic-version", "into a message"),
        ] {
            let request = setup.client.post(format!("{base}/{path}")).header(header, "2023-06-01").json(&json!({}));
            let reply = request.send().await.unwrap();
            assert_eq!(reply.status(), 404, "{path}");
            let error: Value = reply.json().await.unwrap();
            assert_eq!(
                (&error["type"], &error["error"]["type"]),
                (&json!("error"), &json!("not_found_error")),
                "{path}"
            );
            assert!(error["error"]["message"].as_str().unwrap().contains(words), "{path}: {error}");
        }
    }
}
