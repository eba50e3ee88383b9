//! Responses that are asked for again.

use fulgurite_backends::SamplingEnd;
use serde_json::{Value, json};

use super::{answered, assembled, events, post, request, with};
use crate::common::Script;
use crate::common::families::QWEN3;

#[tokio::test]
async fn a_recorded_response_is_streamed_again_and_tells_its_input() {
    let (setup, response, [rollout, _]) = answered(&QWEN3, &request(), QWEN3.turn, SamplingEnd::StopToken).await;
    let attempt = setup.generation_of(&rollout).await.attempt_id;
    let url = format!("{}/rollout/{rollout}/attempt/{attempt}/v1/responses", setup.url);
    let id = response["id"].as_str().unwrap();
    let get = async |path: &str| setup.client.get(format!("{url}/{path}")).send().await.unwrap();
    let text = get(&format!("{id}?stream=true")).await.text().await.unwrap();
    let streamed = assembled(&events(&text));
    let whole: Value = get(id).await.json().await.unwrap();
    assert_eq!((&streamed, &streamed["output"]), (&whole, &response["output"]));
    let rest = get(&format!("{id}?stream=true&starting_after=3")).await.text().await.unwrap();
    assert!(text.ends_with(&rest) && rest.contains("\"sequence_number\":4") && !rest.contains("response.created"));
    let items: Value = get(&format!("{id}/input_items?order=asc")).await.json().await.unwrap();
    assert_eq!(items["data"][0]["content"][0]["text"], "Rain in Paris?");
    assert_eq!((items["data"].as_array().unwrap().len(), &items["has_more"]), (1, &json!(false)), "{items}");
    let post = async |path: &str, body: Value| {
        let reply = setup.client.post(format!("{url}/{path}")).json(&body).send().await.unwrap();
        (reply.status().as_u16(), reply.json::<Value>().await.unwrap())
    };
    let (status, counted) = post("input_tokens", request()).await;
    assert_eq!((status, &counted["input_tokens"]), (200, &response["usage"]["input_tokens"]));
    let (status, error) = post(&format!("{id}/cancel"), json!({})).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("response_id")));
    for (path, status) in [
        ("resp_none?stream=true".to_owned(), 404),
        ("resp_none/input_items".to_owned(), 404),
        (format!("{id}?stream=perhaps"), 400),
        (format!("{id}/input_items?limit=0"), 400),
        (format!("{id}/input_items?order=up"), 400),
        (format!("{id}/input_items?after=x"), 400),
    ] {
        let reply = get(&path).await;
        assert_eq!(reply.status().as_u16(), status, "{path}");
        assert!(reply.json::<Value>().await.unwrap()["error"]["message"].is_string(), "{path}");
    }
}

#[tokio::test]
async fn a_deleted_response_is_found_no_more_and_its_record_stays() {
    let (setup, response, [rollout, other]) = answered(&QWEN3, &request(), QWEN3.turn, SamplingEnd::StopToken).await;
    let generation = setup.generation_of(&rollout).await;
    let base = format!("{}/rollout/{rollout}/attempt/{}/v1", setup.url, generation.attempt_id);
    let id = response["id"].as_str().unwrap();
    let elsewhere = setup.generation_of(&other).await.attempt_id;
    let elsewhere = format!("{}/rollout/{other}/attempt/{elsewhere}/v1/responses/{id}", setup.url);
    assert_eq!(setup.client.delete(elsewhere).send().await.unwrap().status(), 404, "of another rollout");

    let url = format!("{base}/responses/{id}");
    let deleted = setup.client.delete(&url).send().await.unwrap();
    assert_eq!(deleted.status(), 200);
    let expected = json!({ "id": id, "object": "response", "deleted": true });
    assert_eq!(deleted.json::<Value>().await.unwrap(), expected);

    assert_eq!(setup.client.delete(&url).send().await.unwrap().status(), 404);
    for path in ["", "/input_items"] {
        let reply = setup.client.get(format!("{url}{path}")).send().await.unwrap();
        assert_eq!(reply.status(), 404, "{path}");
        assert_eq!(reply.json::<Value>().await.unwrap()["error"]["code"], "response_not_found", "{path}");
    }
    let mut items = request()["input"].as_array().cloned().unwrap();
    items.push(json!({ "type": "item_reference", "id": response["output"][1]["id"] }));
    for body in [with(request(), "previous_response_id", json!(id)), with(request(), "input", json!(items))] {
        assert!(post(&setup, &base, &body).await.status().is_client_error(), "{body}");
    }
    assert_eq!(setup.generation_of(&rollout).await, generation, "the record is never lost");

    // Items that a client has kept itself go on as before.
    let mut items = request()["input"].as_array().cloned().unwrap();
    items.extend(response["output"].as_array().cloned().unwrap());
    let call_id = &response["output"][2]["call_id"];
    items.push(json!({ "type": "function_call_output", "call_id": call_id, "output": "7" }));
    setup.play(Script::Answer(setup.sampled(&(QWEN3.plain_turn)("7")), SamplingEnd::StopToken));
    assert_eq!(post(&setup, &base, &with(request(), "input", json!(items))).await.status(), 200);
    assert_eq!(setup.store.queries().drift(&rollout).await.unwrap().continued, 1);
}
