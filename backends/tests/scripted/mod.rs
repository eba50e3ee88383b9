//! A model host over real sockets that plays scripts: what it answers is written down byte for byte.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// As they came, names in lower case.
    pub head: String,
    /// Null where there was none, or none that is JSON.
    pub body: Value,
    /// The body's bytes.
    pub bytes: Vec<u8>,
}

/// How a request is answered.
pub enum ScriptedReply {
    Json(u16, Value),
    /// Status 200 and a stream of events, step by step.
    Stream(Vec<Step>),
    /// Without any head.
    Raw(Vec<Step>),
}

/// What is done next on a connection.
pub enum Step {
    /// One event.
    Event(Value),
    /// One event that is no JSON.
    Text(String),
    /// These bytes, as one piece of the body.
    Bytes(Vec<u8>),
    /// Goes on once it is told to.
    Wait(Arc<Notify>),
    /// Nothing any more until the client is gone, which is told.
    Hang(oneshot::Sender<()>),
    /// The regular end of a stream.
    End,
    /// The connection is reset.
    Reset,
    /// The connection is closed in the middle.
    Close,
}

impl Step {
    pub fn done() -> Vec<Step> {
        vec![Step::Text("[DONE]".to_owned()), Step::End]
    }
}

pub struct ScriptedServer {
    pub url: String,
    pub requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl ScriptedServer {
    /// Answers each request as `answer` says.
    pub async fn start(answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// As [`ScriptedServer::start`], on that address.
    pub fn start_on(listener: TcpListener, answer: impl Fn(&Request) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let (answer, seen, count) = (Arc::new(answer), requests.clone(), connections.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let (answer, seen) = (answer.clone(), seen.clone());
                connections.spawn(async move { serve(socket, &*answer, &seen).await });
            }
        });
        Self { url, requests, connections, task }
    }

    /// Bodies of the POSTs to a path so far.
    pub fn posts(&self, path: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|r| r.method == "POST" && r.path == path).map(|r| r.body.clone()).collect()
    }

    /// How many connections were made to it.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn heads(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.head.clone()).collect()
    }

    /// Goes away with all its connections.
    pub async fn die(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn serve(
    mut socket: TcpStream,
    answer: &(dyn Fn(&Request) -> ScriptedReply + Send + Sync),
    seen: &Mutex<Vec<Request>>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer).await {
        let reply = answer(&request);
        seen.lock().unwrap().push(request);
        if !write_reply(&mut socket, reply).await {
            return;
        }
    }
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(buffer).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let lower: String = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    let bytes = buffer[head_end..head_end + length].to_vec();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    buffer.drain(..head_end + length);
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Request { method, path, head, body, bytes })
}

/// Whether the connection can be used again.
async fn write_reply(socket: &mut TcpStream, reply: ScriptedReply) -> bool {
    let (steps, is_chunked) = match reply {
        ScriptedReply::Json(status, value) => {
            let body = value.to_string();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
            return socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.is_ok();
        }
        ScriptedReply::Stream(steps) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                        transfer-encoding: chunked\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            (steps, true)
        }
        ScriptedReply::Raw(steps) => (steps, false),
    };
    for step in steps {
        let bytes = match step {
            Step::Event(value) => format!("data: {value}\n\n").into_bytes(),
            Step::Text(text) => format!("data: {text}\n\n").into_bytes(),
            Step::Bytes(bytes) => bytes,
            Step::Wait(notify) => {
                notify.notified().await;
                continue;
            }
            Step::Hang(on_disconnect) => {
                while socket.read_buf(&mut Vec::new()).await.unwrap_or(0) > 0 {}
                let _ = on_disconnect.send(());
                return false;
            }
            Step::End => {
                socket.write_all(b"0\r\n\r\n").await.unwrap();
                return true;
            }
            Step::Reset => {
                socket.set_zero_linger().unwrap();
                return false;
            }
            Step::Close => return false,
        };
        let written = match is_chunked {
            true => [format!("{:x}\r\n", bytes.len()).into_bytes(), bytes, b"\r\n".to_vec()].concat(),
            false => bytes,
        };
        // A client may leave at any time.
        if socket.write_all(&written).await.is_err() {
            return false;
        }
    }
    false
}

/// Writes tokens with their logprobs, and why the answer ends with them, as an event.
type WriteEvent = fn(&[(u32, f64)], Option<&str>) -> Value;

/// What vLLM answers whatever it is asked to sample.
pub struct Vllm {
    pub generates: bool,
    pub processed_logprobs: bool,
    pub max_model_len: usize,
    pub scripts: Mutex<VecDeque<ScriptedReply>>,
}

