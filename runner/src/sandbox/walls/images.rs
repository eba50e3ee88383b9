//! Images that tasks bring, and the files in them that a task begins with.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::process::Command;
use tokio::sync::Mutex;

/// Where a task's files are if its image does not say.
const FILES: &str = "/app";
/// Characters of what the program said that are shown.
const SHOWN: usize = 2000;

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// As `docker run` takes it.
    pub name: String,
    /// Its working directory, in which the task's files are.
    pub files: PathBuf,
}

/// The images of a runner's tasks, each built once.
#[derive(Debug, Default)]
pub(super) struct Images(Mutex<HashMap<String, Image>>);

impl Images {
    /// The image that `wanted` means: the path of a Dockerfile, whose directory is what it is built from, or a name.
    ///
    /// # Errors
    /// What the program says if it cannot be built or fetched.
    pub(super) async fn image(&self, program: &Path, wanted: &str) -> Result<Image, String> {
        // Whoever comes while it is built waits for it.
        let mut known = self.0.lock().await;
        if let Some(image) = known.get(wanted) {
            return Ok(image.clone());
        }
        if wanted.starts_with('-') {
            return Err("its name would be taken for an option".to_owned());
        }
        let dockerfile = Path::new(wanted);
        let name = if dockerfile.is_file() { build(program, dockerfile).await? } else { wanted.to_owned() };
        let files = working_directory(program, &name).await?;
        let image = Image { name, files };
        known.insert(wanted.to_owned(), image.clone());
        Ok(image)
    }
}

async fn build(program: &Path, dockerfile: &Path) -> Result<String, String> {
    let digest = format!("{:x}", Sha256::digest(dockerfile.as_os_str().as_encoded_bytes()));
    let name = format!("fulgurite-task:{}", &digest[..16]);
    let directory = dockerfile.parent().unwrap_or(dockerfile);
    let words = ["build".into(), "--tag".into(), (&name).into(), "--file".into(), dockerfile.into(), directory.into()];
    say(program, words).await?;
    Ok(name)
}

async fn working_directory(program: &Path, image: &str) -> Result<PathBuf, String> {
    let words = |verb: &[&str]| verb.iter().map(OsString::from).chain([image.into()]).collect::<Vec<_>>();
    let inspect = words(&["image", "inspect", "--format", "{{.Config.WorkingDir}}"]);
    let output = match say(program, inspect.clone()).await {
        Ok(output) => output,
        // It is not on this machine yet.
        Err(_) => {
            say(program, words(&["pull"])).await?;
            say(program, inspect).await?
        }
    };
    Ok(match output.trim() {
        "" | "/" => PathBuf::from(FILES),
        directory => PathBuf::from(directory),
    })
}

/// Copies the task's files out of an image, through a container called `name` that never runs.
///
/// # Errors
/// What the program says if they cannot be copied.
pub(super) async fn copy_files(program: &Path, image: &Image, name: &str, to: &Path) -> Result<(), String> {
    say(program, ["create", "--name", name, &image.name, "true"].map(OsString::from)).await?;
    let from = format!("{name}:{}/.", image.files.display());
    let copied = say(program, ["cp".into(), from.into(), to.into()]).await;
    say(program, ["rm", "--force", name].map(OsString::from)).await?;
    copied.map(drop)
}

/// What the program prints.
async fn say(program: &Path, words: impl IntoIterator<Item = OsString>) -> Result<String, String> {
    let output =
        Command::new(program).args(words).kill_on_drop(true).output().await.map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let count = errors.trim().chars().count();
            Err(errors.trim().chars().skip(count.saturating_sub(SHOWN)).collect())
        }
    }
}
