//! What updates made of the tokens of a rollout, from the files that a run keeps of it in its directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fulgurite_store::{Result, Store};
use fulgurite_types::{GenerationUse, Run, TrainedTokens, trained_tokens_file, unpack_trained_tokens};

/// What stands in front of the path of a file in a store's URL.
const FILE_URL: &str = "sqlite://";

/// What updates made of the tokens of a rollout's calls, of which `uses` tells, by their ids; of each call its last update's. Empty where nothing is
/// recorded, or the run's directory is on another machine.
pub(super) async fn of_rollout(
    store: &Store,
    run_id: &str,
    rollout_id: &str,
    uses: &[GenerationUse],
) -> Result<HashMap<String, TrainedTokens>> {
    let steps = store.runs().steps_that_trained(run_id, rollout_id).await?;
    if steps.is_empty() {
        return Ok(HashMap::new());
    }
    let Some(run) = store.runs().get(run_id).await? else { return Ok(HashMap::new()) };
    let directories = directories(&store.url(), &run);
    let is_of_rollout = |id: &str| uses.iter().any(|used| used.generation_id == id);
    Ok(fulgurite_store::aside(|| {
        let calls = steps.iter().flat_map(|step| read(&directories, run_id, *step, &is_of_rollout));
        calls.map(|call| (call.generation_id.clone(), call)).collect()
    }))
}

/// Where a run's files may be: beside its store, wherever the two were moved, or where it was begun.
fn directories(store: &str, run: &Run) -> Vec<PathBuf> {
    let next_to_store = store.strip_prefix(FILE_URL).and_then(|path| Path::new(path).parent()).map(Path::to_owned);
    let started_in = run.config["run_directory"].as_str().map(PathBuf::from);
    next_to_store.into_iter().chain(started_in).collect()
}

/// The calls of a rollout in the file of an update, of the first directory that has one of this run.
fn read(directories: &[PathBuf], run_id: &str, step: u64, is_wanted: &dyn Fn(&str) -> bool) -> Vec<TrainedTokens> {
    let file = trained_tokens_file(step);
    let of_directory = |directory: &PathBuf| {
        let bytes = std::fs::read(directory.join(&file)).ok()?;
        unpack_trained_tokens(&bytes, run_id, is_wanted)
    };
    directories.iter().find_map(of_directory).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{TokenFate, pack_trained_tokens};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_runs_files_are_found_where_it_was_moved_to_and_where_it_was_begun() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |directory: &Path, run_id: &str, step: u64, id: &str| {
            let call = TrainedTokens {
                generation_id: id.into(),
                advantages: vec![1.0],
                logprobs: vec![-1.0],
                entropies: None,
                fates: vec![TokenFate::Trained],
            };
            std::fs::create_dir_all(directory.join("tokens")).unwrap();
            std::fs::write(directory.join(trained_tokens_file(step)), pack_trained_tokens(run_id, &[call])).unwrap();
        };
        put(here.path(), "r", 1, "beside");
        put(there.path(), "r", 1, "begun");
        put(here.path(), "another", 2, "another");
        put(there.path(), "r", 2, "begun");
        let run: Run = serde_json::from_value(json!({
            "run_id": "r", "name": "n", "config": { "run_directory": there.path() }, "seed": 1, "start_time": 0.0,
        }))
        .unwrap();
        let url = format!("sqlite://{}", here.path().join("store.db").display());
        let found = |url: &str, step: u64, is_wanted: bool| {
            let calls = read(&directories(url, &run), "r", step, &|_| is_wanted);
            calls.into_iter().map(|call| call.generation_id).collect::<Vec<_>>()
        };
        assert_eq!(found(&url, 1, true), ["beside"]);
        assert_eq!(found(&url, 2, true), ["begun"], "the file there is another run's");
        assert_eq!(found("postgres://host/database", 1, true), ["begun"]);
        assert_eq!((found(&url, 1, false), found(&url, 3, true)), (Vec::new(), Vec::new()));
    }
}
