//! What asking vLLM and reading its answer cost the thread that does it: `cargo run --release -p fulgurite-bench --example vllm_cost`.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use fulgurite_backends::{Changeover, RemoteOptions, SampleRequest, Sampler, VllmSampler};
use serde_json::json;

const PROMPT: usize = 200;
const SAMPLED: usize = 50;
const CALLS: usize = 2000;
const ROUNDS: usize = 5;

/// Nanoseconds that this thread has run.
fn thread_time() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

/// Answers of one connection, whose requests have a length and no chunks.
fn serve(socket: TcpStream) {
    socket.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut socket = socket;
    let answers: Vec<Vec<u8>> = [1, SAMPLED].map(stream).into();
    loop {
        let (mut path, mut length) = (String::new(), 0);
        for number in 0.. {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if number == 0 {
                path = line.split(' ').nth(1).unwrap().to_owned();
            } else if let Some(length_text) = line.to_lowercase().strip_prefix("content-length:") {
                length = length_text.trim().parse().unwrap();
            } else if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let is_first = String::from_utf8_lossy(&body).contains("\"max_tokens\":1,");
        let answer = match path.as_str() {
            "/v1/models" => whole(200, &json!({ "data": [{ "id": "bench", "max_model_len": 32768 }] }).to_string()),
            "/v1/completions" if is_first => answers[0].clone(),
            "/v1/completions" => answers[1].clone(),
            _ => whole(404, "{}"),
        };
        socket.write_all(&answer).unwrap();
    }
}

fn whole(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into()
}

/// One event for each token, in the shape that vLLM's have.
fn stream(tokens: usize) -> Vec<u8> {
    let mut answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                      transfer-encoding: chunked\r\ndate: Sun, 22 Nov 2026 08:00:00 GMT\r\n\r\n"
        .to_owned();
    let mut chunk = |text: &str| answer.push_str(&format!("{:x}\r\n{text}\r\n", text.len()));
    for place in 0..tokens {
        let token = 300 + place * 37 % 5000;
        let logprob = -f64::from((place as f32 * 0.37).sin().abs());
        let name = format!("token_id:{token}");
        let choice = json!({
            "index": 0, "text": " word", "finish_reason": (place + 1 == tokens).then_some("length"),
            "stop_reason": null, "token_ids": [token],
            "prompt_token_ids": (place == 0 && tokens > 1).then(prompt),
            "logprobs": { "text_offset": [0], "token_logprobs": [logprob], "tokens": [name],
                "top_logprobs": [{ name: logprob }] },
        });
        let event = json!({ "id": "cmpl-1", "object": "text_completion", "created": 1_795_256_016, "model": "bench",
            "choices": [choice], "usage": null });
        chunk(&format!("data: {event}\n\n"));
    }
    chunk("data: [DONE]\n\n");
    chunk("");
    answer.into_bytes()
}

fn prompt() -> Vec<u32> {
    (0..PROMPT as u32).map(|place| 100 + place * 29 % 7000).collect()
}

async fn call(sampler: &VllmSampler) -> usize {
    let request = SampleRequest { stop_tokens: vec![2], ..SampleRequest::new(prompt(), SAMPLED, 1_234_567_890_123) };
    let mut stream = sampler.sample(request).await.unwrap();
    let mut count = 0;
    while count <= SAMPLED {
        count += stream.next_events().await.into_iter().map(Result::unwrap).count();
    }
    count
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            std::thread::spawn(move || serve(socket));
        }
    });
    let options = RemoteOptions {
        url,
        model: "bench".into(),
        vocabulary_size: 8000,
        api_key: None,
        silence_limit: Duration::from_secs(60),
        changeover: Changeover::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sampler = VllmSampler::new(&options).unwrap();
        call(&sampler).await;
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let before = thread_time();
            for _ in 0..CALLS {
                call(&sampler).await;
            }
            best = best.min((thread_time() - before) as f64 / CALLS as f64 / 1000.0);
        }
        println!("{PROMPT} prompt tokens, {SAMPLED} sampled: {best:.1} µs");
    });
}
