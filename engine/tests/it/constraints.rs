//! Answers that are kept to a schema or grammar, and distributions that a request changes.

use std::sync::Arc;

use fulgurite_types::{Constraint, SamplingParameters};

use crate::common::{answer, create, open, options, request, tiny_config};
use fulgurite_backends::{BackendError, SampleRequest, SampledToken, Sampler, SamplingEnd};
use fulgurite_engine::{EmbeddedSampler, Engine, ModelConfig, TokenText, Vocabulary};
use serde_json::{Value, json};

const END: u32 = 256;
const CONTROL: u32 = 257;

/// Every byte is a token; then there are a few longer ones, control tokens, and an id without a token.
fn vocabulary() -> Vocabulary {
    let bytes = (0..=u8::MAX).map(|byte| TokenText::Text(vec![byte]));
    let control = ["<end>", "<call>"].map(|name| TokenText::Control(name.into()));
    let words = ["\": ", "true", "</call>", "你"].map(|text| TokenText::Text(text.into()));
    bytes.chain(control).chain(words).chain([TokenText::Unused]).collect()
}

fn engine() -> (tempfile::TempDir, Engine) {
    let config = ModelConfig { vocab_size: 270, max_position_embeddings: 2000, ..tiny_config() };
    let (home, directory) = create(&config, 3);
    let engine = Engine::open_with_vocabulary(&directory, vocabulary(), options(2)).unwrap();
    (home, engine)
}

fn kept_to(constraint: Constraint, seed: u64) -> SampleRequest {
    let mut request = request(vec![1, 2, 3], 1500, seed);
    request.sampling.constraint = Some(constraint);
    request.stop_tokens = vec![END];
    request
}

fn text(tokens: &[SampledToken]) -> String {
    let words = ["<end>", "<call>", "\": ", "true", "</call>", "你"];
    let bytes = |token: &SampledToken| match u8::try_from(token.id) {
        Ok(byte) => vec![byte],
        Err(_) => words[token.id as usize - 256].as_bytes().to_vec(),
    };
    String::from_utf8(tokens.iter().flat_map(bytes).collect()).unwrap()
}

async fn sampled(sampler: &Arc<EmbeddedSampler>, request: SampleRequest) -> String {
    let (mut tokens, reason) = answer(sampler, request).await;
    assert_eq!((reason, tokens.pop().unwrap().id), (SamplingEnd::StopToken, END), "{}", text(&tokens));
    text(&tokens)
}

#[tokio::test]
async fn a_model_that_knows_nothing_answers_by_the_schema_and_repeats_itself() {
    let (_home, engine) = engine();
    let sampler = engine.sampler();
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 9 },
            "count": { "type": "integer", "minimum": 0, "maximum": 99 },
            "unit": { "enum": ["c", "f", null] },
            "done": { "type": "boolean" },
        },
        "required": ["name", "count", "unit", "done"],
        "additionalProperties": false,
    });
    let mut answers = Vec::new();
    for seed in 0..12 {
        let request = kept_to(Constraint::JsonSchema(schema.clone()), seed);
        let answer_text = sampled(&sampler, request.clone()).await;
        let value: Value = serde_json::from_str(&answer_text).unwrap();
        assert!(value["name"].as_str().unwrap().chars().count() <= 9, "{value}");
        assert!(value["count"].as_u64().unwrap() <= 99, "{value}");
        assert!([json!("c"), json!("f"), Value::Null].contains(&value["unit"]), "{value}");
        assert!(value["done"].is_boolean() && value.as_object().unwrap().len() == 4, "{value}");
        assert_eq!(sampled(&sampler, request).await, answer_text);
        answers.push(answer_text);
    }
    answers.dedup();
    assert_eq!(answers.len(), 12, "the seed still counts");
}

