//! The messages of the Tinker API against those that the official SDK writes.

use std::fmt::Debug;

use fulgurite_tinker::wire::protobuf::{
    ArrayRecord, BatchedTensor, Chunk, ChunkContent, DType, Datum, ForwardBackwardOutput, ForwardBackwardRequest,
    LossConfigNumberOrText, SampleResponse, SampledSequence, SpanOrigin, StopReason, Tensor, TopkLogprobs,
};
use fulgurite_tinker::wire::{self, Numbers, WireError};
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../vectors/", $name, ".bin")).as_slice()
    };
}

/// Reads a message, and sees that it is written as it was.
fn read<M: Message + Default + Debug>(bytes: &[u8]) -> M {
    let message = M::decode(bytes).unwrap();
    assert_eq!(message.encode_to_vec(), bytes, "{message:?}");
    message
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.decode().unwrap().numbers.into_floats().unwrap()
}

fn integers(tensor: &Tensor) -> Vec<i64> {
    tensor.decode().unwrap().numbers.into_integers().unwrap()
}

#[test]
fn a_training_request_is_written_as_the_sdk_writes_it() {
    let request: ForwardBackwardRequest = read(golden!("importance_sampling_request"));
    assert_eq!((request.model_id.as_str(), request.seq_id, request.forward_only), ("s:train:0", 7, false));
    assert_eq!((request.loss_fn.as_str(), request.data.len()), ("importance_sampling", 2));
    let inputs = &request.data[0].loss_fn_inputs;
    assert_eq!(integers(&inputs["target_tokens"]), [0, 7, 8]);
    assert_eq!(floats(&inputs["logprobs"]), [0.0, -0.5, -1.25]);
    let datum = Datum {
        model_input: vec![Chunk::tokens(&[5, 6, 7])],
        loss_fn_inputs: [
            ("target_tokens".to_owned(), Tensor::integers([0, 7, 8].into_iter())),
            ("logprobs".to_owned(), Tensor::floats(&[0.0, -0.5, -1.25])),
            ("advantages".to_owned(), Tensor::floats(&[0.0, 1.5, -2.0])),
        ]
        .into(),
        ..Datum::default()
    };
    assert_eq!(request.data, [datum.clone(), datum]);

    let request: ForwardBackwardRequest = read(golden!("cross_entropy_request"));
    assert!(request.forward_only);
    assert_eq!(floats(&request.data[0].loss_fn_inputs["weights"]), [0.0, 1.0]);
}

#[test]
fn images_sparse_targets_configurations_and_provenance_are_read() {
    let request: ForwardBackwardRequest = read(golden!("sparse_request"));
    let datum = &request.data[0];
    let targets = datum.loss_fn_inputs["target_tokens"].decode().unwrap();
    assert_eq!(targets.numbers, Numbers::Integers(vec![0, 9, 0, 0, 0, 0, 0, 0, 4, 0]));
    assert_eq!(targets.shape, [5, 2]);
    let [text, image] = datum.model_input.as_slice() else { panic!("{datum:?}") };
    let Some(ChunkContent::EncodedText(text)) = &text.chunk else { panic!("{text:?}") };
    assert_eq!(text.token_ids(), Ok(vec![1, 2]));
    let Some(ChunkContent::Image(image)) = &image.chunk else { panic!("{image:?}") };
    assert_eq!((image.data.as_slice(), image.format.as_str(), image.expected_tokens), (&b"file"[..], "png", Some(3)));
    assert_eq!(request.loss_fn_config.into_iter().collect::<Vec<_>>(), [("clip_low_threshold".to_owned(), 0.8)]);
    let config = |name: &str| request.loss_fn_config_v2[name].value.clone().unwrap();
    assert_eq!(config("clip_low_threshold"), LossConfigNumberOrText::Number(0.8));
    assert_eq!(config("how"), LossConfigNumberOrText::Text("text".to_owned()));

    let request: ForwardBackwardRequest = read(golden!("provenance_request"));
    let datum = &request.data[0];
    let Some(SpanOrigin::PromptTokens(prompt)) = &datum.model_input_spans[0].span else { panic!("{datum:?}") };
    let Some(SpanOrigin::SampledTokens(sampled)) = &datum.loss_fn_input_spans[0].span else { panic!("{datum:?}") };
    assert_eq!((prompt.offset, prompt.length), (0, 2));
    assert_eq!((sampled.sequence_id.as_str(), sampled.offset, sampled.length), ("a", 1, 3));
}

