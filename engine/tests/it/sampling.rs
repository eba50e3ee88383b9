//! What the sampler promises to a request.

use std::sync::Arc;

use fulgurite_types::{Constraint, SamplingParameters, WeightsVersion};

use crate::common::{answer, create, open, options, request, sequence, tiny_config};
use fulgurite_backends::{
    BackendError, Capabilities, Learner, LossFunction, SampleEvent, SampleRequest, Sampler, SamplerInfo, SamplingEnd,
    StopSequence,
};
use fulgurite_engine::{Engine, EngineOptions, ModelConfig};

#[tokio::test]
async fn an_answer_ends_at_its_limit_at_the_context_or_at_a_stop_token() {
    let (_home, directory) = create(&tiny_config(), 2);
    let engine = open(&directory, 2);
    let sampler = engine.sampler();
    assert_eq!(
        sampler.info().await.unwrap(),
        SamplerInfo {
            context_length: 96,
            vocabulary_size: 41,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                stop_sequences: true,
                top_logprobs: usize::MAX,
                ..Capabilities::default()
            }
        }
    );

    let (tokens, reason) = answer(&sampler, request(vec![1, 2], 7, 5)).await;
    assert_eq!((tokens.len(), reason), (7, SamplingEnd::Length));
    let (long, reason) = answer(&sampler, request(sequence(1, 90, 41), 50, 5)).await;
    assert_eq!((long.len(), reason), (6, SamplingEnd::Length));

    let stop = tokens[3].id;
    let first = tokens.iter().position(|token| token.id == stop).unwrap();
    let mut stopping = request(vec![1, 2], 7, 5);
    stopping.stop_tokens = vec![40, stop];
    let (stopped, reason) = answer(&sampler, stopping).await;
    let expected = tokens.iter().position(|token| token.id == 40).map_or(first, |other| other.min(first));
    assert_eq!(reason, SamplingEnd::StopToken);
    assert_eq!(stopped, tokens[..=expected]);
}

#[tokio::test]
async fn an_answer_ends_with_the_token_that_completes_a_stop_sequence() {
    let (_home, directory) = create(&tiny_config(), 2);
    let sampler = open(&directory, 1).sampler();
    let (endless, _) = answer(&sampler, request(vec![1, 2], 60, 5)).await;
    let ids: Vec<u32> = endless.iter().map(|token| token.id).collect();
    for (sequence, answer_ends) in [(ids[30..33].to_vec(), true), (vec![ids[0]; 9], false), (ids[0..1].to_vec(), true)]
    {
        let end = ids.windows(sequence.len()).position(|window| window == sequence).map(|at| at + sequence.len());
        let mut stopping = request(vec![1, 2], 60, 5);
        stopping.stop_sequences = vec![StopSequence::Tokens(vec![2, 2, 2, 2, 2, 2]), StopSequence::Tokens(sequence)];
        let (stopped, reason) = answer(&sampler, stopping).await;
        assert_eq!(stopped, endless[..end.unwrap_or(60)]);
        assert_eq!(reason, if answer_ends { SamplingEnd::StopToken } else { SamplingEnd::Length });
    }
}

#[tokio::test]
async fn what_can_never_succeed_is_refused_at_once() {
    let (_home, directory) = create(&tiny_config(), 2);
    let sampler = open(&directory, 1).sampler();
    let base = || request(vec![1, 2], 4, 0);
    let mut bad = vec![request(vec![], 4, 0), request(vec![41], 4, 0), request(vec![1], 0, 0)];
    for (temperature, top_p, top_k) in
        [(-1.0, 1.0, None), (f32::NAN, 1.0, None), (1.0, 0.0, None), (1.0, 1.5, None), (1.0, 1.0, Some(0))]
    {
        let mut request = base();
        (request.sampling.temperature, request.sampling.top_p, request.sampling.top_k) = (temperature, top_p, top_k);
        bad.push(request);
    }
    for change in [
        |sampling: &mut SamplingParameters| sampling.presence_penalty = f32::NAN,
        |sampling: &mut SamplingParameters| sampling.frequency_penalty = f32::INFINITY,
        |sampling: &mut SamplingParameters| sampling.logit_bias = [(41, 1.0)].into(),
        |sampling: &mut SamplingParameters| sampling.logit_bias = [(1, f32::NAN)].into(),
        |sampling: &mut SamplingParameters| sampling.constraint = Some(Constraint::JsonSchema(true.into())),
    ] {
        let mut request = base();
        change(&mut request.sampling);
        bad.push(request);
    }
    for sequence in [StopSequence::Tokens(vec![]), StopSequence::Text(String::new()), StopSequence::Text("a".into())] {
        bad.push(SampleRequest { stop_sequences: vec![sequence], ..base() });
    }
    for request in bad {
        let error = sampler.sample(request.clone()).await.unwrap_err();
        assert!(matches!(error, BackendError::InvalidRequest { .. }), "{request:?}: {error}");
    }
    let error = sampler.sample(request(vec![1; 96], 4, 0)).await.unwrap_err();
    assert!(matches!(error, BackendError::PromptTooLong { prompt_tokens: 96, context_length: 96 }));
    answer(&sampler, base()).await;
}