#[tokio::test]
async fn a_control_token_is_only_what_the_grammar_says_it_is() {
    let (_home, engine) = engine();
    let grammar = format!(r#"start: <[{CONTROL}]> /[a-z]{{2}}/ ("</call>" | "<call>")"#);
    for seed in 0..8 {
        let (tokens, _) = answer(&engine.sampler(), kept_to(Constraint::Lark(grammar.clone()), seed)).await;
        assert_eq!(tokens.iter().filter(|token| token.id == CONTROL).count(), 1);
        assert_eq!(tokens[0].id, CONTROL);
        let answer_text = text(&tokens);
        assert!(answer_text.ends_with("</call><end>") || answer_text.ends_with("<call><end>"), "{answer_text}");
    }
}

/// Logprobs of all tokens that can come next.
async fn distribution(sampler: &Arc<EmbeddedSampler>, request: SampleRequest) -> Vec<(u32, f32)> {
    let request = SampleRequest { max_tokens: 1, top_logprobs: 270, ..request };
    answer(sampler, request).await.0.remove(0).top_logprobs
}

#[tokio::test]
async fn logprobs_are_those_of_the_model_over_what_the_grammar_leaves() {
    let (_home, engine) = engine();
    let sampler = engine.sampler();
    let free = distribution(&sampler, request(vec![1, 2, 3], 1, 0)).await;
    let constraint = Constraint::Lark(r#"start: "a" | "b" | "true" | "tr""#.to_owned());
    let masked = distribution(&sampler, kept_to(constraint, 0)).await;
    let mut ids: Vec<u32> = masked.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [u32::from(b'a'), u32::from(b'b'), u32::from(b't'), 259]);
    let left: f32 = free.iter().filter(|(id, _)| ids.contains(id)).map(|(_, logprob)| logprob.exp()).sum();
    for (id, logprob) in masked {
        let of_model = free.iter().find(|(other, _)| *other == id).unwrap().1;
        assert!((logprob - (of_model - left.ln())).abs() < 1e-5);
    }
}

#[tokio::test]
async fn logprobs_are_those_after_penalties_and_biases() {
    let (_home, engine) = engine();
    let sampler = engine.sampler();
    let sampling = SamplingParameters {
        presence_penalty: 0.75,
        frequency_penalty: -0.5,
        logit_bias: [(7, 4.0), (8, 4.0)].into(),
        ..SamplingParameters::default()
    };
    let changed = SampleRequest { sampling: sampling.clone(), ..request(vec![1, 2, 7], 24, 5) };
    let (tokens, _) = answer(&sampler, changed).await;
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    assert!(ids.iter().filter(|id| [7, 8].contains(*id)).count() > 2, "{ids:?}");
    for (position, token) in tokens.iter().enumerate() {
        let prompt = [&[1, 2, 7], &ids[..position]].concat();
        let mut adjusted = distribution(&sampler, request(prompt, 1, 0)).await;
        for (id, logprob) in &mut adjusted {
            let count = ids[..position].iter().filter(|other| *other == id).count() as f32;
            let presence = if count > 0.0 { sampling.presence_penalty } else { 0.0 };
            *logprob += sampling.logit_bias.get(id).unwrap_or(&0.0) - presence - sampling.frequency_penalty * count;
        }
        let total: f32 = adjusted.iter().map(|(_, logprob)| logprob.exp()).sum();
        let expected = adjusted.iter().find(|(id, _)| *id == token.id).unwrap().1 - total.ln();
        assert!((token.logprob - expected).abs() < 1e-4, "{position}: {} and {expected}", token.logprob);
    }
}

#[tokio::test]
async fn what_cannot_be_kept_to_is_refused_in_the_compilers_words() {
    let (_home, engine) = engine();
    let sampler = engine.sampler();
    for (constraint, words) in [
        (Constraint::JsonSchema(json!({ "type": "colour" })), "colour"),
        (Constraint::JsonSchema(json!({ "not": {} })), "not"),
        (Constraint::Lark("start: missing".to_owned()), "missing"),
        (Constraint::Lark("start: \"a\" %json { \"type\": \"colour\" }".to_owned()), "Invalid type: colour"),
        (Constraint::Lark("start".to_owned()), "Expected token"),
    ] {
        match sampler.sample(kept_to(constraint.clone(), 0)).await {
            Err(BackendError::InvalidRequest { message }) => {
                assert!(message.contains(words) && !message.contains(" | "), "{message}");
            }
            other => panic!("{constraint:?}: {other:?}"),
        }
    }
    let endless = SampleRequest { stop_tokens: vec![], ..kept_to(Constraint::JsonSchema(json!({})), 0) };
    assert!(matches!(sampler.sample(endless).await, Err(BackendError::InvalidRequest { .. })));
    let (_home, directory) = create(&tiny_config(), 2);
    let unknowing = open(&directory, 1).sampler();
    match unknowing.sample(kept_to(Constraint::JsonSchema(json!({})), 0)).await {
        Err(BackendError::InvalidRequest { message }) => {
            assert_eq!(message, "constraint is not supported by this model's host");
        }
        other => panic!("{other:?}"),
    }
}
