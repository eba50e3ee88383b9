#![allow(missing_docs, clippy::all, clippy::print_stdout, clippy::unwrap_used)]
use fulgurite_engine::*;
use fulgurite_trainer::*;
use std::time::Instant;
struct P(Instant);
impl Reporter for P {
    fn report(&mut self, e: TrainEvent) {
        if let TrainEvent::SupervisedStep { step, loss, validation_accuracy, .. } = e {
            if validation_accuracy.is_some() {
                println!("{step} loss {loss:.3} acc {:?} {:.1}s", validation_accuracy, self.0.elapsed().as_secs_f64());
            }
        }
    }
}
#[tokio::main]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let seed: u64 = a[1].parse().unwrap();
    let lr: f64 = a[2].parse().unwrap();
    let max: u64 = a[3].parse().unwrap();
    let d: usize = a[4].parse().unwrap();
    let vocab: usize = a.get(5).map_or(320, |v| v.parse().unwrap());
    let corpus = String::from_utf8(
        std::process::Command::new("target/release/hello-corpus")
            .args(["--seed", &a[1], "--count", "20000"])
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    let mut texts = vec![];
    for l in corpus.lines() {
        let v: serde_json::Value = serde_json::from_str(l).unwrap();
        for m in v["messages"].as_array().unwrap() {
            texts.push(m["content"].as_str().unwrap().to_owned());
        }
    }
    let tj = fulgurite_renderers::train_byte_level_tokenizer(&texts, vocab, &[]).unwrap();
    let dir = format!("/tmp/probe-{seed}-{lr}-{d}");
    let _ = std::fs::remove_dir_all(&dir);
    let dd = format!("{dir}-t");
    let _ = std::fs::remove_dir_all(&dd);
    let dir = std::path::Path::new(&dir);
    let dd = std::path::Path::new(&dd);
    fulgurite_renderers::write_tokenizer_directory(dd, &tj).unwrap();
    let t = fulgurite_renderers::Tokenizer::open(dd).unwrap();
    let c = ModelConfig {
        vocab_size: t.vocabulary_size(),
        hidden_size: d,
        intermediate_size: 3 * d,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: d / 4,
        max_position_embeddings: 256,
        rms_norm_eps: 1e-6,
        rope_theta: 10000.0,
        tie_word_embeddings: true,
        other: Default::default(),
    };
    println!("params {} vocab {}", c.parameter_count(), t.vocabulary_size());
    create_model(dir, &c, seed).unwrap();
    fulgurite_renderers::write_tokenizer_directory(dir, &tj).unwrap();
    let e = Engine::open(dir, EngineOptions::default()).unwrap();
    let r = fulgurite_renderers::open_renderer(dir, "chatml").unwrap();
    let o = SupervisedOptions {
        validation_accuracy: Some(0.97),
        cooldown_steps: 400,
        learning_rate: lr,
        max_steps: max,
        validate_every: 50,
        ..Default::default()
    };
    println!(
        "{:?}",
        train_supervised(e.learner().as_ref(), r.as_ref(), &corpus, &o, seed, &mut P(Instant::now())).await
    );
}
