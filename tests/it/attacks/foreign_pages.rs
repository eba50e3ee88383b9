//! A web page in the user's browser, which can send what it likes to loopback addresses.

use std::path::Path;
use std::process::Stdio;

use reqwest::Method;
use reqwest::blocking::Response;
use serde_json::{Value, json};

use crate::common::{Process, Server, client, fulgurite, run, wait_until_ready};

const EVIL: &str = "http://evil.example";
const FRIEND: &str = "http://localhost:3000";

fn serve(directory: &Path) -> Server {
    let file = directory.join("config.toml");
    std::fs::write(&file, format!("[server]\ncors_origins = [\"{FRIEND}\"]\nhosts = [\"box.local\"]\n")).unwrap();
    Server::start(directory, ["--config", file.to_str().unwrap()])
}

/// A server with an admin key that listens on all addresses.
pub fn serve_everywhere(directory: &Path, key: &str) -> Server {
    let (ready, log) = (directory.join("ready.json"), directory.join("serve.log"));
    let store = format!("sqlite://{}", directory.join("store.db").display());
    if ready.exists() {
        std::fs::remove_file(&ready).unwrap();
    }
    let mut command = fulgurite(["serve", "--listen", "0.0.0.0:0", "--store", &store]);
    command.env("FULGURITE_ADMIN_KEY", key).arg("--ready-file").arg(&ready);
    command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut process = Process::spawn(command);
    let url = wait_until_ready(&mut process, &ready, &log).replace("0.0.0.0", "127.0.0.1");
    Server { url, process, store }
}

fn send(server: &Server, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut request = client().request(method, format!("{}{path}", server.url)).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().unwrap()
}

fn json_of(response: Response, status: u16) -> Value {
    let (was, text) = (response.status().as_u16(), response.text().unwrap());
    assert_eq!(was, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn a_foreign_page_changes_nothing_and_reads_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let queue = json!({ "rollouts": [{ "input": "mine", "config": {} }] }).to_string();
    for origin in [EVIL, "null", "http://localhost:8888"] {
        // No browser asks beforehand whether it may send this.
        let headers = [("origin", origin), ("content-type", "text/plain")];
        for (method, path) in [
            (Method::POST, "/v1/agl/queues/rollouts/enqueue"),
            (Method::POST, "/v1/agl/queues/rollouts/dequeue"),
            (Method::POST, "/v1/agl/rollouts"),
            (Method::POST, "/proxy/pause"),
            (Method::POST, "/rollout/r/reward"),
            (Method::GET, "/v1/agl/rollouts"),
            (Method::GET, "/metrics"),
            (Method::DELETE, "/api/rollouts/r"),
            (Method::POST, "/v1/traces"),
            (Method::POST, "/v1/chat/completions"),
            (Method::GET, "/no/such/route"),
        ] {
            let refused = send(&server, method.clone(), path, &headers, &queue);
            assert_eq!(refused.status().as_u16(), 403, "{method} {path}");
            assert_eq!(header(&refused, "access-control-allow-origin"), None);
            let text = refused.text().unwrap();
            assert!(text.contains(origin) && text.contains("[server] cors_origins"), "{text}");
        }
    }
    assert!(server.query("rollouts").is_empty());
    let headers = [("origin", EVIL), ("access-control-request-method", "POST")];
    assert_eq!(send(&server, Method::OPTIONS, "/v1/chat/completions", &headers, "").status(), 403);
    assert_eq!(send(&server, Method::GET, "/healthz", &[("origin", EVIL)], "").status(), 200);
}

#[test]
fn a_name_that_was_made_to_mean_this_machine_opens_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    for (path, pointer) in [("/v1/agl/rollouts", "/detail"), ("/v1/models", "/error/message")] {
        let refused = json_of(send(&server, Method::GET, path, &[("host", "evil.example:4747")], ""), 403);
        let words = refused.pointer(pointer).unwrap();
        assert_eq!(
            words,
            "`evil.example` is no name of this server; `[server] hosts` in its config lists further ones"
        );
    }
    let in_anthropics = [("host", "host.docker.internal:4747"), ("anthropic-version", "2023-06-01")];
    let refused = json_of(send(&server, Method::GET, "/v1/models", &in_anthropics, ""), 403);
    assert_eq!(refused["error"]["type"], "permission_error");
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("`host.docker.internal` is no name"));
    for host in ["localhost:1", "127.0.0.1", "[::1]:4747", "box.local"] {
        assert_eq!(send(&server, Method::GET, "/v1/models", &[("host", host)], "").status(), 200, "{host}");
    }
}

#[test]
fn a_page_that_is_listed_and_one_of_the_servers_own_are_let_in() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let headers = [
        ("origin", FRIEND),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization, content-type"),
    ];
    let answered = send(&server, Method::OPTIONS, "/v1/agl/queues/rollouts/enqueue", &headers, "");
    assert_eq!(answered.status(), 204);
    assert_eq!(header(&answered, "access-control-allow-origin").as_deref(), Some(FRIEND));
    assert_eq!(header(&answered, "access-control-allow-headers").as_deref(), Some("authorization, content-type"));
    assert!(header(&answered, "access-control-allow-methods").unwrap().contains("POST"));
    for (origin, allowed) in [(FRIEND, Some(FRIEND)), (&*server.url.clone(), None)] {
        let read = send(&server, Method::GET, "/v1/agl/rollouts", &[("origin", origin)], "");
        assert_eq!((read.status().as_u16(), header(&read, "vary").as_deref()), (200, Some("origin")));
        assert_eq!(header(&read, "access-control-allow-origin").as_deref(), allowed);
    }
}

#[test]
fn a_key_does_not_let_a_foreign_page_in() {
    let directory = tempfile::tempdir().unwrap();
    let key = "0123456789abcdef0123456789abcdef";
    let server = serve_everywhere(directory.path(), key);
    let bearer = format!("Bearer {key}");
    let read = |headers: &[(&str, &str)]| {
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        send(&server, Method::GET, "/v1/agl/rollouts", &headers, "").status().as_u16()
    };
    assert_eq!(read(&[("host", "any.name:4747")]), 200, "beyond loopback, names count once some are given");
    assert_eq!(read(&[("host", "any.name:4747"), ("origin", "http://any.name:4747")]), 200);
    assert_eq!(read(&[("origin", EVIL)]), 403);
}

#[test]
fn a_mistake_in_the_lists_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let fail = |line: &str| {
        let file = directory.path().join("config.toml");
        std::fs::write(&file, format!("[server]\nlisten = \"127.0.0.1:0\"\n{line}\n")).unwrap();
        run(["serve", "--config", file.to_str().unwrap()]).failure(directory.path())
    };
    insta::assert_snapshot!(fail("cors_origins = ['*']"), @r#"error: server.cors_origins: "*" is no origin of a page; write scheme, host and port, as `http://localhost:3000`"#);
    insta::assert_snapshot!(fail("hosts = ['http://box.local:4747']"), @r#"error: server.hosts: "http://box.local:4747" is no name of a host; write it without scheme, port and path, as `box.local`"#);
}
