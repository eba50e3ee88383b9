//! The engine beside a real llama.cpp server that serves the same weights; `tests/backends/llama-cpp` starts one. Without
//! it there is nothing to compare with, and these tests say so and pass.

use std::sync::Arc;

use fulgurite_types::{Constraint, SamplingParameters};

use crate::common::{open, request, supervised};
use crate::real_hosts::{RealHost, TOLERANCE, VOCABULARY};
use fulgurite_backends::{
    AnswerFault, BackendError, Learner, LlamaCppSampler, SampleEvent, SampleRequest, SampledToken, Sampler, SamplingEnd,
};
use serde_json::json;

/// Tokens below are characters of ASCII.
const ASCII: u32 = 90;
const CONTEXT: usize = 512;

fn real() -> Option<RealHost<LlamaCppSampler>> {
    RealHost::find("llama-cpp", LlamaCppSampler::new)
}

/// Answers of ASCII alone, which have no end: those never hold an incomplete character.
fn ascii() -> SamplingParameters {
    let logit_bias = (ASCII..VOCABULARY).map(|token| (token, -100.0)).collect();
    SamplingParameters { logit_bias, ..SamplingParameters::default() }
}

#[derive(Debug)]
struct Answered {
    tokens: Vec<SampledToken>,
    cached: Option<usize>,
    end: Result<SamplingEnd, BackendError>,
}

async fn answer(sampler: &dyn Sampler, request: SampleRequest) -> Answered {
    let mut stream = sampler.sample(request).await.unwrap();
    let (mut tokens, mut cached) = (Vec::new(), None);
    loop {
        match stream.next().await {
            Ok(SampleEvent::Token(token)) => tokens.push(token),
            Ok(SampleEvent::CachedPrompt(count)) => cached = Some(count),
            Ok(SampleEvent::WeightsVersions(_)) => panic!("it does not know them"),
            Ok(SampleEvent::Finished(reason)) => return Answered { tokens, cached, end: Ok(reason) },
            Err(error) => return Answered { tokens, cached, end: Err(error) },
        }
    }
}

fn ids(tokens: &[SampledToken]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}

#[tokio::test]
async fn llama_cpp_and_the_engine_agree_on_every_sampled_token() {
    let Some(real) = real() else { return };
    assert_eq!(real.sampler.info().await.unwrap().context_length, CONTEXT);
    let learner = open(&real.model, 2).learner();
    let (mut greatest, mut compared, mut broken) = (0.0f32, 0, 0);
    for seed in 0..60 {
        let sent = SampleRequest { top_logprobs: 3, ..request(vec![5, 6, 7, 8], 40, seed) };
        let answered = answer(&real.sampler, sent.clone()).await;
        let again = answer(&real.sampler, sent.clone()).await;
        assert_eq!(ids(&again.tokens), ids(&answered.tokens), "the same seed gives the same tokens");
        match answered.end {
            Ok(SamplingEnd::Length) => assert_eq!(answered.tokens.len(), 40),
            Ok(SamplingEnd::StopToken) => {}
            Err(BackendError::BrokenAnswer { fault: AnswerFault::TokensUnreported { sampled, reported }, .. }) => {
                assert!(sampled > reported);
                broken += 1;
            }
            Err(error) => panic!("{error}"),
        }
        let sequence = [&sent.prompt[..], &ids(&answered.tokens)].concat();
        let logprobs = learner.forward(Arc::new([supervised(&sequence, 1.0)])).await.unwrap();
        for (token, ours) in answered.tokens.iter().zip(&logprobs[0][sent.prompt.len() - 1..]) {
            assert_eq!(token.top_logprobs.len(), 3);
            greatest = greatest.max((token.logprob - ours).abs());
            compared += 1;
        }
    }
    eprintln!(
        "greatest difference of a logprob between llama.cpp and the engine: {greatest:e} of {compared} tokens; {broken} of \
         60 answers broken where tokens were kept back"
    );
    assert!(greatest < TOLERANCE, "what comes before a hole is told as it was sampled: {greatest}");
    assert!(compared > 200 && broken > 0);
}

