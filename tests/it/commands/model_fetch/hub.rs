//! A model hub and the host that its large files are at, with faults to order.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The commit that everything is at.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong with the next request for a large file.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection breaks after so many bytes of the body.
    BreakAfter(usize),
    /// As many bytes arrive, and then nothing does.
    StallAfter(usize),
    /// The whole file is sent, whatever part was asked for.
    IgnoreRange,
    /// The wrong part is sent.
    WrongRange,
    /// Other bytes of the same number are sent.
    OtherBytes,
    /// More bytes are sent than there are, and their number is not told.
    Longer,
    /// Something else is sent in place of the file.
    Page,
    /// An answer without a body.
    Status(u16),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whether the hub itself was asked, not the host of its large files.
    pub at_hub: bool,
    pub path: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// Added to what is listed, as it is.
    listed_too: Vec<Value>,
    lists_digests: bool,
    /// A status and a code of the hub's own for all that it is asked.
    refuses: Option<(u16, &'static str)>,
    redirects_in_a_circle: bool,
    faults: VecDeque<Fault>,
    requests: Vec<Request>,
    hosts: [String; 2],
}

/// Serves one repository, `someone/tiny`, until the test ends.
pub struct Hub(Arc<Mutex<State>>);

impl Hub {
    pub fn start(files: impl IntoIterator<Item = (&'static str, Vec<u8>)>) -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let hosts = [0, 1].map(|at| format!("http://{}", listeners[at].local_addr().unwrap()));
        let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let state = Arc::new(Mutex::new(State { files, hosts, lists_digests: true, ..State::default() }));
        for (listener, at_hub) in listeners.into_iter().zip([true, false]) {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for connection in listener.incoming() {
                    let state = Arc::clone(&state);
                    // A client that goes away is part of the tests.
                    thread::spawn(move || answer(&state, connection.unwrap(), at_hub).unwrap_or_default());
                }
            });
        }
        Self(state)
    }

    /// A hub with a model directory.
    pub fn of_directory(directory: &Path) -> Self {
        let hub = Self::start([]);
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            hub.0.lock().unwrap().files.insert(name, std::fs::read(entry.path()).unwrap());
        }
        hub
    }

    pub fn url(&self) -> String {
        self.0.lock().unwrap().hosts[0].clone()
    }

    pub fn order(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap().faults.extend(faults);
    }

    pub fn change(&self, file: &str, bytes: Vec<u8>) {
        self.0.lock().unwrap().files.insert(file.to_owned(), bytes);
    }

    pub fn list_too(&self, sibling: Value) {
        self.0.lock().unwrap().listed_too = vec![sibling];
    }

    pub fn list_no_digests(&self) {
        self.0.lock().unwrap().lists_digests = false;
    }

    pub fn refuse(&self, with: Option<(u16, &'static str)>) {
        self.0.lock().unwrap().refuses = with;
    }

    pub fn redirect_in_a_circle(&self) {
        self.0.lock().unwrap().redirects_in_a_circle = true;
    }

    /// What was asked since this was last called.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }

    /// The ranges that the host of large files was asked for since requests were last taken.
    pub fn take_ranges(&self) -> Vec<Option<String>> {
        self.take_requests().into_iter().filter(|request| !request.at_hub).map(|request| request.range).collect()
    }
}

/// What is kept as a large file.
fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".gguf")
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

fn git_blob(bytes: &[u8]) -> String {
    hex(sha1::Digest::finalize(sha1::Digest::chain_update(
        Sha1::default(),
        [format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat(),
    )))
}

fn answer(state: &Mutex<State>, mut connection: TcpStream, at_hub: bool) -> std::io::Result<()> {
    let request = read_request(&connection, at_hub)?;
    let mut held = state.lock().unwrap();
    held.requests.push(request.clone());
    if !at_hub {
        let name = request.path.trim_start_matches("/signed/").split('?').next().unwrap();
        let (bytes, fault) = (held.files[name].clone(), held.faults.pop_front());
        drop(held);
        return send_large(&mut connection, &bytes, request.range.as_deref(), fault);
    }
    let reply = hub_reply(&held, &request.path);
    drop(held);
    connection.write_all(&reply)
}

fn read_request(connection: &TcpStream, at_hub: bool) -> std::io::Result<Request> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let mut request = Request {
        at_hub,
        path: first.split(' ').nth(1).unwrap_or_default().to_owned(),
        range: None,
        authorization: None,
    };
    for line in lines {
        let line = line?;
        match line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())) {
            Some((name, value)) if name == "range" => request.range = Some(value),
            Some((name, value)) if name == "authorization" => request.authorization = Some(value),
            Some(_) => {}
            None => break,
        }
    }
    Ok(request)
}

