//! Tasks in Harbor's format: what is copied into their worlds, and the tests that find their reward.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::Value;

use super::disk::{ReadFault, open_directory, open_in};

/// What makes an image of an environment, and is no file of the world's.
const OF_THE_IMAGE: [&str; 3] = ["Dockerfile", "docker-compose.yaml", "docker-compose.yml"];

/// Where Harbor's tests find the world, themselves, and the place for what they say.
pub(crate) const WORLD: &str = "/app";
pub(crate) const TESTS: &str = "/tests";
pub(crate) const LOGS: &str = "/logs";

/// A task in Harbor's format.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct HarborTask {
    /// The task's directory.
    directory: PathBuf,
    /// What it is to run in: the path of a Dockerfile, or the name of an image.
    #[serde(default)]
    image: Option<String>,
}

impl HarborTask {
    /// The task that an input stands for, if it is one.
    pub(crate) fn of(task: &Value) -> Option<Self> {
        Self::deserialize(task.get("harbor")?).ok()
    }

    /// The directory with `test.sh`.
    ///
    /// # Errors
    /// If there is none, or something else in its place.
    pub(crate) fn tests(&self) -> Result<PathBuf, String> {
        let tests = open_directory(&self.directory, Path::new("tests"));
        let tests = tests.map_err(|error| no_directory("tests", &error).to_string())?;
        open_in(&tests, OsStr::new("test.sh")).map_err(|fault| format!("tests/test.sh of Harbor's task: {fault}"))?;
        Ok(self.directory.join("tests"))
    }

    /// The image that it is to run in, if it is to.
    ///
    /// # Errors
    /// If that would be built of another's files.
    pub(crate) fn image(&self) -> io::Result<Option<&str>> {
        let Some(image) = self.image.as_deref() else { return Ok(None) };
        if Path::new(image).is_file() || image.starts_with(['/', '.']) {
            let environment = open_directory(&self.directory, Path::new(ENVIRONMENT));
            let environment = environment.map_err(|error| no_directory(ENVIRONMENT, &error))?;
            let is_own = Path::new(image) == self.directory.join(ENVIRONMENT).join("Dockerfile");
            if !is_own || open_in(&environment, OsStr::new("Dockerfile")).is_err() {
                return Err(io::Error::other(format!(
                    "Harbor's task has {image:?} for an image, which is neither the name of one nor the task's own \
                     environment/Dockerfile, as a regular file"
                )));
            }
        }
        Ok(Some(image))
    }

    /// Copies the environment's files into a world. Links stay links, and lead to nothing outside of it.
    ///
    /// # Errors
    /// If a file cannot be read or written, is neither file, directory nor such a link, or they are too many or too large.
    pub(crate) fn fill(&self, world: &Path) -> io::Result<()> {
        let environment = match open_directory(&self.directory, Path::new(ENVIRONMENT)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| no_directory(ENVIRONMENT, &error))?,
        };
        Copy::new().directory(&environment, Path::new(""), Some(world), 0)
    }

    /// Looks whether an image may be built of the environment's files: the same bounds hold, and links mean what is in the image.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(crate) fn check_build(&self) -> io::Result<()> {
        let environment = open_directory(&self.directory, Path::new(ENVIRONMENT));
        let environment = environment.map_err(|error| no_directory(ENVIRONMENT, &error))?;
        Copy::new().directory(&environment, Path::new(""), None, 0)
    }

    /// Whether its image is built of its own files.
    pub(crate) fn is_built(&self) -> bool {
        self.image.as_ref().is_some_and(|image| Path::new(image) == self.directory.join(ENVIRONMENT).join("Dockerfile"))
    }
}

/// The directory of a task's files.
const ENVIRONMENT: &str = "environment";
/// Files, links and directories of an environment, at most.
const FILES: u64 = 100_000;
/// Bytes of all its files, at most, and holes in them count.
const BYTES: u64 = 1 << 30;
/// Directories within directories, at most.
const DEPTH: usize = 64;

fn no_directory(name: &str, error: &io::Error) -> io::Error {
    let errno = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match errno(Errno::LOOP) || errno(Errno::NOTDIR) {
        true => io::Error::other(format!("{name} of Harbor's task is no directory of its own: links are not followed")),
        false => io::Error::other(format!("{name} of Harbor's task cannot be read: {error}")),
    }
}