#[tokio::test]
async fn logprobs_are_those_of_the_distribution_that_was_sampled_from() {
    let Some(real) = real() else { return };
    let with = async |change: SamplingParameters| {
        let sampling = SamplingParameters { logit_bias: ascii().logit_bias, ..change };
        let sent = SampleRequest { sampling, top_logprobs: 20, ..request(vec![5, 6], 1, 3) };
        answer(&real.sampler, sent).await.tokens.remove(0)
    };
    let plain = with(SamplingParameters::default()).await.top_logprobs;
    let cold = with(SamplingParameters { temperature: 0.5, ..SamplingParameters::default() }).await.top_logprobs;
    let gap = |top: &[(u32, f32)], one: usize, other: usize| top[one].1 - top[other].1;
    assert!((gap(&cold, 0, 5) - 2.0 * gap(&plain, 0, 5)).abs() < TOLERANCE);

    // The five likeliest, or those that hold half of it, share all of it as they did a part.
    let five = with(SamplingParameters { top_k: Some(5), ..SamplingParameters::default() }).await;
    let half = with(SamplingParameters { top_p: 0.5, ..SamplingParameters::default() }).await;
    let before = plain.iter().scan(0.0, |sum, (_, logprob)| Some(std::mem::replace(sum, *sum + logprob.exp())));
    let holding_half = before.take_while(|sum| *sum < 0.5).count();
    for (chosen, count) in [(five, 5), (half, holding_half)] {
        assert_eq!(chosen.top_logprobs.len(), count);
        let whole: f32 = plain[..count].iter().map(|(_, logprob)| logprob.exp()).sum();
        for ((id, logprob), (plain_id, plain)) in chosen.top_logprobs.iter().zip(&plain) {
            assert_eq!(id, plain_id);
            assert!((logprob - (plain - whole.ln())).abs() < TOLERANCE, "{logprob} {plain} {whole}");
        }
        assert!(chosen.top_logprobs.iter().any(|(id, logprob)| (*id, *logprob) == (chosen.id, chosen.logprob)));
    }

    let greedy = with(SamplingParameters { temperature: 0.0, ..SamplingParameters::default() }).await;
    assert_eq!((greedy.id, greedy.logprob), (plain[0].0, 0.0));
    let biased = SamplingParameters { logit_bias: [(77, 100.0)].into(), ..SamplingParameters::default() };
    let biased = answer(&real.sampler, SampleRequest { sampling: biased, ..request(vec![5, 6], 1, 3) }).await;
    assert_eq!(biased.tokens[0].id, 77);
}

#[tokio::test]
async fn an_answer_that_fills_the_context_is_whole() {
    let Some(real) = real() else { return };
    let prompt: Vec<u32> = (5..17).collect();
    let room = CONTEXT - prompt.len();
    let sent = SampleRequest { sampling: ascii(), ..request(prompt, room, 1) };
    let answered = answer(&real.sampler, sent).await;
    assert_eq!(answered.tokens.len(), room);
    assert!(matches!(answered.end, Ok(SamplingEnd::Length)), "{:?}", answered.end);
}

#[tokio::test]
async fn a_sampled_stop_token_is_the_last_token() {
    let Some(real) = real() else { return };
    let sent = SampleRequest { sampling: ascii(), ..request(vec![5, 6], 20, 1) };
    let tokens = answer(&real.sampler, sent.clone()).await.tokens;
    let stop = tokens[7].id;
    let first = tokens.iter().position(|token| token.id == stop).unwrap();
    let stopped = answer(&real.sampler, SampleRequest { stop_tokens: vec![stop], ..sent }).await;
    assert!(matches!(stopped.end, Ok(SamplingEnd::StopToken)));
    assert_eq!(ids(&stopped.tokens), ids(&tokens[..=first]));
}

#[tokio::test]
async fn it_tells_how_much_of_a_prompt_it_had_in_its_cache() {
    let Some(real) = real() else { return };
    let prompt: Vec<u32> = (30..70).collect();
    let sent = SampleRequest { sampling: ascii(), ..request(prompt.clone(), 4, 1) };
    let first = answer(&real.sampler, sent.clone()).await;
    let longer = SampleRequest { prompt: [&prompt[..], &ids(&first.tokens), &[7, 8]].concat(), ..sent };
    let cached = answer(&real.sampler, longer).await.cached.unwrap();
    assert!(cached >= 40, "{cached}");
}

#[tokio::test]
async fn a_schema_is_refused_unless_the_likeliest_tokens_are_asked_for() {
    let Some(real) = real() else { return };
    let constraint = Some(Constraint::JsonSchema(json!({ "type": "boolean" })));
    let request_of = |temperature| SampleRequest {
        sampling: SamplingParameters { temperature, constraint: constraint.clone(), ..SamplingParameters::default() },
        ..request(vec![5, 6], 40, 3)
    };
    let refused = real.sampler.sample(request_of(1.0)).await;
    assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
    let answered = answer(&real.sampler, request_of(0.0)).await;
    assert!(matches!(answered.end, Ok(SamplingEnd::StopToken)), "{answered:?}");
}

#[tokio::test]
async fn what_the_server_refuses_is_the_callers_to_put_right() {
    let Some(real) = real() else { return };
    let other_key = real.sampler_with_key(Some("another"));
    let refused = other_key.info().await;
    assert!(matches!(refused, Err(BackendError::Configuration { .. })), "{refused:?}");
    let constraint = Some(Constraint::JsonSchema(json!({ "type": 7 })));
    let sampling = SamplingParameters { temperature: 0.0, constraint, ..SamplingParameters::default() };
    let refused = match real.sampler.sample(SampleRequest { sampling, ..request(vec![5, 6], 4, 3) }).await {
        Ok(mut stream) => stream.next().await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(BackendError::InvalidRequest { .. })), "{refused:?}");
}
