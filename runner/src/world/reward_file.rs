//! The reward in a file of a world: a number, or a JSON object of numbers.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::CWD;
use serde_json::{Map, Number, Value};

use super::disk::{ReadFault, disconnected, open_up, read_text, remove_in};
use crate::reward::{NoReward, Reward};

/// Bytes that the file may have.
const LIMIT: u64 = 64 << 10;

/// The key that is the reward where nothing else is said.
const KEY: &str = "reward";

/// The file of a world that is to hold the reward.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RewardFile<'w> {
    /// The world's directory.
    pub world: &'w Path,
    /// Where it is from there.
    pub path: &'w Path,
    /// Which number of an object is meant.
    pub key: Option<&'w str>,
}

impl RewardFile<'_> {
    /// What it holds.
    pub(crate) fn read(self) -> Result<Reward, NoReward> {
        reward(self.world, self.path, self.key)
            .map_err(|fault| NoReward::NotInFile { path: self.path.display().to_string(), why: fault.to_string() })
    }

    /// Takes it away, so that what stands there later was written later.
    ///
    /// # Errors
    /// If it stays.
    pub(crate) fn clear(self) -> io::Result<()> {
        remove(self.world, self.path)
    }
}

/// Why a file holds no reward.
#[derive(Debug, thiserror::Error)]
enum NoRewardInFile {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadFault),
    /// It is something else.
    #[error("it holds neither a finite number nor a JSON object of numbers: {0:?}")]
    NotAReward(String),
    /// Which of the numbers is meant is not said, or it is not there.
    #[error("it has no number `{key}` (reward_key says which is meant); there are: {there}")]
    NoKey {
        /// What was looked for.
        key: String,
        /// The keys with numbers.
        there: String,
    },
}

/// The reward in the file at `path` of the world; `key` is its name in a JSON object, whose other numbers are components.
/// An object of one number needs no key.
fn reward(world: &Path, path: &Path, key: Option<&str>) -> Result<Reward, NoRewardInFile> {
    let text = read_text(world, path, LIMIT)?;
    let text = text.trim();
    let refused = || NoRewardInFile::NotAReward(text.chars().take(200).collect());
    let fields = match serde_json::from_str(text) {
        Ok(Value::Number(number)) => return Ok(Reward::new(number, Map::new())),
        Ok(Value::Object(fields)) => fields,
        // Python writes `1.` and `.5` as well.
        _ => {
            let number = text.parse().ok().and_then(Number::from_f64).ok_or_else(refused)?;
            return Ok(Reward::new(number, Map::new()));
        }
    };
    of_fields(fields, key)
}

fn of_fields(mut fields: Map<String, Value>, key: Option<&str>) -> Result<Reward, NoRewardInFile> {
    fields.retain(|_, value| value.is_number());
    let only = if fields.len() == 1 { fields.keys().next().cloned() } else { None };
    let key = key.map(str::to_owned).or(only).unwrap_or_else(|| KEY.to_owned());
    match fields.shift_remove(&key) {
        Some(Value::Number(value)) => Ok(Reward::new(value, fields)),
        _ => {
            let there: Vec<&str> = fields.keys().map(String::as_str).collect();
            Err(NoRewardInFile::NoKey { key, there: there.join(", ") })
        }
    }
}

