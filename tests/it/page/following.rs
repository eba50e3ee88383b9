//! What is recorded while the page is open, and lists that are long.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::{browser, dashboard, seen};
use crate::common::Server;
use crate::common::project::{Project, SMALL};

/// A browser that has said that it is ready, with what it says from then on.
pub(super) fn ready(browser: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(browser.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    output
}

/// Opens the page over a run, has it go on, and gives what was seen of that.
fn followed(how: Option<&str>) -> Option<Value> {
    let project = Project::new("command = [\"hello-agent\", \"{task}\"]\ngrade = [\"hello-grader\"]", SMALL);
    project.train("r", &["--max-steps", "2"]);
    let (_page, url) = dashboard(&project, "r");
    let values: Vec<&str> = ["r"].into_iter().chain(how).collect();
    let mut browser = browser("live", &url, &values)?;
    let mut output = ready(&mut browser);
    // By another process, which the page's server does not know of.
    project.train("r", &["--resume", "--max-steps", "4"]);
    browser.stdin.take().unwrap().write_all(b"more\n").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let ended = browser.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some(serde_json::from_str(&line).unwrap())
}

#[test]
fn updates_are_drawn_as_they_are_recorded() {
    for how in [None, Some("polling")] {
        let Some(seen) = followed(how) else { return };
        for count in ["row", "points"] {
            let (before, after) = (seen["before"][count].as_u64(), seen["after"][count].as_u64());
            assert!(after > before, "{count}: {seen}");
        }
        assert_eq!(seen["marks"][0], how.unwrap_or("live"), "{seen}");
        assert_eq!(seen["zoomed"][0], seen["zoomed"][1], "what is zoomed stays where it is: {seen}");
    }
}

#[test]
fn ten_thousand_rollouts_are_rows_of_which_those_are_drawn_that_are_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), [] as [&str; 0]);
    for thousand in 0..10 {
        server.enqueue((0..1000).map(|number| json!(1000 * thousand + number)), &json!({}));
    }
    let Some(browser) = browser("many", &server.url, &["10000"]) else { return };
    let seen = seen(browser);
    assert_eq!(seen["rowcount"], 10_000, "{seen}");
    assert!(seen["drawn"].as_u64().unwrap() < 100, "{seen}");
}

#[test]
fn an_open_page_does_not_keep_its_server_from_stopping() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), [] as [&str; 0]);
    let mut events = std::process::Command::new("curl");
    events.args(["-sN", &format!("{}/ui/data/events", server.url)]);
    let mut events = events.stdout(Stdio::piped()).spawn().unwrap();
    // It is open once something has been told.
    let mut news = BufReader::new(events.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("event: rollouts") {
        server.enqueue([json!(1)], &json!({}));
        line.clear();
        news.read_line(&mut line).unwrap();
    }
    assert_eq!(server.process.terminate(), Some(0));
    assert!(events.wait().unwrap().success(), "the stream has ended as it should");
}
