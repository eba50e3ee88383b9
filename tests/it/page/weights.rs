//! What the page says of the weights at each server of a store.

use serde_json::{Value, json};
use sqlx::{AnyConnection, Connection};

use super::{browser, seen};
use crate::common::{Server, eventually, model_flag, text, tiny_model, tiny_weights};

/// A report of another server of the store, of so many seconds ago.
struct Report {
    url: &'static str,
    state: &'static str,
    message: Option<&'static str>,
    ago: f64,
}

/// Records reports as if other servers had.
fn record(store: &str, reports: &[Report]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        sqlx::any::install_default_drivers();
        let mut connection = AnyConnection::connect(store).await.unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        for Report { url, state, message, ago } in reports {
            let insert = "INSERT INTO served_weights (server_id, model, url, version, state, message, time)
                VALUES ($1, 'tiny', $1, 0, $2, $3, $4)";
            let insert = sqlx::query(insert).bind(*url).bind(*state).bind(*message).bind(now - ago);
            insert.execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
}

#[test]
fn servers_that_have_not_got_the_published_weights_stand_out() {
    let directory = tempfile::tempdir().unwrap();
    let model = tiny_model(directory.path(), 64);
    let server = Server::start(directory.path(), ["--model", &model_flag("tiny", &model)]);
    let weights = tiny_weights(directory.path(), 64, "newer", 2);
    server.post("/v1/fulgurite/models/tiny/weights", &json!({ "version": 5, "model": weights })).expect(200);
    eventually("the server's own report", || {
        let servers = server.get("/v1/fulgurite/servers").expect(200);
        (servers[0]["version"] == 5 && servers[0]["state"] == "serving").then_some(())
    });
    let missing = "version 5: /weights/5: no such file";
    let of = |url, state, message, ago| Report { url, state, message, ago };
    record(
        &server.store,
        &[
            of("http://b", "behind", Some(missing), 0.0),
            of("http://c", "refusing", Some("<b>bold</b>"), 0.0),
            of("http://d", "serving", None, 600.0),
            of("http://e", "loading", None, 0.0),
        ],
    );
    let Some(browser) = browser("weights", &server.url, &["5"]) else { return };
    let seen = seen(browser);
    assert!(text(&seen["published"]).starts_with("tiny: version 5 is published"), "{seen}");
    // Of each server its cells, and those that stand out.
    let row = |url: &str| -> (Vec<String>, Value) {
        let rows = seen["rows"].as_array().unwrap();
        let found = rows.iter().find(|row| row["cells"][0] == url).unwrap_or_else(|| panic!("{url}: {seen}"));
        (found["cells"].as_array().unwrap().iter().skip(1).map(text).collect(), found["failures"].clone())
    };
    assert_eq!(row(&server.url), (vec!["tiny".into(), "5".into(), "serving".into(), String::new()], json!([])));
    for (url, state, message, failures) in [
        ("http://b", "behind: answers with what it had", missing, json!([2, 3])),
        ("http://c", "behind: takes no calls", "<b>bold</b>", json!([2, 3])),
        ("http://e", "loading the newest weights", "", json!([2])),
    ] {
        assert_eq!(row(url), (vec!["tiny".into(), "0".into(), state.into(), message.into()], failures), "{url}");
    }
    let (silent, failures) = row("http://d");
    assert!(silent[2].starts_with("not seen for 10") && failures == json!([2, 3]), "{silent:?} {failures}");
}