#[test]
fn the_output_of_a_pass_is_written_as_the_sdk_reads_it() {
    let output: ForwardBackwardOutput = read(golden!("forward_backward_output"));
    let metrics = [("loss:sum".to_owned(), 2.5)].into();
    assert_eq!(output, ForwardBackwardOutput::new(&[vec![-0.5, -1.0], vec![-2.0]], metrics));
    let logprobs = output.field("logprobs").unwrap().unwrap();
    assert_eq!(logprobs, [Numbers::Floats(vec![-0.5, -1.0]), Numbers::Floats(vec![-2.0])]);
    assert_eq!(output.field("elementwise_loss"), Ok(None));

    let mut outside = BatchedTensor::floats([[1.0].as_slice()]);
    outside.offsets = [0i64, 8].iter().flat_map(|offset| offset.to_le_bytes()).collect();
    let record = ArrayRecord { fields: [("logprobs".to_owned(), outside)].into(), ..ArrayRecord::default() };
    let broken = ForwardBackwardOutput { loss_fn_outputs: vec![record], ..ForwardBackwardOutput::default() };
    assert_eq!(broken.field("logprobs"), Err(WireError::Offsets { start: 0, end: 8, bytes: 4 }));
}

#[test]
fn a_sample_is_written_as_the_sdk_reads_it() {
    let response: SampleResponse = read(golden!("sample_response"));
    let [first, second] = response.sequences.as_slice() else { panic!("{response:?}") };
    let mut expected = SampledSequence::new(StopReason::Stop, &[5, 9], &[-0.5, -0.25]);
    expected.topk_sampled_logprobs = Some(TopkLogprobs::new(&[vec![(5, -0.5), (6, -1.0)], vec![(9, -0.25)]], 2));
    assert_eq!(*first, expected);
    assert_eq!((first.token_ids(), first.token_logprobs()), (Ok(vec![5, 9]), Ok(Some(vec![-0.5, -0.25]))));
    let rows = first.topk_sampled_logprobs.as_ref().unwrap().rows().unwrap();
    assert_eq!(rows, [vec![(5, -0.5), (6, -1.0)], vec![(9, -0.25)]]);
    assert_eq!((second.stop_reason(), second.token_logprobs()), (StopReason::Length, Ok(None)));
    let alternatives = response.prompt_alt_tokens.as_ref().unwrap();
    assert_eq!(integers(alternatives.tokens.as_ref().unwrap()), [3, 4]);
    let torn = TopkLogprobs { k: 3, ..expected.topk_sampled_logprobs.unwrap() };
    assert_eq!(torn.rows(), Err(WireError::Shape { shape: vec![2, 3], actual: 4 }));
    let torn = SampledSequence { tokens: vec![1, 2, 3], ..SampledSequence::default() };
    assert_eq!(torn.token_ids(), Err(WireError::PartialNumber { bytes: 3, size: 4 }));
    assert_eq!(DType::try_from(4), Ok(DType::Bfloat16));
}

/// What the SDK of 0.38 sends for nothing. Servers on the types of an older one refuse the names.
fn left_out(name: &str, value: &Value) -> bool {
    match name {
        "optimizer_config" => *value == json!({ "type": "adamw" }),
        "kind" => value == "snapshot",
        "overwrite" => *value == json!(false),
        "topk_prompt_logprobs" | "topk_sample_logprobs" | "prompt_alt_tokens_k" => *value == json!(0),
        _ => false,
    }
}

