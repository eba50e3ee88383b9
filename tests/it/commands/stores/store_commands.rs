//! `fulgurite export`, `import`, `prune`, `stats`, `sql` and `store check`: a store as a whole.

use std::path::Path;

use crate::common::{Server, fulgurite, model_flag, printed, run, text, tiny_model};
use serde_json::{Value, json};
use sqlx::Connection;

/// A server whose store has played some rollouts: each two calls, a reward, an end; and one that waits.
fn played(directory: &Path, rollouts: usize) -> Server {
    let model = tiny_model(directory, 256);
    let server = Server::start(directory, ["--model", &model_flag("tiny", &model)]);
    server.enqueue((0..=rollouts).map(|number| json!({ "n": number })), &json!({}));
    let llm = json!({ "main_llm": { "resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "tiny" } });
    server.post("/v1/agl/resources/rs-1", &llm).expect(200);
    let dequeue = json!({ "limit": rollouts, "worker_id": "w" });
    let claimed = server.post("/v1/agl/queues/rollouts/dequeue", &dequeue).expect(200);
    for (number, claimed) in claimed.as_array().unwrap().iter().enumerate() {
        let (rollout, attempt) = (text(&claimed["rollout_id"]), text(&claimed["attempt"]["attempt_id"]));
        let base = format!("/rollout/{rollout}/attempt/{attempt}");
        for content in ["hi", "and now?"] {
            let messages = json!([{ "role": "user", "content": content }]);
            let call = json!({ "model": "tiny", "messages": messages, "max_tokens": 5, "seed": number });
            server.post(&format!("{base}/v1/chat/completions"), &call).expect(200);
        }
        server.post(&format!("{base}/reward"), &json!({ "value": number, "components": { "half": 0.5 } })).expect(201);
        let ended = json!({ "status": if number % 2 == 0 { "succeeded" } else { "failed" } });
        server.post(&format!("/v1/fulgurite/rollouts/{rollout}/attempts/{attempt}/report"), &ended).expect(200);
    }
    server
}

/// Every answer that the queries give of a store.
fn everything(store: &str) -> Vec<Vec<Value>> {
    let kinds = ["rollouts", "attempts", "spans", "generations", "rewards", "triplets"];
    let mut all: Vec<Vec<Value>> =
        kinds.iter().map(|kind| run([kind, "--all", "--json", "--store", store]).json_lines()).collect();
    all.extend(["workers", "resources"].iter().map(|kind| run([kind, "--json", "--store", store]).json_lines()));
    all
}

#[test]
fn a_store_goes_through_a_file_and_comes_out_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 3);
    let before = everything(&server.store);
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3, before[2].len(), 6, 3, 6, 1, 1]);
    for format in ["jsonl", "parquet"] {
        let file = directory.path().join(format!("all.{format}"));
        let file = file.to_str().unwrap();
        let copy = format!("sqlite://{}", directory.path().join(format!("{format}.db")).display());
        // A worker, resources, 4 rollouts, 3 attempts, 6 calls, 3 rewards.
        let printed_line = printed(["export", "--store", &server.store, "--to", file]);
        assert_eq!(printed_line, format!("exported 18 records to {file}\n"));
        let printed_line = printed(["import", file, "--store", &copy]);
        assert_eq!(printed_line, "imported 18 records; 0 were there already\n");
        assert_eq!(everything(&copy), before, "{format}");
        assert_eq!(printed(["store", "check", "--store", &copy]), "the store is sound\n");
        let again = run(["import", file, file, "--store", &copy, "--json"]).json_lines();
        assert_eq!(again, [json!({ "new": 0, "known": 36 })]);
        assert_eq!(everything(&copy), before, "{format}");
        assert!(!Path::new(&format!("{file}.unfinished")).exists());
    }
}

