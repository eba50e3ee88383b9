//! What each update made of the tokens that it trained, in a file for each in the run's directory.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use fulgurite_types::{TrainedTokens, pack_trained_tokens, trained_tokens_file};

use crate::TrainError;
use crate::directories::file_error;

/// Writes the file of an update, in the place of what was there; whole and durable on return. Nothing if no token was trained.
pub(crate) async fn write(
    directory: &Path,
    run_id: &str,
    step: u64,
    tokens: Vec<TrainedTokens>,
) -> Result<(), TrainError> {
    if tokens.is_empty() {
        return Ok(());
    }
    let (path, run_id) = (directory.join(trained_tokens_file(step)), run_id.to_owned());
    let target = path.clone();
    let written = tokio::task::spawn_blocking(move || put(&target, &pack_trained_tokens(&run_id, &tokens)));
    match written.await {
        Ok(written) => written.map_err(|error| file_error(&path, &error)),
        Err(error) => Err(TrainError::File { path, message: error.to_string() }),
    }
}

fn put(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

/// Removes the files of updates after `step`, which a resumed run makes again, and what a crash left unfinished.
pub(crate) fn forget_after(directory: &Path, step: u64) -> Result<(), TrainError> {
    let folder = directory.join(trained_tokens_file(0)).parent().map(Path::to_owned).unwrap_or_default();
    let found = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| file_error(&folder, &error))?,
    };
    for entry in found {
        let path = entry.map_err(|error| file_error(&folder, &error))?.path();
        if !is_of_update_to(&path, step) {
            std::fs::remove_file(&path).map_err(|error| file_error(&path, &error))?;
        }
    }
    Ok(())
}

/// Whether it is the whole file of an update up to `step`.
fn is_of_update_to(path: &Path, step: u64) -> bool {
    let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
    number.is_some_and(|number| number <= step && path.ends_with(trained_tokens_file(number)))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{TokenFate, unpack_trained_tokens};

    use super::*;

    fn tokens(advantage: f32) -> Vec<TrainedTokens> {
        vec![TrainedTokens {
            generation_id: "g".into(),
            advantages: vec![advantage],
            logprobs: vec![-1.0],
            entropies: Some(vec![0.5]),
            fates: vec![TokenFate::Trained],
        }]
    }

    #[tokio::test]
    async fn a_resumed_run_has_each_update_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        forget_after(path, 0).unwrap();
        write(path, "run", 1, Vec::new()).await.unwrap();
        assert!(!path.join("tokens").exists(), "nothing was trained");
        for step in 1..=3 {
            write(path, "run", step, tokens(step as f32)).await.unwrap();
        }
        std::fs::write(path.join("tokens/000004.new"), "half").unwrap();
        forget_after(path, 2).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(path.join("tokens")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["000001.tokens", "000002.tokens"]);
        write(path, "run", 2, tokens(9.0)).await.unwrap();
        let bytes = std::fs::read(path.join(trained_tokens_file(2))).unwrap();
        assert_eq!(unpack_trained_tokens(&bytes, "run", |_| true), Some(tokens(9.0)));
    }
}