fn whole(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn hub_reply(state: &State, path: &str) -> Vec<u8> {
    if let Some((status, code)) = state.refuses {
        return whole(
            status,
            &format!("x-error-code: {code}\r\nx-error-message: In its \u{9b}31mwords\r\nretry-after: 0\r\n"),
            b"",
        );
    }
    if state.redirects_in_a_circle {
        return whole(307, &format!("location: {path}\r\n"), b"");
    }
    if path == "/api/models/someone/tiny/revision/main?blobs=true" {
        return whole(200, "", listing(state).to_string().as_bytes());
    }
    // As a repository that was renamed.
    if path == "/api/models/someone/formerly/revision/main?blobs=true" {
        return whole(307, "location: /api/models/someone/tiny/revision/main?blobs=true\r\n", b"");
    }
    let prefixes = ["tiny", "formerly"].map(|name| format!("/someone/{name}/resolve/{COMMIT}/"));
    let name = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix));
    let Some((name, bytes)) = name.and_then(|name| Some((name, state.files.get(name)?))) else {
        return whole(404, "x-error-code: RepoNotFound\r\n", b"");
    };
    if is_large(name) {
        let linked = format!("x-linked-size: {}\r\nx-linked-etag: \"{}\"\r\n", bytes.len(), sha256(bytes));
        return whole(302, &format!("location: {}/signed/{name}?signature=secret\r\n{linked}", state.hosts[1]), b"");
    }
    whole(200, &format!("etag: \"{}\"\r\n", git_blob(bytes)), bytes)
}

fn listing(state: &State) -> Value {
    let sibling = |(name, bytes): (&String, &Vec<u8>)| {
        if !state.lists_digests {
            return json!({ "rfilename": name });
        }
        let mut sibling = json!({ "rfilename": name, "size": bytes.len(), "blobId": git_blob(bytes) });
        if is_large(name) {
            sibling["lfs"] = json!({ "sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 134 });
        }
        sibling
    };
    let siblings: Vec<Value> = state.files.iter().map(sibling).chain(state.listed_too.clone()).collect();
    json!({ "id": "someone/tiny", "sha": COMMIT, "siblings": siblings, "gated": false })
}

fn send_large(
    connection: &mut TcpStream,
    bytes: &[u8],
    range: Option<&str>,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    let requested = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let from = match fault {
        Some(Fault::IgnoreRange) => None,
        Some(Fault::WrongRange) => requested.map(|from: usize| from / 2),
        _ => requested,
    };
    let (body, total) = (&bytes[from.unwrap_or(0)..], bytes.len());
    let (status, headers) = match from {
        Some(from) => (206, format!("content-range: bytes {from}-{}/{total}\r\n", total - 1)),
        None => (200, String::new()),
    };
    match fault {
        Some(Fault::BreakAfter(sent)) => {
            connection.write_all(&whole(status, &headers, body)[..sent + 100])?;
            connection.shutdown(Shutdown::Both)
        }
        Some(Fault::StallAfter(sent)) => {
            connection.write_all(&whole(status, &headers, body)[..sent + 100])?;
            // Until the client goes away.
            BufReader::new(connection).lines().for_each(drop);
            Ok(())
        }
        Some(Fault::OtherBytes) => connection.write_all(&whole(status, &headers, &vec![b'x'; body.len()])),
        Some(Fault::Longer) => {
            connection.write_all(b"HTTP/1.1 200 x\r\nconnection: close\r\n\r\n")?;
            connection.write_all(&[bytes, b"and more"].concat())
        }
        Some(Fault::Page) => connection.write_all(&whole(200, "content-type: text/html\r\n", b"<p>Sign in first.")),
        Some(Fault::Status(status)) => connection.write_all(&whole(status, "retry-after: 0\r\n", b"")),
        None | Some(Fault::IgnoreRange | Fault::WrongRange) => connection.write_all(&whole(status, &headers, body)),
    }
}