/// Takes away what is at `path` of the world, and on the way there a link or a file where a directory belongs, so that a
/// grader can make it. Whatever an agent has made there, it is taken away as a world is.
fn remove(world: &Path, path: &Path) -> io::Result<()> {
    let Some(mut directory) = open_up(CWD, world)? else { return Ok(()) };
    let mut components = path.components().filter(|part| matches!(part, Component::Normal(_))).peekable();
    while let Some(component) = components.next() {
        let name = CString::new(component.as_os_str().as_bytes())?;
        if components.peek().is_none() {
            return Ok(remove_in(&directory, &name)?);
        }
        if disconnected(&directory, &name)? {
            return Ok(());
        }
        let Some(next) = open_up(&directory, name.as_c_str())? else { return Err(ErrorKind::NotADirectory.into()) };
        directory = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use serde_json::{json, to_value};

    use super::*;

    fn read(text: &str, key: Option<&str>) -> Result<Value, String> {
        let world = tempfile::tempdir().unwrap();
        std::fs::create_dir(world.path().join("logs")).unwrap();
        std::fs::write(world.path().join("logs/reward.json"), text).unwrap();
        let read = reward(world.path(), Path::new("logs/reward.json"), key);
        read.map(|reward| to_value(reward).unwrap()).map_err(|fault| fault.to_string())
    }

    fn is(value: Value, components: Value) -> Result<Value, String> {
        Ok(json!({ "value": value, "name": "primary", "components": components }))
    }

    #[test]
    fn a_number_or_the_named_number_of_an_object_is_the_reward() {
        assert_eq!(read("0.5\n", None), is(json!(0.5), json!({})));
        assert_eq!(read(" 1. ", None), is(json!(1.0), json!({})));
        assert_eq!(read(r#"{"reward": 1, "tests": 3, "note": "x"}"#, None), is(json!(1), json!({ "tests": 3 })));
        assert_eq!(read(r#"{"passed": 0.25}"#, None), is(json!(0.25), json!({})));
        assert_eq!(read(r#"{"reward": 1, "tests": 3}"#, Some("tests")), is(json!(3), json!({ "reward": 1 })));
    }

    #[test]
    fn anything_else_is_refused_by_what_is_there() {
        for wrong in ["", "nan", "inf", "[1]", "true", "\"1\"", "1 2"] {
            assert!(read(wrong, None).unwrap_err().contains("neither"), "{wrong}");
        }
        let error = read(r#"{"a": 1, "b": 2}"#, None).unwrap_err();
        assert!(error.contains("no number `reward`") && error.ends_with("a, b"), "{error}");
        assert!(read(r#"{"a": 1}"#, Some("b")).unwrap_err().contains("`b`"));
        assert!(read(&"1".repeat(70_000), None).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_link_out_of_the_world_is_no_reward_file() {
        let (world, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("reward"), "1").unwrap();
        symlink(outside.path().join("reward"), world.path().join("reward")).unwrap();
        symlink(outside.path(), world.path().join("logs")).unwrap();
        for path in ["reward", "logs/reward"] {
            let refused = reward(world.path(), Path::new(path), None).unwrap_err().to_string();
            assert_eq!(refused, "it is no regular file");
        }
        remove(world.path(), Path::new("reward")).unwrap();
        remove(world.path(), Path::new("logs/reward")).unwrap();
        assert!(outside.path().join("reward").exists() && !world.path().join("reward").exists());
        assert!(world.path().join("logs").symlink_metadata().is_err(), "a grader can make the directory");
        let missing = reward(world.path(), Path::new("reward"), None).unwrap_err().to_string();
        assert_eq!(missing, "there is no such file");
    }

    #[test]
    fn a_link_in_the_place_of_the_world_gives_no_reward() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("reward"), "1").unwrap();
        symlink(outside.path(), home.path().join("files")).unwrap();
        let read =
            |path: &str| reward(&home.path().join("files"), Path::new(path), None).map_err(|fault| fault.to_string());
        assert_eq!(read("reward").unwrap_err(), "it is no regular file");
        assert_eq!(reward(outside.path(), Path::new("./reward"), None).unwrap(), Reward::new(1.into(), Map::new()));
        assert_eq!(read(".").unwrap_err(), "it is no regular file");
    }

    /// Between every two system calls the directory can be one or the other.
    #[test]
    fn a_directory_that_is_swapped_for_a_link_again_and_again_never_leads_to_a_reward_outside() {
        let (world, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("reward"), "1").unwrap();
        let (logs, spare) = (world.path().join("logs"), world.path().join("spare"));
        std::fs::create_dir(&logs).unwrap();
        symlink(outside.path(), &spare).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let swap = rustix::fs::RenameFlags::EXCHANGE;
                    let _swapped = rustix::fs::renameat_with(CWD, &spare, CWD, &logs, swap);
                }
            });
            let found = (0..20_000).any(|_| reward(world.path(), Path::new("logs/reward"), None).is_ok());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!found, "a reward from outside of the world counted");
        });
    }

    #[test]
    fn closed_and_deep_directories_in_the_place_of_a_reward_file_are_taken_away() {
        let world = tempfile::tempdir().unwrap();
        let (logs, place) = (world.path().join("logs"), world.path().join("logs/reward.json"));
        std::fs::create_dir_all(place.join("closed/inner")).unwrap();
        let script = "import os\nfor _ in range(25000):\n    os.mkdir('deep')\n    os.chdir('deep')\n";
        assert!(Command::new("python3").args(["-c", script]).current_dir(&place).status().unwrap().success());
        for closed in [&place.join("closed/inner"), &place.join("closed"), &place, &logs] {
            std::fs::set_permissions(closed, Permissions::from_mode(0o0)).unwrap();
        }
        let file = RewardFile { world: world.path(), path: Path::new("logs/reward.json"), key: None };
        file.clear().unwrap();
        file.clear().unwrap();
        assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
    }
}
