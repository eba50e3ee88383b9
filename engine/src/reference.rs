//! The decoder once more, slowly, in f64 and straight from its definition: what the kernels are held against.

use std::ops::Range;

use crate::model::config::ModelConfig;
use crate::model::layout::Layout;
use crate::model::model_head::ModelHead;
use crate::training::example::ReportedLogprobs;

/// The logprob of each token of `sequence` after the first; of a score, that of each before the last.
pub(crate) fn logprobs(config: &ModelConfig, layout: &Layout, values: &[f64], sequence: &[u32]) -> Vec<f64> {
    let hidden = config.hidden_size;
    let row = |place: &Range<usize>, index: usize, width: usize| &values[place.start + index * width..][..width];
    let mut stream: Vec<Vec<f64>> =
        sequence.iter().map(|&token| row(&layout.embedding, token as usize, hidden).to_vec()).collect();
    for layer in &layout.layers {
        let projected: Vec<Vec<f64>> = stream
            .iter()
            .map(|x| {
                linear(&values[layer.query_key_value.clone()], &norm(x, &values[layer.input_norm.clone()], config))
            })
            .collect();
        let (query_gain, key_gain) = (&values[layer.query_norm.clone()], &values[layer.key_norm.clone()]);
        for (position, stream) in stream.iter_mut().enumerate() {
            let attended: Vec<f64> = (0..config.num_attention_heads)
                .flat_map(|head| attend(config, &projected, position, head, query_gain, key_gain))
                .collect();
            add(stream, &linear(&values[layer.output.clone()], &attended));
            let normed = norm(stream, &values[layer.feed_forward_norm.clone()], config);
            let gate_up = linear(&values[layer.gate_up.clone()], &normed);
            let (gate, up) = gate_up.split_at(config.intermediate_size);
            let activated: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(stream, &linear(&values[layer.down.clone()], &activated));
        }
    }
    let predict = |position: usize| {
        let normed = norm(&stream[position], &values[layout.final_norm.clone()], config);
        if config.head == ModelHead::Score {
            return linear(&values[layout.score.clone()], &normed)[0];
        }
        let logits = linear(&values[layout.head.clone()], &normed);
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        logits[sequence[position + 1] as usize] - sum.ln()
    };
    (0..sequence.len() - 1).map(predict).collect()
}

fn attend(
    config: &ModelConfig,
    projected: &[Vec<f64>],
    position: usize,
    head: usize,
    query_gain: &[f64],
    key_gain: &[f64],
) -> Vec<f64> {
    let width = config.head_dim;
    let group = config.num_attention_heads / config.num_key_value_heads;
    let key_at = (config.num_attention_heads + head / group) * width;
    let value_at = key_at + config.num_key_value_heads * width;
    let part = |row: usize, at: usize| &projected[row][at..at + width];
    let query = rotate(&norm(part(position, head * width), query_gain, config), position, config);
    let scores: Vec<f64> = (0..=position)
        .map(|other| {
            let key = rotate(&norm(part(other, key_at), key_gain, config), other, config);
            (query.iter().zip(&key).map(|(q, k)| q * k).sum::<f64>() / (width as f64).sqrt()).exp()
        })
        .collect();
    let total: f64 = scores.iter().sum();
    (0..width)
        .map(|i| (0..=position).map(|other| scores[other] / total * projected[other][value_at + i]).sum())
        .collect()
}

fn rotate(x: &[f64], position: usize, config: &ModelConfig) -> Vec<f64> {
    let half = x.len() / 2;
    let angle = |i: usize| position as f64 / config.rope_theta.powf(2.0 * (i % half) as f64 / x.len() as f64);
    let partner = |i: usize| if i < half { -x[i + half] } else { x[i - half] };
    (0..x.len()).map(|i| x[i] * angle(i).cos() + partner(i) * angle(i).sin()).collect()
}

fn norm(x: &[f64], gain: &[f64], config: &ModelConfig) -> Vec<f64> {
    let square: f64 = x.iter().map(|value| value * value).sum::<f64>() / x.len() as f64;
    let inverse = 1.0 / (square + f64::from(config.rms_norm_eps)).sqrt();
    x.iter().zip(gain).map(|(value, gain)| value * inverse * gain).collect()
}