/// What may still be copied of an environment.
struct Copy {
    files_left: u64,
    bytes_left: u64,
}

impl Copy {
    fn new() -> Self {
        Self { files_left: FILES, bytes_left: BYTES }
    }

    /// Copies what is in a directory, whose path in the environment is `path`, or looks at it if there is nowhere `to` copy it.
    fn directory(&mut self, from: &File, path: &Path, to: Option<&Path>, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if [".", ".."].iter().any(|passed| name == *passed) {
                continue;
            }
            if depth == 0 && OF_THE_IMAGE.iter().any(|passed| name == *passed) {
                continue;
            }
            let (path, to) = (path.join(name), to.map(|to| to.join(name)));
            let refused = |why: &str| Err(io::Error::other(format!("environment/{} {why}", path.display())));
            let Some(left) = self.files_left.checked_sub(1) else {
                return refused(&format!("is one too many: an environment has at most {FILES} files"));
            };
            self.files_left = left;
            match FileType::from_raw_mode(statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode) {
                FileType::Directory if depth == DEPTH => {
                    return refused(&format!(
                        "is too deep: an environment has at most {DEPTH} directories in each other"
                    ));
                }
                FileType::Directory => {
                    let within = open_directory_in(from, name)?;
                    to.as_ref().map_or(Ok(()), fs::create_dir)?;
                    self.directory(&within, &path, to.as_deref(), depth + 1)?;
                }
                FileType::Symlink => {
                    let Some(to) = to else { continue };
                    let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                    let target = Path::new(OsStr::from_bytes(target.to_bytes()));
                    if !stays_within(target, depth) {
                        return refused(&format!(
                            "is a link that leads out of the environment, to {}",
                            target.display()
                        ));
                    }
                    std::os::unix::fs::symlink(target, to)?;
                }
                FileType::RegularFile => match open_in(from, name) {
                    Ok(file) => self.file(file, &path, to.as_deref())?,
                    Err(ReadFault::System(error)) => return refused(&format!("cannot be read: {error}")),
                    Err(fault) => return refused(&format!("cannot be read: {fault}")),
                },
                _ => return refused("is neither a file nor a directory nor a link"),
            }
        }
        Ok(())
    }

    fn file(&mut self, file: File, path: &Path, to: Option<&Path>) -> io::Result<()> {
        let metadata = file.metadata()?;
        let too_large = || {
            let path = path.display();
            io::Error::other(format!(
                "environment/{path} is too large: an environment has at most {BYTES} bytes in all"
            ))
        };
        let left = self.bytes_left.checked_sub(metadata.len()).ok_or_else(too_large)?;
        let Some(to) = to else {
            self.bytes_left = left;
            return Ok(());
        };
        let mut copy = File::create_new(to)?;
        // It may grow while it is read.
        let copied = io::copy(&mut file.take(self.bytes_left + 1), &mut copy)?;
        self.bytes_left = left.min(self.bytes_left.checked_sub(copied).ok_or_else(too_large)?);
        copy.set_permissions(metadata.permissions())
    }
}

fn open_directory_in(directory: &File, name: &OsStr) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?.into())
}

