//! Agents on LangGraph and PydanticAI through the proxy: whatever they make of the history, what was sampled stays.

use crate::common::clients::python;
use crate::common::conversations::{LAST, assert_they_are_a_chain, conversations, generations};
use serde_json::json;

/// An agent answers two questions in every way, in four calls to the model; every other way is streamed.
async fn goes_on_token_by_token(script: &str, ways: usize) {
    let (setup, printed, rollouts) = conversations(python(script), ways, &["Yes."]).await;
    for (way, (answers, rollout)) in printed.iter().zip(&rollouts).enumerate() {
        assert_eq!(*answers, json!([LAST, "Yes."]), "{way}");
        assert_eq!(setup.attributes(rollout).await["gen_ai.request.is_stream"], json!(way % 2 == 1), "{way}");
        let generations = generations(&setup, rollout).await;
        assert_eq!(generations.len(), 4, "{way}");
        assert_they_are_a_chain(&generations, way);
    }
}

#[tokio::test]
async fn langgraphs_agents_go_on_token_by_token_in_both_dialects() {
    goes_on_token_by_token("langgraph_agents.py", 4).await;
}

#[tokio::test]
async fn pydantic_ais_agents_go_on_token_by_token_in_every_dialect() {
    goes_on_token_by_token("pydantic_agents.py", 6).await;
}