/// A body is read, and written as it was but for what is usual.
fn body<B: Serialize + DeserializeOwned + Debug + PartialEq>(bodies: &Value, name: &str) -> B {
    let body: B = serde_json::from_value(bodies[name].clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut expected = bodies[name].clone();
    expected.as_object_mut().unwrap().retain(|name, value| !left_out(name, value));
    let written = serde_json::to_value(&body).unwrap();
    assert_eq!(written, expected, "{name}");
    assert_eq!(serde_json::from_value::<B>(written).unwrap(), body, "{name}");
    body
}

#[test]
fn bodies_are_read_and_written_as_the_sdk_writes_them() {
    let bodies: Value = serde_json::from_str(include_str!("../vectors/bodies.json")).unwrap();
    body::<wire::CreateSessionRequest>(&bodies, "create_session");
    body::<wire::SessionHeartbeatRequest>(&bodies, "session_heartbeat");
    let model: wire::CreateModelRequest = body(&bodies, "create_model");
    assert_eq!(model.lora_config.unwrap().rank, 32);
    assert_eq!(model.optimizer_config, wire::OptimizerConfig::default());
    body::<wire::GetInfoRequest>(&bodies, "get_info");
    body::<wire::LoadWeightsRequest>(&bodies, "load_weights");
    body::<wire::UnloadModelRequest>(&bodies, "unload_model");
    body::<wire::SaveWeightsRequest>(&bodies, "save_weights");
    body::<wire::SaveWeightsForSamplerRequest>(&bodies, "save_weights_for_sampler");
    body::<wire::CreateSamplingSessionRequest>(&bodies, "create_sampling_session");
    let step: wire::OptimStepRequest = body(&bodies, "optim_step");
    assert_eq!(step.adam_params, Some(wire::AdamParams::default()));
    let sample: wire::SampleRequest = body(&bodies, "sample");
    assert_eq!(sample.sampling_params.stop, Some(wire::StopSequences::Tokens(vec![2])));
}

#[test]
fn a_body_has_no_name_that_the_sdk_of_0_25_has_not_unless_it_says_something() {
    let session = wire::CreateSessionRequest { sdk_version: "0.38.0".to_owned(), ..Default::default() };
    let written = serde_json::to_value(&session).unwrap();
    assert_eq!(
        written,
        json!({ "type": "create_session", "tags": [], "user_metadata": null, "sdk_version": "0.38.0" })
    );
    let muon = wire::OptimizerConfig { kind: "dimuon".to_owned(), ..Default::default() };
    let model = |optimizer_config| wire::CreateModelRequest {
        session_id: "s".to_owned(),
        model_seq_id: 0,
        base_model: "m".to_owned(),
        lora_config: None,
        optimizer_config,
        user_metadata: None,
    };
    assert_eq!(serde_json::to_value(model(muon)).unwrap()["optimizer_config"], json!({ "type": "dimuon" }));
    let usual = serde_json::to_value(model(wire::OptimizerConfig::default())).unwrap();
    let expected = json!({ "type": "create_model", "session_id": "s", "model_seq_id": 0, "base_model": "m" });
    assert_eq!(usual, expected);
    let saved = wire::SaveWeightsRequest { model_id: "m".to_owned(), overwrite: true, ..Default::default() };
    assert_eq!(serde_json::to_value(&saved).unwrap()["overwrite"], true);
}

#[test]
fn what_a_server_need_not_say_has_its_default_and_what_is_unknown_is_ignored() {
    let config: wire::ClientConfig =
        serde_json::from_value(json!({ "fwdbwd_max_chunk_len": 4, "from_the_future": {} })).unwrap();
    assert_eq!(config, wire::ClientConfig { fwdbwd_max_chunk_len: 4, ..wire::ClientConfig::default() });
    let session: wire::CreateSessionResponse = serde_json::from_value(json!({ "session_id": "s" })).unwrap();
    assert_eq!(session.session_id, "s");
    for request_id in [json!("12"), json!(12)] {
        let submitted: wire::SubmittedRequest = serde_json::from_value(json!({ "request_id": request_id })).unwrap();
        assert_eq!(submitted.request_id, "12");
    }
    let failed: wire::RequestFailed = serde_json::from_value(json!({ "error": "why", "category": "new" })).unwrap();
    assert_eq!(failed.category, wire::ErrorCategory::Unknown);
    let stops = |stop: Value| serde_json::from_value::<wire::StopSequences>(stop).unwrap();
    assert_eq!(stops(json!([])), wire::StopSequences::Tokens(vec![]));
    assert_eq!(stops(json!(["a"])), wire::StopSequences::Texts(vec!["a".to_owned()]));
}

#[test]
fn json_arrays_are_read_as_the_binary_ones_are() {
    let tensor = |value: Value| serde_json::from_value::<wire::TensorData>(value).unwrap().decode();
    let dense = tensor(json!({ "data": [1, -2.5], "dtype": "float32", "shape": [2] })).unwrap();
    assert_eq!(dense.numbers, Numbers::Floats(vec![1.0, -2.5]));
    let sparse = json!({ "data": [9], "dtype": "int64", "shape": [2, 2],
                         "sparse_crow_indices": [0, 0, 1], "sparse_col_indices": [1] });
    assert_eq!(tensor(sparse).unwrap().numbers, Numbers::Integers(vec![0, 0, 0, 9]));
    let mixed = tensor(json!({ "data": [1.5], "dtype": "int64" }));
    assert_eq!(mixed, Err(WireError::WrongType { actual: "floats", expected: "integers" }));
}