/// Whether a link in a directory at `depth` leads to something in the environment. `..` counts only at the beginning, where what
/// is above is known: behind a name it would be above whatever that leads to.
fn stays_within(target: &Path, depth: usize) -> bool {
    let mut parts = target.components().filter(|part| *part != Component::CurDir).peekable();
    let mut above = 0;
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        above += 1;
    }
    above <= depth && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_environment_is_copied_without_what_makes_its_image() {
        let root = tempfile::tempdir().unwrap();
        let environment = root.path().join("environment");
        fs::create_dir_all(environment.join("src")).unwrap();
        for name in ["Dockerfile", "src/Dockerfile", "src/main.py"] {
            fs::write(environment.join(name), name).unwrap();
        }
        let world = tempfile::tempdir().unwrap();
        let task = HarborTask::of(&json!({ "harbor": { "name": "a", "directory": root.path() } })).unwrap();
        task.fill(world.path()).unwrap();
        assert!(world.path().join("src/main.py").is_file() && world.path().join("src/Dockerfile").is_file());
        assert!(!world.path().join("Dockerfile").exists());
        assert_eq!(HarborTask::of(&json!({ "instruction": "x" })), None);
        assert_eq!(HarborTask::of(&json!("text")), None);
    }

    /// A task in `root`, whose environment holds a directory.
    fn empty_task(root: &Path) -> HarborTask {
        fs::create_dir_all(root.join("environment/src")).unwrap();
        HarborTask::of(&json!({ "harbor": { "name": "a", "directory": root } })).unwrap()
    }

    fn refused(task: &HarborTask) -> String {
        task.fill(tempfile::tempdir().unwrap().path()).unwrap_err().to_string()
    }

    #[test]
    fn an_environment_that_is_a_link_is_not_copied() {
        let root = tempfile::tempdir().unwrap();
        let task = empty_task(root.path());
        fs::remove_dir_all(root.path().join("environment")).unwrap();
        task.fill(tempfile::tempdir().unwrap().path()).unwrap();
        symlink("/etc/ssl", root.path().join("environment")).unwrap();
        assert!(refused(&task).contains("links are not followed"));
        symlink("/etc", root.path().join("tests")).unwrap();
        assert!(task.tests().unwrap_err().contains("tests of Harbor's task is no directory of its own"));
        fs::remove_file(root.path().join("tests")).unwrap();
        fs::create_dir(root.path().join("tests")).unwrap();
        symlink("/bin/true", root.path().join("tests/test.sh")).unwrap();
        assert_eq!(task.tests().unwrap_err(), "tests/test.sh of Harbor's task: it is no regular file");
    }

    #[test]
    fn links_of_an_environment_lead_to_what_is_in_it_or_are_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let task = empty_task(root.path());
        fs::write(root.path().join("environment/data"), "x").unwrap();
        let link = root.path().join("environment/src/link");
        for target in ["/etc/passwd", "../../secret", "../data/../..", "../src/../../x"] {
            symlink(target, &link).unwrap();
            assert_eq!(
                refused(&task),
                format!("environment/src/link is a link that leads out of the environment, to {target}")
            );
            fs::remove_file(&link).unwrap();
        }
        symlink("../data", &link).unwrap();
        let world = tempfile::tempdir().unwrap();
        task.fill(world.path()).unwrap();
        assert_eq!(fs::read_to_string(world.path().join("src/link")).unwrap(), "x");
        rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join("environment/pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(refused(&task), "environment/pipe is neither a file nor a directory nor a link");
    }

    #[test]
    fn a_sparse_file_of_three_gibibytes_is_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        let task = empty_task(root.path());
        File::create(root.path().join("environment/src/disk")).unwrap().set_len(3 << 30).unwrap();
        let expected = "environment/src/disk is too large: an environment has at most 1073741824 bytes in all";
        assert_eq!(refused(&task), expected);
        assert_eq!(task.check_build().unwrap_err().to_string(), expected, "nor is it sent to a builder of images");
    }

    #[test]
    fn an_image_is_a_name_or_the_tasks_own_dockerfile() {
        let root = tempfile::tempdir().unwrap();
        empty_task(root.path());
        let of = |image: &str| {
            let task = json!({ "harbor": { "name": "a", "directory": root.path(), "image": image } });
            HarborTask::of(&task)
                .unwrap()
                .image()
                .map(|image| image.map(str::to_owned))
                .map_err(|error| error.to_string())
        };
        let dockerfile = root.path().join("environment/Dockerfile");
        symlink("/etc/passwd", &dockerfile).unwrap();
        assert!(of(dockerfile.to_str().unwrap()).unwrap_err().contains("as a regular file"));
        fs::remove_file(&dockerfile).unwrap();
        fs::write(&dockerfile, "FROM scratch").unwrap();
        assert!(of(dockerfile.to_str().unwrap()).unwrap().is_some() && of("python:3.12").unwrap().is_some());
        assert!(of("/etc/passwd").is_err() && of("/etc/no-such").is_err());
    }
}