impl Vllm {
    pub fn new(generates: bool, processed_logprobs: bool) -> Arc<Self> {
        Arc::new(Self { generates, processed_logprobs, max_model_len: 64, scripts: Mutex::default() })
    }

    pub fn play(&self, reply: ScriptedReply) {
        self.scripts.lock().unwrap().push_back(reply);
    }

    pub async fn serve(self: &Arc<Self>) -> ScriptedServer {
        let vllm = self.clone();
        ScriptedServer::start(move |request| vllm.answer(request)).await
    }

    pub fn answer(&self, request: &Request) -> ScriptedReply {
        let unknown = || ScriptedReply::Json(404, json!({ "detail": "Not Found" }));
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/health") => ScriptedReply::Json(200, Value::Null),
            ("GET", "/v1/models") => {
                let model = json!({ "id": "served", "object": "model", "max_model_len": self.max_model_len });
                ScriptedReply::Json(200, json!({ "object": "list", "data": [model] }))
            }
            ("POST", "/inference/v1/generate") if !self.generates => ScriptedReply::Json(403, json!({ "error": "no" })),
            ("POST", "/inference/v1/generate" | "/v1/completions") if request.body == json!({}) => {
                ScriptedReply::Json(400, json!({ "error": { "message": "token_ids is missing", "code": 400 } }))
            }
            ("POST", "/inference/v1/generate") if request.body["sampling_params"]["top_k"] == 1 => {
                ScriptedReply::Stream(self.probe(generated))
            }
            ("POST", "/v1/completions") if request.body["top_k"] == 1 => ScriptedReply::Stream(self.probe(completed)),
            ("POST", "/inference/v1/generate" | "/v1/completions") => {
                self.scripts.lock().unwrap().pop_front().unwrap_or_else(unknown)
            }
            _ => unknown(),
        }
    }

    fn probe(&self, event: WriteEvent) -> Vec<Step> {
        let (logprob, other) = if self.processed_logprobs { (0.0, -9999.0) } else { (-1.0, -2.0) };
        let mut event = event(&[(3, logprob)], Some("length"));
        if let Some(tops) = event.pointer_mut("/choices/0/logprobs/top_logprobs/0") {
            *tops = json!({ "token_id:3": logprob, "token_id:4": other });
        }
        if let Some(tops) = event.pointer_mut("/choices/0/logprobs/content/0/top_logprobs") {
            *tops = json!([{ "token_id": 3, "logprob": logprob }, { "token_id": 4, "logprob": other }]);
        }
        let mut steps = vec![Step::Event(event)];
        steps.extend(Step::done());
        steps
    }
}

/// An event of `/v1/completions`.
pub fn completed(tokens: &[(u32, f64)], finish_reason: Option<&str>) -> Value {
    let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
    let names: Vec<String> = ids.iter().map(|id| format!("token_id:{id}")).collect();
    let logprobs: Vec<f64> = tokens.iter().map(|token| token.1).collect();
    let tops: Vec<Value> = tokens.iter().map(|(id, logprob)| json!({ format!("token_id:{id}"): logprob })).collect();
    json!({ "id": "cmpl-1", "object": "text_completion", "choices": [{
        "index": 0, "text": "?", "token_ids": ids, "finish_reason": finish_reason, "stop_reason": null,
        "logprobs": { "tokens": names, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": [] },
    }] })
}

/// An event of `/inference/v1/generate`.
pub fn generated(tokens: &[(u32, f64)], finish_reason: Option<&str>) -> Value {
    let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
    let entry = |(id, logprob): &(u32, f64)| {
        let top = [json!({ "token_id": id, "logprob": logprob, "rank": 1 })];
        json!({ "token_id": id, "logprob": logprob, "rank": 1, "top_logprobs": top })
    };
    let content: Vec<Value> = tokens.iter().map(entry).collect();
    json!({ "request_id": "r-1", "usage": null, "choices": [{
        "index": 0, "token_ids": ids, "finish_reason": finish_reason, "stop_reason": null,
        "weight_versions": null, "logprobs": { "content": content },
    }] })
}

/// The last event of `/inference/v1/generate`, which tells the weights.
pub fn generated_by(tokens: &[(u32, f64)], finish_reason: &str, spans: &[(&str, usize, usize)]) -> Value {
    let mut event = generated(tokens, Some(finish_reason));
    let spans = spans.iter().map(|(version, start, end)| json!({ "version": version, "start": start, "end": end }));
    event["choices"][0]["weight_versions"] = spans.collect();
    event
}