#[test]
fn a_part_of_a_store_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 3);
    let export = |flags: &[&str]| {
        let file = directory.path().join("part.jsonl");
        let base = ["export", "--store", &server.store, "--to", file.to_str().unwrap()];
        printed(base.iter().chain(flags));
        let lines = std::fs::read_to_string(file).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let kinds = |lines: &[Value]| {
        let mut kinds: Vec<String> = lines.iter().map(|line| text(&line["record"])).collect();
        kinds.dedup();
        kinds
    };
    let rollouts = export(&["--what", "rollouts", "--status", "failed"]);
    assert_eq!(kinds(&rollouts), ["rollout", "attempt"]);
    assert_eq!(rollouts[0]["data"]["input"], json!({ "n": 1 }));
    let id = text(&rollouts[0]["data"]["rollout_id"]);
    let generations = export(&["--what", "generations", &id]);
    assert_eq!((generations.len(), kinds(&generations)), (2, vec!["generation".to_owned()]));
    let spans = export(&["--what", "spans", "--rollout", &id]);
    let queried = run(["spans", &id, "--all", "--json", "--store", &server.store]).json_lines();
    let stored: Vec<&Value> = spans.iter().map(|line| &line["data"]).collect();
    assert!(stored.iter().all(|span| queried.contains(span)));
    let triplets = export(&["--what", "triplets"]);
    let queried = server.query("triplets");
    assert_eq!(triplets.iter().map(|line| &line["data"]).collect::<Vec<_>>(), queried.iter().collect::<Vec<_>>());
    assert_eq!(export(&["--what", "rollouts", "--since", "9999-01-01"]), [] as [Value; 0]);
    // What belongs to a rollout goes with it, however much later it was made.
    assert_eq!(
        kinds(&export(&["--since", "1h", "--status", "failed"])),
        ["resources", "worker", "rollout", "attempt", "generation", "span"]
    );
}

