//! What OpenAI's and Anthropic's own servers serve beside models, and this server does not: who calls it is told what to use
//! instead.

use axum::routing::MethodRouter;

use crate::error::ProxyError;

/// What is not served, in the words of an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unserved {
    /// What is not, with its verb.
    what: &'static str,
    /// What does the same.
    instead: &'static str,
}

impl From<Unserved> for ProxyError {
    fn from(Unserved { what, instead }: Unserved) -> Self {
        Self::NotServed { what, instead }
    }
}

const TO_CHAT: &str = "send the calls to /v1/chat/completions or /v1/responses, as many at once as you like";
const IN_A_MESSAGE: &str = "put the text of the file into a message";
const OF_THE_AGENT: &str =
    "send instructions, tools and messages with each call to /v1/responses or /v1/chat/completions";
const TEXT_ALONE: &str = "the models here read and write text, at /v1/chat/completions";
const OWN_TOOL: &str = "have your own program do it, and declare it as a tool";

/// What is not served, below a base URL, each with all paths below its own.
const UNSERVED: [(&str, Unserved); 17] = [
    ("/assistants", Unserved { what: "assistants are", instead: OF_THE_AGENT }),
    ("/audio", Unserved { what: "audio is", instead: TEXT_ALONE }),
    ("/batches", Unserved { what: "batches are", instead: TO_CHAT }),
    ("/containers", Unserved { what: "containers are", instead: OWN_TOOL }),
    (
        "/conversations",
        Unserved {
            what: "conversations are",
            instead: "send the items of the conversation, or previous_response_id, to /v1/responses",
        },
    ),
    ("/evals", Unserved { what: "evals are", instead: "`fulgurite eval` evaluates a model by an agent's tasks" }),
    ("/files", Unserved { what: "files are", instead: IN_A_MESSAGE }),
    (
        "/fine_tuning",
        Unserved { what: "fine-tuning jobs are", instead: "`fulgurite train CONFIG.toml` trains a model" },
    ),
    ("/images", Unserved { what: "images are", instead: TEXT_ALONE }),
    (
        "/messages/batches",
        Unserved { what: "batches are", instead: "send the calls to /v1/messages, as many at once as you like" },
    ),
    ("/moderations", Unserved { what: "moderations are", instead: "ask a model at /v1/chat/completions" }),
    ("/realtime", Unserved { what: "realtime sessions are", instead: TEXT_ALONE }),
    ("/skills", Unserved { what: "skills are", instead: "put their instructions into the system prompt" }),
    ("/threads", Unserved { what: "threads are", instead: OF_THE_AGENT }),
    ("/uploads", Unserved { what: "uploads are", instead: IN_A_MESSAGE }),
    ("/vector_stores", Unserved { what: "vector stores are", instead: OWN_TOOL }),
    ("/videos", Unserved { what: "videos are", instead: TEXT_ALONE }),
];

/// The routes of what is not served, below a base URL: each path, and all below it, for every method, as `refuse` answers.
pub(crate) fn unserved_routes<S>(refuse: impl Fn(Unserved) -> MethodRouter<S>) -> Vec<(String, MethodRouter<S>)> {
    let both = |(path, unserved): (&str, Unserved)| {
        [(path.to_owned(), refuse(unserved)), (format!("{path}/{{*rest}}"), refuse(unserved))]
    };
    UNSERVED.into_iter().flat_map(both).collect()
}
