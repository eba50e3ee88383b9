//! What a release promises of the one before it: `tests/releases` has a store, its export, the metrics and a config of each,
//! as its program made them (docs/reference/promises.md).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Server, printed, run};

/// The releases whose files are kept, oldest first.
fn releases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases");
    let mut releases: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

/// Every answer that queries give of a store.
fn everything(store: &str) -> BTreeMap<&'static str, Vec<Value>> {
    let kinds = ["rollouts", "attempts", "spans", "generations", "rewards", "triplets"];
    let mut all: BTreeMap<_, _> =
        kinds.into_iter().map(|kind| (kind, run([kind, "--all", "--json", "--store", store]).json_lines())).collect();
    all.extend(["workers", "resources"].map(|kind| (kind, run([kind, "--json", "--store", store]).json_lines())));
    all
}

#[test]
fn a_store_of_every_release_opens_with_all_that_it_holds() {
    for release in releases() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("store.db");
        let packed = std::fs::File::open(release.join("store.db.gz")).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let store = format!("sqlite://{}", file.display());
        // A server brings it up to date, as a newer program is started on an older one's store.
        let server = Server::start_on(&store, directory.path(), [""; 0]);
        let served = server.get("/v1/agl/rollouts").expect(200);
        drop(server);
        assert_eq!(printed(["store", "check", "--store", &store]), "the store is sound\n", "{}", release.display());

        // And what that release exported makes the same store.
        let copy = format!("sqlite://{}", directory.path().join("copy.db").display());
        let exported = release.join("store.jsonl");
        printed(["import", exported.to_str().unwrap(), "--store", &copy]);
        let (held, imported) = (everything(&store), everything(&copy));
        assert_eq!(held, imported, "{}", release.display());
        assert_eq!(served["total"], held["rollouts"].len(), "{served}");
        assert!(held.values().all(|rows| !rows.is_empty()), "{held:?}");
        let generation = &held["generations"][0];
        assert!(generation["logprobs"].as_array().is_some_and(|logprobs| !logprobs.is_empty()), "{generation}");
        let runs = run(["runs", "--store", &store, "--json"]).json_lines();
        assert_eq!(runs.len(), 1, "{runs:?}");
    }
}

/// The values below a table, by their keys as `config show` spells them.
fn flattened(prefix: &str, value: &Value, values: &mut BTreeMap<String, Value>) {
    let below = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| flattened(&below(key), value, values)),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (place, value) in list.iter().enumerate() {
                flattened(&below(&place.to_string()), value, values);
            }
        }
        _ => {
            values.insert(prefix.to_owned(), value.clone());
        }
    }
}

#[test]
fn a_config_of_every_release_is_taken_and_means_the_same() {
    for release in releases() {
        let config = release.join("config.toml");
        let table: toml::Table = toml::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
        let mut written = BTreeMap::new();
        flattened("", &serde_json::to_value(table).unwrap(), &mut written);
        let shown = run(["config", "show", "--json", "--config", config.to_str().unwrap()]);
        assert_eq!(shown.code, Some(0), "{}", shown.stderr);
        let shown: BTreeMap<String, Value> = shown
            .json_lines()
            .into_iter()
            .map(|line| (line["key"].as_str().unwrap().into(), line["value"].clone()))
            .collect();
        assert!(written.len() > 100);
        for (key, value) in written {
            assert_eq!(shown.get(&key), Some(&value), "{}: {key}", release.display());
        }
    }
}

#[test]
fn the_metrics_of_every_release_have_names_that_are_still_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documented = std::fs::read_to_string(root.join("docs/reference/config.md")).unwrap();
    for release in releases() {
        let metrics = std::fs::read_to_string(release.join("metrics.jsonl")).unwrap();
        for line in metrics.lines() {
            let step: Value = serde_json::from_str(line).unwrap();
            for name in step.as_object().unwrap().keys() {
                // A name's last part may be a cause, a reason or a component, which the page has as a word for all.
                let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
                let spellings = ["CAUSE", "REASON", "NAME"].map(|word| format!("`{parent}/{word}`"));
                let is_documented = documented.contains(&format!("`{name}`"))
                    || spellings.iter().any(|spelling| documented.contains(spelling));
                assert!(is_documented, "{}: {name}", release.display());
            }
        }
    }
}