#[test]
fn a_file_that_cannot_be_imported_is_told_by_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 1);
    let (good, bad) = (directory.path().join("good.jsonl"), directory.path().join("bad.jsonl"));
    printed(["export", "--store", &server.store, "--to", good.to_str().unwrap()]);
    let good = std::fs::read_to_string(good).unwrap();
    let copy = format!("sqlite://{}", directory.path().join("copy.db").display());
    let fail = |lines: String| {
        std::fs::write(&bad, lines).unwrap();
        run(["import", bad.to_str().unwrap(), "--store", &copy]).failure(directory.path())
    };
    insta::assert_snapshot!(fail(format!("{good}\nnot JSON\n")), @r"
    error: cannot import [directory]/bad.jsonl; 0 records before it went well
      caused by: line 10 is not JSON
      caused by: expected ident at line 1 column 2
    ");
    insta::assert_snapshot!(fail("{\"record\":\"dream\",\"data\":{}}".to_owned()), @r"
    error: cannot import [directory]/bad.jsonl; 0 records before it went well
      caused by: line 1 is not a record
      caused by: record cannot be `dream`; there is `run`, `step`, `checkpoint`, `resources`, `worker`, `rollout`, `attempt`, `gateway_rollout`, `span`, `generation`, `generation_use`, `teacher_logprobs`
    ");
    insta::assert_snapshot!(fail("{\"record\":\"attempt\",\"data\":{\"rollout_id\":\"ro-1\"}}".to_owned()), @r"
    error: cannot import [directory]/bad.jsonl; 0 records before it went well
      caused by: line 1 is not a record
      caused by: record needs `attempt_id`, which is missing
    ");
    insta::assert_snapshot!(fail("{\"record\":\"triplet\",\"data\":{}}".to_owned()), @r"
    error: cannot import [directory]/bad.jsonl; 0 records before it went well
      caused by: line 1 is not a record
      caused by: triplets are made of generations and rewards; export those (--what all) to import them
    ");
    let orphan = json!({ "record": "attempt", "data": {
        "rollout_id": "ro-none", "attempt_id": "at-1", "sequence_id": 1, "start_time": 1.0, "end_time": null,
        "status": "running", "worker_id": null, "last_heartbeat_time": null, "metadata": null,
    } });
    let run_record =
        json!({ "record": "run", "data": { "run_id": "r", "name": "r", "config": {}, "seed": 1, "start_time": 1.0 } });
    insta::assert_snapshot!(fail(format!("{run_record}\n\n{orphan}\n")), @r"
    error: cannot import [directory]/bad.jsonl; 0 records before it went well
      caused by: line 3 cannot be stored
      caused by: rollout not found: ro-none
    ");
    assert_eq!(
        everything(&copy).concat(),
        [] as [Value; 0],
        "nothing of a batch is stored if one of its records is bad"
    );
    let no_format = run(["import", "records.csv", "--store", &copy]).failure(directory.path());
    insta::assert_snapshot!(no_format, @"error: records.csv: the name must end in .jsonl or .parquet");
    let missing = directory.path().join("missing.parquet");
    insta::assert_snapshot!(run(["import", missing.to_str().unwrap(), "--store", &copy]).failure(directory.path()), @r"
    error: cannot import [directory]/missing.parquet; 0 records before it went well
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 1);
    let nowhere = directory.path().join("nowhere/all.jsonl");
    let failed = run(["export", "--store", &server.store, "--to", nowhere.to_str().unwrap()]);
    insta::assert_snapshot!(failed.failure(directory.path()), @r"
    error: cannot write [directory]/nowhere/all.jsonl
      caused by: No such file or directory (os error 2)
    ");
    let no_format = directory.path().join("all.csv");
    let failed = run(["export", "--store", &server.store, "--to", no_format.to_str().unwrap()]);
    insta::assert_snapshot!(failed.failure(directory.path()), @"error: [directory]/all.csv: the name must end in .jsonl or .parquet");
    assert!(!no_format.exists());
}

#[test]
fn old_rollouts_are_pruned_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 3);
    let prune = |flags: &[&str]| run(["prune", "--store", &server.store].iter().chain(flags));
    let before = everything(&server.store);
    insta::assert_snapshot!(prune(&["--older-than", "1d", "--yes"]).stdout, @"there is nothing to delete: 0 rollouts with 0 attempts, 0 spans, 0 generations and 0 uses of their tokens");
    insta::assert_snapshot!(prune(&["--older-than", "0s", "--dry-run"]).stdout, @"would delete 3 rollouts with 3 attempts, 9 spans, 6 generations and 0 uses of their tokens");
    insta::assert_snapshot!(prune(&["--older-than", "0s"]).failure(directory.path()), @"error: this would delete 3 rollouts with 3 attempts, 9 spans, 6 generations and 0 uses of their tokens; say --yes, or look first with --dry-run");
    assert_eq!(everything(&server.store), before);
    insta::assert_snapshot!(prune(&["--older-than", "0s", "--status", "failed", "--yes"]).stdout, @r"
    deleted 1 rollouts with 1 attempts, 3 spans, 2 generations and 0 uses of their tokens
    VACUUM has given the space back
    ");
    assert_eq!(server.query("rollouts").len(), 3);
    let [printed_line] = &prune(&["--older-than", "0s", "--yes", "--json"]).json_lines()[..] else {
        panic!("not one line")
    };
    assert_eq!(
        printed_line["deleted"],
        json!({ "rollouts": 2, "attempts": 2, "spans": 6, "generations": 4, "generation_uses": 0 })
    );
    let left = server.query("rollouts");
    assert_eq!(left.iter().map(|rollout| text(&rollout["status"])).collect::<Vec<_>>(), ["queuing"]);
    assert_eq!(server.query("spans").len(), 0);
    assert_eq!(printed(["store", "check", "--store", &server.store]), "the store is sound\n");
    // The server goes on.
    server.enqueue([json!("new")], &json!({}));
    assert_eq!(server.query("rollouts").len(), 2);
    assert_eq!(prune(&["--older-than", "soon"]).code, Some(2));
    assert_eq!(prune(&["--older-than", "1d", "--status", "running"]).code, Some(2));
}

/// A table with its numbers of bytes left out.
fn without_bytes(table: &str) -> String {
    let line = |line: &str| match line.rsplit_once(' ') {
        Some((start, bytes)) if bytes.len() >= 4 && bytes.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("{start} [bytes]")
        }
        _ => line.to_owned(),
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_store_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 3);
    let stats = printed(["stats", "--store", &server.store]);
    assert!(stats.starts_with(" rollouts from 20"), "{stats}");
    let (_, tables) = stats.split_once("\n\n").unwrap();
    // Rollouts draw their seeds by their ids, so that an answer may end early.
    let sampled = "SELECT SUM(LENGTH(sampled_tokens)) / 4 AS sampled FROM generations";
    let [sum] = &run(["sql", sampled, "--json", "--store", &server.store]).json_lines()[..] else { panic!("no sum") };
    let tables =
        without_bytes(tables).replace(&format!("144            {}", sum["sampled"]), "144            [sampled]");
    insta::assert_snapshot!(tables, @r"
    table                  rows  bytes
    attempts               3     [bytes]
    checkpoints            0     [bytes]
    completions            3     [bytes]
    continued_generations  0     [bytes]
    gateway_rollouts       0     [bytes]
    generation_uses        0     [bytes]
    generations            6     [bytes]
    named_weights          1     [bytes]
    publications           0     [bytes]
    resources              1     [bytes]
    rollouts               4     [bytes]
    row_totals             2     [bytes]
    run_leases             0     [bytes]
    runs                   0     [bytes]
    secrets                1     [bytes]
    sequence_counters      3     [bytes]
    served_weights         1     [bytes]
    servers                1     [bytes]
    spans                  9     [bytes]
    steps                  0     [bytes]
    teacher_logprobs       0     [bytes]
    workers                1     [bytes]
    all                          [bytes]

    status     mode  rollouts
    failed           1
    queuing          1
    succeeded        2

    model  weights  generations  prompt tokens  sampled tokens
    tiny   0        6            144            [sampled]

    3 rewards for attempts: mean +1.000, from +0.000 to +2.000
    ");
    let [line] = &run(["stats", "--json", "--store", &server.store]).json_lines()[..] else { panic!("not one line") };
    assert_eq!(line["rewards"], json!({ "rewards": 3, "mean": 1.0, "least": 0.0, "greatest": 2.0 }));
}

#[test]
fn a_store_answers_sql_and_is_not_changed_by_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 2);
    let sql = |query: &str| run(["sql", query, "--store", &server.store]);
    let grouped = sql("SELECT status, COUNT(*) AS rollouts FROM rollouts GROUP BY status ORDER BY 1").stdout;
    let grouped: Vec<&str> = grouped.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(grouped.join("\n"), @r"
    status     rollouts
    failed     1
    queuing    1
    succeeded  1
    ");
    let query = "SELECT generation_id, sampled_tokens, logprobs, parent_id FROM generations ORDER BY position";
    let lines = run(["sql", query, "--json", "--store", &server.store]).json_lines();
    for (line, generation) in lines.iter().zip(server.query("generations")) {
        for column in ["generation_id", "sampled_tokens", "logprobs", "parent_id"] {
            assert_eq!(line[column], generation[column]);
        }
    }
    for query in [
        "DELETE FROM rollouts",
        "SELECT 1; DELETE FROM rollouts",
        "WITH x AS (SELECT 1) DELETE FROM rollouts",
        "SELEC 1",
        "SELECT x",
    ] {
        let failed = sql(query);
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{query}");
        assert!(failed.stderr.starts_with("error: the query failed"), "{query}: {}", failed.stderr);
    }
    assert_eq!(sql("SELECT 1 WHERE 1 = 0").stdout, "");
    assert_eq!(server.query("rollouts").len(), 3);
}

/// Changes a store behind its back.
fn corrupt(store: &str, sql: impl Into<String>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        sqlx::any::install_default_drivers();
        let mut connection = sqlx::AnyConnection::connect(store).await.unwrap();
        sqlx::query(sqlx::AssertSqlSafe(sql.into())).execute(&mut connection).await.unwrap();
    });
}

#[test]
fn a_store_that_breaks_its_laws_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 1);
    assert_eq!(printed(["store", "check", "--store", &server.store]), "the store is sound\n");
    corrupt(&server.store, "UPDATE attempts SET end_time = NULL");
    let checked = run(["store", "check", "--store", &server.store]);
    assert_eq!(checked.code, Some(1));
    let attempt = &server.query("attempts")[0];
    let id = format!("{}/{}", text(&attempt["rollout_id"]), text(&attempt["attempt_id"]));
    let findings = format!(
        "attempt_end_time {id}: it must have an end time exactly when it has ended\n\
         attempt_checksum {id}: it is not what was recorded: its checksum is another one\n"
    );
    assert_eq!(checked.stdout, findings);
    assert_eq!(checked.stderr, "error: the store breaks its own laws in 2 places\n");
    let as_json = run(["store", "check", "--json", "--store", &server.store]);
    let line: Value = serde_json::from_str(as_json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((as_json.code, &line["law"]), (Some(1), &json!("attempt_end_time")));
}