#[tokio::test]
async fn alternatives_come_likeliest_first_and_change_no_token() {
    let (_home, directory) = create(&tiny_config(), 2);
    let sampler = open(&directory, 2).sampler();
    let mut asking = request(vec![7, 8], 12, 1);
    let (plain, _) = answer(&sampler, asking.clone()).await;
    asking.top_logprobs = 41;
    let (reported, _) = answer(&sampler, asking).await;
    for (plain, reported) in plain.iter().zip(&reported) {
        assert_eq!((plain.id, plain.logprob), (reported.id, reported.logprob));
        assert!(reported.top_logprobs.is_sorted_by(|left, right| left.1 >= right.1));
        assert!(reported.top_logprobs.contains(&(reported.id, reported.logprob)));
        assert_eq!(reported.top_logprobs.len(), 41);
    }
}

#[tokio::test]
async fn a_prompt_read_in_several_steps_gives_what_one_step_gives() {
    // Longer than what one step reads; the definition of equal is the learner's, who reads all at once.
    let (_home, directory) = create(&ModelConfig { max_position_embeddings: 700, ..tiny_config() }, 2);
    let engine = open(&directory, 2);
    let prompt = sequence(4, 600, 41);
    let (tokens, _) = answer(&engine.sampler(), request(prompt.clone(), 5, 1)).await;
    let logprobs = engine.learner().forward([crate::common::policy(&prompt, &tokens, 1.0)].into()).await.unwrap();
    let sampled: Vec<f32> = tokens.iter().map(|token| token.logprob).collect();
    assert_eq!(sampled, logprobs[0][599..]);
}

#[tokio::test]
async fn an_answer_keeps_the_weights_it_began_with() {
    let (_home, directory) = create(&ModelConfig { max_position_embeddings: 4000, ..tiny_config() }, 2);
    let engine = open(&directory, 2);
    let (sampler, learner) = (engine.sampler(), engine.learner());
    let (undisturbed, _) = answer(&sampler, request(vec![3, 4], 3000, 9)).await;

    let mut stream = sampler.sample(request(vec![3, 4], 3000, 9)).await.unwrap();
    let data: Arc<[_]> = [crate::common::supervised(&sequence(2, 30, 41), 1.0)].into();
    learner.forward_backward(data, LossFunction::CrossEntropy).await.unwrap();
    learner.optimizer_step(Default::default()).await.unwrap();
    learner.publish_weights(WeightsVersion(1)).await.unwrap();
    assert_eq!(sampler.weights_version(), Some(WeightsVersion(1)));
    let (fresh, _) = answer(&sampler, request(vec![3, 4], 10, 9)).await;
    assert!(fresh.iter().all(|token| token.weights_version == Some(WeightsVersion(1))));

    let mut tokens = Vec::new();
    while let SampleEvent::Token(token) = stream.next().await.unwrap() {
        tokens.push(token);
    }
    assert_eq!(tokens, undisturbed);
}

#[tokio::test]
async fn a_conversations_second_turn_says_what_was_cached_of_the_first() {
    let (_home, directory) = create(&ModelConfig { max_position_embeddings: 256, ..tiny_config() }, 2);
    let engine = open(&directory, 1);
    let sampler = engine.sampler();
    let prompt: Vec<u32> = (0..40).map(|place| 1 + place % 7).collect();
    let turn = async |prompt: Vec<u32>| {
        let mut stream = sampler.sample(request(prompt, 12, 3)).await.unwrap();
        let (mut tokens, mut cached) = (Vec::new(), None);
        loop {
            match stream.next().await.unwrap() {
                SampleEvent::Token(token) => tokens.push(token.id),
                SampleEvent::CachedPrompt(tokens) => cached = Some(tokens),
                SampleEvent::Finished(_) => return (tokens, cached),
                other => panic!("{other:?}"),
            }
        }
    };
    let (answer, cached) = turn(prompt.clone()).await;
    assert_eq!((answer.len(), cached), (12, Some(0)));
    // Of 51 tokens that the model has read, those of three whole blocks.
    let second = [prompt, answer, vec![1, 2, 3]].concat();
    assert_eq!(turn(second).await.1, Some(48));
}

#[tokio::test]
async fn a_full_queue_is_said_so_and_a_dropped_stream_gives_its_place_back() {
    let (_home, directory) = create(&ModelConfig { max_position_embeddings: 1 << 20, head_dim: 2, ..tiny_config() }, 2);
    let engine = Engine::open(&directory, EngineOptions { max_batch: 1, queue_limit: 1, ..options(1) }).unwrap();
    let sampler = engine.sampler();
    let endless = || request(vec![1], 1 << 20, 0);
    let mut running = sampler.sample(endless()).await.unwrap();
    running.next().await.unwrap();
    let waiting = sampler.sample(endless()).await.unwrap();
    assert!(matches!(sampler.sample(endless()).await, Err(BackendError::Overloaded { limit: 1 })));
    drop(running);
    drop(waiting);
    // Both places come free, although neither request was answered.
    loop {
        match sampler.sample(request(vec![1], 1, 0)).await {
            Ok(mut stream) => break assert!(matches!(stream.next().await, Ok(SampleEvent::Token(_)))),
            Err(error) => assert!(matches!(error, BackendError::Overloaded { .. })),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropping_the_engine_breaks_off_what_runs() {
    let (_home, directory) = create(&ModelConfig { max_position_embeddings: 1 << 20, head_dim: 2, ..tiny_config() }, 2);
    let engine = open(&directory, 1);
    let mut stream = engine.sampler().sample(request(vec![1], 1 << 20, 0)).await.unwrap();
    stream.next().await.unwrap();
    drop(engine);
    loop {
        match stream.next().await {
            Ok(SampleEvent::Token(_)) => {}
            end => break assert!(matches!(end, Err(BackendError::Unavailable { .. })), "{end:?}"),
        }
    }
}
