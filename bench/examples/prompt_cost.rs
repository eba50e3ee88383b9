//! What a call's prompt and answer cost in processor time: `cargo run --release -p fulgurite-bench --example prompt_cost MODEL_DIR TEXT`.
//!
//! TEXT is a file; its paragraphs are the users' messages, each of which is new to the tokenizer.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::sync::Arc;

use fulgurite_renderers::{Renderer, StreamDecoder, Tokenizer, open_renderer};
use fulgurite_types::Message;

const ROUNDS: usize = 5;

/// Nanoseconds that this thread has run.
fn thread_time() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

fn measure(what: &str, calls: usize, mut call: impl FnMut(usize)) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let before = thread_time();
        (0..calls).for_each(&mut call);
        best = best.min((thread_time() - before) as f64 / calls as f64 / 1000.0);
    }
    println!("{what:40} {best:9.2} µs");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&arguments[2]).unwrap();
    let texts: Vec<&str> = text.split("\n\n").filter(|text| !text.is_empty()).collect();
    let model = Path::new(&arguments[1]);
    let renderer: Arc<dyn Renderer> = open_renderer(model, "auto").unwrap();
    let tokenizer: &Arc<Tokenizer> = renderer.tokenizer();
    let tokens: usize = texts.iter().map(|text| tokenizer.encode_ordinary(text).unwrap().len()).sum();
    println!("{} messages of {} tokens", texts.len(), tokens / texts.len());
    let mut number = 0;
    measure("prompt of a new message", 10 * texts.len(), |index| {
        number += 1;
        let messages = [
            Message::text("system", texts[0]),
            Message::text("user", format!("{number} {}", texts[index % texts.len()])),
        ];
        renderer.render_prompt(&messages, &[]).unwrap();
    });
    let known = [Message::text("system", texts[0]), Message::text("user", texts[1])];
    measure("prompt of a known message", 5000, |_| drop(renderer.render_prompt(&known, &[]).unwrap()));
    let prompt = renderer.render_prompt(&known, &[]).unwrap().tokens;
    let mut answer = tokenizer.encode_ordinary(texts[0]).unwrap();
    answer.truncate(49);
    answer.extend(renderer.stop_tokens().first());
    measure("answer parsed token by token", 5000, |_| {
        let mut parser = renderer.stream_parser(&prompt, &[]);
        answer.iter().for_each(|token| drop(parser.feed(&[*token])));
        parser.finish();
    });
    measure("answer parsed at once", 5000, |_| drop(renderer.parse(&prompt, &answer, &[])));
    measure("answer detokenised", 5000, |_| {
        let mut decoder = StreamDecoder::new(tokenizer.clone());
        answer.iter().for_each(|token| drop(decoder.feed(*token)));
    });
}