#[test]
fn a_rollout_that_was_taken_out_whole_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 2);
    let id = text(&server.query("rollouts")[0]["rollout_id"]).to_owned();
    for table in
        ["generations", "spans", "attempts", "gateway_rollouts", "sequence_counters", "completions", "rollouts"]
    {
        corrupt(&server.store, format!("DELETE FROM {table} WHERE rollout_id = '{id}'"));
    }
    let checked = run(["store", "check", "--store", &server.store]);
    // The queue holds one that nobody has taken yet.
    let findings = "all_rollouts rollouts: rows that were recorded: 3, that are there: 2\n\
                    all_attempts attempts: rows that were recorded: 2, that are there: 1\n";
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(1), findings));
}

#[test]
fn a_store_of_an_earlier_version_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 1);
    corrupt(&server.store, "DELETE FROM _sqlx_migrations WHERE version = 1");
    for command in [["rollouts", "--all"], ["store", "check"], ["sql", "SELECT 1"]] {
        let refused = run(command.into_iter().chain(["--store", &server.store]));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{command:?}");
        let cause = "the store was made by an earlier version of this program (it lacks migration 1); open it once for \
                     writing, as `fulgurite serve` does\n";
        assert!(refused.stderr.ends_with(cause), "{command:?}: {}", refused.stderr);
    }
}