fn linear(weight: &[f64], x: &[f64]) -> Vec<f64> {
    weight.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
}

fn add(sums: &mut [f64], values: &[f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

mod tests {
    use std::sync::Arc;

    use fulgurite_types::{Chunk, Datum, LossInputs};

    use super::*;
    use crate::adapters::policy::Policy;
    use crate::checkpoints::adapter_files::read_adapter;
    use crate::checkpoints::checkpoint::read_model;
    use crate::kernels::Precision;
    use crate::model::layout::Numbers;
    use crate::model::weights::{Model, Weights};
    use crate::passes::loss::{Sampled, TokenLoss};
    use crate::test_models::{numbers, tiny_config};
    use crate::training::example::Example;
    use crate::training::shard::Shard;

    const SEQUENCES: [&[u32]; 3] =
        [&[3, 1, 4, 1, 5, 9, 2, 6], &[30, 7], &[2, 7, 18, 28, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5, 23, 5, 36, 0, 28]];

    /// Gains near 1, all else near 0 and large enough to matter.
    fn model(config: ModelConfig) -> Policy {
        let model = Arc::new(Model::new(config));
        let mut values: Vec<f32> = numbers(9, model.layout.length).iter().map(|x| 0.4 * x).collect();
        for tensor in model.layout.tensors.iter().filter(|tensor| tensor.shape.len() == 1) {
            values[tensor.place.clone()].iter_mut().for_each(|gain| *gain += 1.0);
        }
        let mut weights = Weights::zeros(model, |_| Precision::Single);
        let mut later = &values[..];
        let next = |count| later.split_off(..count).unwrap();
        weights.update(next, |values, numbers| numbers.copy_from_slice(values));
        Policy::of(Arc::new(weights))
    }

    /// All numbers in the order of the layout.
    fn doubled(weights: &Weights) -> Vec<f64> {
        let layout = &weights.model.layout;
        let mut values = vec![0.0; layout.length];
        for tensor in &layout.tensors {
            weights.get(tensor.place.start, &mut values[tensor.place.clone()]);
        }
        values.into_iter().map(f64::from).collect()
    }

    fn datum(sequence: &[u32]) -> Datum {
        Datum {
            model_input: vec![Chunk::Tokens(sequence[..sequence.len() - 1].to_vec())],
            target_tokens: sequence[1..].to_vec(),
            loss_inputs: LossInputs::Supervised { weights: vec![] },
        }
    }

    fn examples<'a>(data: &'a [Datum], loss: impl Fn(usize) -> TokenLoss) -> Vec<Example<'a>> {
        let losses = |datum: &Datum| (0..datum.target_tokens.len()).map(&loss).collect();
        data.iter().enumerate().map(|(index, datum)| Example::new(index, datum, losses(datum))).collect()
    }

    #[test]
    fn logprobs_agree_with_the_definition() {
        let heads = [(true, ModelHead::NextToken), (false, ModelHead::NextToken), (false, ModelHead::Score)];
        for (tie_word_embeddings, head) in heads {
            let policy = model(ModelConfig { tie_word_embeddings, head, ..tiny_config() });
            let weights = &policy.weights;
            let data: Vec<Datum> = SEQUENCES.iter().map(|sequence| datum(sequence)).collect();
            let scored =
                Shard::new(u64::MAX).score(&policy, &examples(&data, |_| TokenLoss::Nothing), ReportedLogprobs::All);
            for (sequence, scored) in SEQUENCES.iter().zip(scored) {
                let exact = logprobs(&weights.model.config, &weights.model.layout, &doubled(weights), sequence);
                for (found, exact) in scored.logprobs.iter().zip(exact) {
                    assert!((f64::from(*found) - exact).abs() < 1e-5, "{found} where {exact} is exact");
                }
            }
        }
    }

    #[test]
    fn gradients_are_those_of_transformers() {
        let vectors = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        for name in ["qwen3-linear", "qwen2-yarn", "llama", "llama-3.1"] {
            let directory = vectors.join(name);
            let config = ModelConfig::read(&directory.join("config.json")).unwrap();
            let model = Arc::new(Model::new(config));
            let weights = read_model(&directory, &model).unwrap();
            check_results(&Policy::of(Arc::new(weights)), &directory);
        }
    }

    #[test]
    fn logprobs_and_gradients_of_adapters_are_those_of_peft() {
        let vectors = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        for name in ["qwen3-linear", "qwen2-yarn", "llama"] {
            let (base, directory) = (vectors.join(name), vectors.join(format!("{name}-lora")));
            let config = ModelConfig::read(&base.join("config.json")).unwrap();
            let adapter = Some(Arc::new(read_adapter(&directory, &config).unwrap()));
            let model = Arc::new(Model::new(config));
            let weights = Arc::new(read_model(&base, &model).unwrap());
            check_results(&Policy { weights, adapter }, &directory);
        }
    }

    /// Holds logprobs and gradients against what transformers has computed.
    fn check_results(policy: &Policy, directory: &std::path::Path) {
        let fixture = std::fs::read_to_string(directory.join("logprobs.json")).unwrap();
        let fixture: serde_json::Value = serde_json::from_str(&fixture).unwrap();
        let tokens: Vec<u32> = serde_json::from_value(fixture["tokens"].clone()).unwrap();
        let data = [datum(&tokens)];
        let mut shard = Shard::new(u64::MAX);
        let losses = |_| TokenLoss::CrossEntropy { weight: 1.0 };
        let scored = shard.score_backward(policy, &examples(&data, losses), ReportedLogprobs::Trained);
        for (row, (found, target)) in scored[0].logprobs.iter().zip(&tokens[1..]).enumerate() {
            let expected = fixture["logprobs"][row][*target as usize].as_f64().unwrap();
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{directory:?}, {row}: {found}, not {expected}");
        }
        let path = directory.join("gradients.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), policy.trained_tensors().len());
        for tensor in policy.trained_tensors() {
            let (quads, _) = file.tensor(&tensor.name).unwrap().data().as_chunks::<4>();
            let expected: Vec<f32> = quads.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let largest = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            for (found, expected) in shard.gradient[tensor.place.clone()].iter().zip(&expected) {
                let error = (found - expected).abs() / largest;
                assert!(error < 1e-5, "{directory:?} {}: {found} where {expected} is right", tensor.name);
            }
        }
    }

    /// Holds the gradient of every tensor against differences of the definition's loss.
    fn check_gradient(policy: &Policy, loss: impl Fn(usize) -> TokenLoss) {
        let data: Vec<Datum> = SEQUENCES.iter().map(|sequence| datum(sequence)).collect();
        let mut shard = Shard::new(u64::MAX);
        let weights = &policy.weights;
        shard.score_backward(policy, &examples(&data, &loss), ReportedLogprobs::Trained);
        let (config, layout) = (&weights.model.config, &weights.model.layout);
        let exact_loss = |values: &[f64]| -> f64 {
            let of = |sequence: &&[u32]| -> f64 {
                let logprobs = logprobs(config, layout, values, sequence);
                logprobs.iter().enumerate().map(|(index, &logprob)| exact_value(loss(index), logprob)).sum()
            };
            SEQUENCES.iter().map(of).sum()
        };
        let mut values = doubled(weights);
        for tensor in &layout.tensors {
            let largest = shard.gradient[tensor.place.clone()].iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            assert!(largest > 0.0, "{} has no gradient", tensor.name);
            for index in tensor.place.clone().step_by(tensor.place.len().div_ceil(40)) {
                let kept = values[index];
                values[index] = kept + 1e-5;
                let above = exact_loss(&values);
                values[index] = kept - 1e-5;
                let below = exact_loss(&values);
                values[index] = kept;
                let (exact, found) = ((above - below) / 2e-5, f64::from(shard.gradient[index]));
                let error = (exact - found).abs() / f64::from(largest);
                assert!(error < 2e-5, "{} at {index}: {found} where {exact} is exact", tensor.name);
            }
        }
    }

    fn exact_value(loss: TokenLoss, logprob: f64) -> f64 {
        match loss {
            TokenLoss::Nothing => 0.0,
            TokenLoss::CrossEntropy { weight } => -f64::from(weight) * logprob,
            TokenLoss::ImportanceSampling { sampled } => {
                -(logprob - f64::from(sampled.logprob)).exp() * f64::from(sampled.advantage)
            }
            other => unreachable!("{other:?} has slopes of its own, tested by hand"),
        }
    }

    #[test]
    fn layers_that_are_computed_twice_leave_the_same_gradient() {
        let data: Vec<Datum> = SEQUENCES.iter().map(|sequence| datum(sequence)).collect();
        let weights = model(ModelConfig { num_hidden_layers: 3, ..tiny_config() });
        let run = |activation_bytes| {
            let mut shard = Shard::new(activation_bytes);
            let loss = |index| TokenLoss::CrossEntropy { weight: 1.0 + index as f32 };
            // The second pass finds the memory of the first.
            let scored =
                [(); 2].map(|()| shard.score_backward(&weights, &examples(&data, loss), ReportedLogprobs::All));
            (scored, shard.gradient)
        };
        assert!(run(0) == run(u64::MAX));
    }

    /// What a group's sequences begin with, and how each goes on: one twice, one that is the beginning of another.
    const PROMPT: [u32; 18] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3];
    const ANSWERS: [&[u32]; 6] =
        [&[8, 4, 6], &[8, 4, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2], &[8, 4, 6], &[8], &[30], &[8, 4, 6, 26]];

    #[test]
    fn what_sequences_share_changes_no_logprob_and_no_gradient() {
        let vectors = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        let config = ModelConfig::read(&vectors.join("qwen3-linear/config.json")).unwrap();
        let adapter = Some(Arc::new(read_adapter(&vectors.join("qwen3-linear-lora"), &config).unwrap()));
        let weights = Arc::new(read_model(&vectors.join("qwen3-linear"), &Arc::new(Model::new(config))).unwrap());
        let others = SEQUENCES.iter().map(|sequence| sequence.to_vec());
        let more = (0..30).map(|token| [&PROMPT[..], &[token, 35, token, 1]].concat());
        let sequences = ANSWERS.iter().map(|answer| [&PROMPT[..], answer].concat()).chain(others).chain(more);
        let data: Vec<Datum> = sequences.map(|sequence| datum(&sequence)).collect();
        let loss = |index| match index % 5 {
            4 => TokenLoss::Nothing,
            place => TokenLoss::CrossEntropy { weight: 0.5 - 0.25 * place as f32 },
        };
        for policy in [model(tiny_config()), Policy { weights, adapter }] {
            for memory in [0, u64::MAX] {
                let mut together = Shard::new(memory);
                let scored = together.score_backward(&policy, &examples(&data, loss), ReportedLogprobs::All);
                let mut sums = vec![0.0_f64; policy.trained_count()];
                for (index, scored) in scored.iter().enumerate() {
                    let mut alone = Shard::new(memory);
                    let example = &examples(&data, loss)[index..=index];
                    let found = alone.score_backward(&policy, example, ReportedLogprobs::All);
                    assert_eq!(found, std::slice::from_ref(scored));
                    sums.iter_mut().zip(&alone.gradient).for_each(|(sum, value)| *sum += f64::from(*value));
                }
                for tensor in policy.trained_tensors() {
                    let sums = &sums[tensor.place.clone()];
                    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
                    let found = together.gradient[tensor.place.clone()].iter().map(|found| f64::from(*found));
                    let error = squares(&mut found.zip(sums).map(|(found, sum)| found - sum));
                    let whole = squares(&mut sums.iter().copied());
                    assert!(error < 2e-6 * whole, "{}: {error} of {whole} apart", tensor.name);
                }
            }
        }
    }

    #[test]
    fn cross_entropy_gradients_agree_with_differences() {
        let loss = |index| match index % 3 {
            0 => TokenLoss::Nothing,
            place => TokenLoss::CrossEntropy { weight: place as f32 - 0.25 },
        };
        check_gradient(&model(tiny_config()), loss);
        check_gradient(&model(ModelConfig { tie_word_embeddings: false, ..tiny_config() }), loss);
        check_gradient(&model(ModelConfig { head: ModelHead::Score, ..tiny_config() }), loss);
    }

    #[test]
    fn importance_sampling_gradients_agree_with_differences() {
        check_gradient(&model(tiny_config()), |index| match index % 4 {
            3 => TokenLoss::Nothing,
            place => {
                let sampled = Sampled { logprob: -3.5, advantage: 1.0 - 0.75 * place as f32 };
                TokenLoss::ImportanceSampling { sampled }
            }
        });
    }
}
