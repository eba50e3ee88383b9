//! Several servers on one PostgreSQL database. Without one, as `tests/postgres` starts it, there is nothing to test.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Server, eventually, model_flag, printed, text, tiny_model};
use crate::test_database::TestDatabase;
use serde_json::{Value, json};
use sqlx::{AnyConnection, Connection};
use tempfile::TempDir;

#[test]
fn an_attempt_whose_calls_come_to_either_of_two_servers_goes_on_token_by_token() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::new());
    if !database.is_postgres() {
        return;
    }
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let model = model_flag("tiny", &tiny_model(directories[0].path(), 512));
    let servers =
        directories.each_ref().map(|directory| Server::start_on(&database.url, directory.path(), ["--model", &model]));
    let [here, there] = &servers;
    let rollout_id = here.enqueue([json!(17)], &json!({})).remove(0);
    let claimed = there.post("/v1/agl/queues/rollouts/dequeue", &json!({ "worker_id": "w" })).expect(200);
    let base = format!("/rollout/{rollout_id}/attempt/{}/v1", text(&claimed[0]["attempt"]["attempt_id"]));

    let mut messages = vec![json!({ "role": "user", "content": "Say you are 17." })];
    // Each server has calls before and behind one of the other's, and knows some of them already.
    for server in [here, there, there, here, there, here] {
        let body = json!({ "model": "tiny", "messages": messages, "max_tokens": 4 });
        let answer = server.post(&format!("{base}/chat/completions"), &body).expect(200);
        messages.push(answer["choices"][0]["message"].clone());
        messages.push(json!({ "role": "user", "content": "Once more." }));
    }

    let drift = here.get(&format!("/rollout/{rollout_id}/drift")).expect(200);
    let calls = drift["calls"].as_array().unwrap();
    let ids: Vec<&Value> = calls.iter().map(|call| &call["generation_id"]).collect();
    let continued: Vec<&Value> = calls.iter().map(|call| &call["continues"]).collect();
    let expected: Vec<&Value> = std::iter::once(&Value::Null).chain(ids).take(6).collect();
    assert_eq!(continued, expected, "{drift}");
    let seeds: HashSet<String> = here.query("generations").iter().map(|call| call["seed"].to_string()).collect();
    assert_eq!(seeds.len(), 6, "each call has a place of its own");
}

/// How often the database goes away in a suite of tests. `DATABASE_KILLS` makes it more.
const DATABASE_KILLS: usize = 6;

/// Ends every connection to the database but this one, as its server's crash does.
async fn kill_connections(url: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(url).await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::raw_sql(others).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[test]
fn a_database_that_goes_away_under_load_loses_no_call_that_was_answered() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::new());
    if !database.is_postgres() {
        return;
    }
    let kills = std::env::var("DATABASE_KILLS").map_or(DATABASE_KILLS, |number| number.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let model = model_flag("tiny", &tiny_model(directory.path(), 512));
    let server = Server::start_on(&database.url, directory.path(), ["--model", &model]);
    let (answered, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let count = || answered.lock().unwrap().len();
    let ask = |client: usize| {
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            number += 1;
            let messages = [json!({ "role": "user", "content": format!("Say {client}.{number}") })];
            let body = json!({ "model": "tiny", "messages": messages, "max_tokens": 4 });
            let answer = server.post("/v1/chat/completions", &body);
            if answer.status == 200 {
                answered.lock().unwrap().push(text(&answer.expect(200)["id"]));
            } else {
                assert!(answer.status >= 500, "{}", answer.text);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|client| _ = scope.spawn(move || ask(client)));
        for _ in 0..kills {
            let before = count();
            eventually("calls to be answered again", || (count() >= before + 5).then_some(()));
            runtime.block_on(kill_connections(&database.url));
        }
        let before = count();
        eventually("calls to be answered again", || (count() >= before + 5).then_some(()));
        over.store(true, Ordering::Relaxed);
    });
    let recorded: Vec<String> = server.query("generations").iter().map(|call| text(&call["generation_id"])).collect();
    let distinct: HashSet<&String> = recorded.iter().collect();
    assert_eq!(distinct.len(), recorded.len(), "each is recorded once");
    let lost: Vec<String> = answered.into_inner().unwrap().into_iter().filter(|id| !distinct.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?} were answered and are not recorded");
    assert_eq!(printed(["store", "check", "--store", &database.url]), "the store is sound\n");
}