#[test]
fn an_export_says_nothing_more_once_its_reader_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    let server = played(directory.path(), 1);
    let mut query = fulgurite(["sql", "SELECT 1 AS one", "--json", "--store", &server.store])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(query.stdout.take());
    assert_eq!(query.wait().unwrap().code(), Some(0));
}

#[test]
fn a_store_that_an_older_version_wrote_on_is_sound_once_its_checksums_are_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = played(directory.path(), 2);
    let renew = |flags: &[&str]| run(["store", "renew-checksums", "--store", &server.store].iter().chain(flags));
    insta::assert_snapshot!(renew(&["--yes"]).stdout, @"there is nothing to renew");
    corrupt(&server.store, "UPDATE rollouts SET end_time = end_time + 1 WHERE status = 'failed'");
    corrupt(&server.store, "UPDATE attempts SET last_heartbeat_time = 9 WHERE status = 'succeeded'");
    corrupt(
        &server.store,
        "INSERT INTO rollouts (rollout_id, input, start_time, status, config) VALUES ('ro-x', '0', 8, 'running', '{}')",
    );
    insta::assert_snapshot!(renew(&["--dry-run"]).stdout, @r"
    would take for granted
      rollouts: 1 changed; 4 are there, 3 were recorded
      attempts: 1 changed; 2 are there, 2 were recorded
    ");
    insta::assert_snapshot!(renew(&[]).failure(directory.path()), @r"
      rollouts: 1 changed; 4 are there, 3 were recorded
      attempts: 1 changed; 2 are there, 2 were recorded
    error: this takes rows for what was recorded that are not; say --yes, or look first with --dry-run
    ");
    // The server may be the older one.
    insta::assert_snapshot!(renew(&["--yes"]).failure(directory.path()), @r"
    error: cannot renew the checksums of sqlite://[directory]/store.db
      caused by: another program holds the database: it is open elsewhere; stop every server and every query on it first
    ");
    let check = || run(["store", "check", "--store", &server.store]);
    assert_eq!(check().code, Some(1));
    assert_eq!(server.process.terminate(), Some(0));
    insta::assert_snapshot!(renew(&["--yes"]).stdout, @r"
    taken for granted
      rollouts: 1 changed; 4 are there, 3 were recorded
      attempts: 1 changed; 2 are there, 2 were recorded
    ");
    assert_eq!(check().stdout, "1 rollouts without checksum: recorded before there were any\nthe store is sound\n");
    corrupt(&server.store, "UPDATE generations SET seed = seed + 1");
    corrupt(&server.store, "UPDATE rollouts SET mode = 'val' WHERE status = 'failed'");
    let [rollouts, attempts] = &renew(&["--yes", "--json"]).json_lines()[..] else { panic!("not two lines") };
    assert_eq!((&rollouts["changed_rows"], &attempts["changed_rows"]), (&json!(1), &json!(0)));
    let checked = check();
    assert_eq!(checked.stderr, "error: the store breaks its own laws in 4 places\n", "{}", checked.stdout);
    assert!(checked.stdout.lines().skip(1).all(|line| line.starts_with("checksum ")), "{}", checked.stdout);
}

#[test]
fn conditions_on_rollouts_are_refused_where_none_are_exported() {
    let export = |what: &str, to: &str, flags: &[&str]| {
        let ran = run(["export", "run", "--what", what, "--to", to, "-o", "x"].iter().chain(flags));
        assert_eq!(ran.code, Some(1));
        ran.stderr
    };
    let chosen = ["--where", "reward >= 1", "--mode", "train"];
    insta::assert_snapshot!(export("metrics", "csv", &chosen), @"error: metrics are of a whole run, and --mode and --where would choose rollouts: leave it out");
    for flag in [["--run-id", "x"], ["--step", "1"], ["--since", "1h"], ["--status", "failed"]] {
        let refused = export("soft-targets", "x.jsonl", &flag);
        let expected = format!("error: soft targets are of all conversations of a run, and {} would choose", flag[0]);
        assert!(refused.starts_with(&expected), "{refused}");
    }
}
