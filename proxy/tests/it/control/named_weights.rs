//! Weights that calls name in the place of a model: how such calls go on, wait and are closed to others.

use std::sync::Arc;

use fulgurite_api::{Need, RouteNeeds};
use fulgurite_backends::{KeptModel, KeptWeights, KeptWeightsError, SamplingEnd};
use fulgurite_proxy::{NamedWeights, Proxy, ProxyOptions, SampledModel, ServedModel};
use serde_json::{Value, json};

use crate::common::{Script, ScriptedSampler, Setup};

/// Weights of `tiny` by one name.
struct OneName(Arc<ScriptedSampler>);

impl KeptWeights for OneName {
    fn find(&self, name: &str) -> Result<Option<KeptModel>, KeptWeightsError> {
        let found = || KeptModel { name: "kept://a".into(), base_model: "tiny".into(), sampler: self.0.clone() };
        match name {
            "kept://a" | "tiny;kept://a" => Ok(Some(found())),
            "kept://" => Err(KeptWeightsError::Invalid { message: "`kept://` is none: expected kept://NAME".into() }),
            other if other.starts_with("kept://") => {
                Err(KeptWeightsError::Unknown { name: other.into(), kept: "kept://a".into() })
            }
            _ => Ok(None),
        }
    }
}

/// Another server over the setup's store and model, which has such weights too; its URL.
async fn listen(setup: &Setup, need: Need) -> String {
    let model = ServedModel::Sampled(SampledModel {
        name: "tiny".into(),
        renderer: setup.renderer.clone(),
        sampler: setup.sampler.clone(),
    });
    let named = NamedWeights { weights: Arc::new(OneName(setup.sampler.clone())), need };
    let proxy = Proxy::with_named_weights(setup.store.clone(), vec![model], Some(named), ProxyOptions::default());
    let router = fulgurite_proxy::routes(proxy.unwrap(), &mut RouteNeeds::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn call(model: &str, messages: &Value) -> Value {
    json!({ "model": model, "messages": messages })
}

#[tokio::test]
async fn a_conversation_goes_on_token_by_token_under_the_weights_name_and_after_a_restart() {
    let setup = Setup::of_family("qwen3", "qwen3").await;
    let (rollout, base) = setup.attempt().await;
    let path = base.strip_prefix(&setup.url).unwrap();
    let mut messages = json!([{ "role": "user", "content": "Say you are 17." }]);
    let sampled = setup.sampled("I am  17.<|im_end|>");
    for turn in 0..2 {
        setup.play(Script::Answer(sampled.clone(), SamplingEnd::StopToken));
        let base = format!("{}{path}", listen(&setup, Need::Nothing).await);
        let name = ["kept://a", "tiny;kept://a"][turn];
        let reply: Value = setup.post(&base, &call(name, &messages)).await.json().await.unwrap();
        assert_eq!(reply["model"], "kept://a", "{reply}");
        if turn == 0 {
            let more = [reply["choices"][0]["message"].clone(), json!({ "role": "user", "content": "Again." })];
            messages.as_array_mut().unwrap().extend(more);
        }
    }
    let prompt = setup.sampler.requests.lock().unwrap()[1].prompt.clone();
    assert_eq!(prompt.to_vec(), setup.continued(&messages, &json!([]), 2, &sampled));
    let recorded = setup.generations().await;
    let names: Vec<&str> = recorded.iter().map(|generation| generation.model.as_str()).collect();
    assert_eq!(
        (names, recorded.iter().all(|generation| generation.rollout_id == rollout)),
        (vec!["kept://a"; 2], true)
    );
    assert_eq!(recorded[1].parent_id.as_ref(), Some(&recorded[0].generation_id));
}

#[tokio::test]
async fn what_is_no_name_of_weights_is_refused_and_who_may_not_learns_nothing_of_them() {
    let setup = Setup::new(vec![]).await;
    let messages = json!([{ "role": "user", "content": "Say you are 17." }]);
    let open = format!("{}/v1", listen(&setup, Need::Nothing).await);
    for (name, status, words) in [
        ("kept://b", 404, "there are no weights `kept://b` here; kept: kept://a"),
        ("kept://", 400, "model: `kept://` is none: expected kept://NAME"),
        ("other", 404, "the model `other` does not exist here; served: tiny"),
    ] {
        let refused = setup.post(&open, &call(name, &messages)).await;
        assert_eq!(refused.status(), status, "{name}");
        let error: Value = refused.json().await.unwrap();
        assert_eq!(error["error"]["message"], words);
        assert_eq!(error["error"]["param"], "model");
    }
    // No key came with it.
    let closed = format!("{}/v1", listen(&setup, Need::Admin).await);
    for name in ["kept://a", "kept://b", "kept://"] {
        let refused = setup.post(&closed, &call(name, &messages)).await;
        assert_eq!(refused.status(), 401, "{name}");
        assert!(!refused.text().await.unwrap().contains("kept:"), "{name}");
    }
    setup.play(Script::Answer([setup.tokens("17"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    assert_eq!(setup.post(&closed, &call("tiny", &messages)).await.status(), 200);
}

#[tokio::test]
async fn calls_of_weights_wait_while_the_model_that_they_are_of_is_paused() {
    let setup = Setup::new(vec![]).await;
    let url = listen(&setup, Need::Nothing).await;
    let control = |what: &str| setup.client.post(format!("{url}/v1/fulgurite/models/tiny/{what}")).send();
    assert_eq!(control("pause").await.unwrap().status(), 200);
    setup.play(Script::Answer([setup.tokens("17"), vec![setup.stop()]].concat(), SamplingEnd::StopToken));
    let messages = json!([{ "role": "user", "content": "Say you are 17." }]);
    let request = setup.client.post(format!("{url}/v1/chat/completions")).json(&call("kept://a", &messages));
    let waiting = tokio::spawn(async move { request.send().await.unwrap().status() });
    let state = || async {
        let state = setup.client.get(format!("{url}/v1/fulgurite/models/tiny")).send().await.unwrap();
        state.json::<Value>().await.unwrap()
    };
    while state().await["held"] != 1 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished() && setup.sampler.requests.lock().unwrap().is_empty());
    assert_eq!(control("resume").await.unwrap().status(), 200);
    assert_eq!(waiting.await.unwrap(), 200);
}
