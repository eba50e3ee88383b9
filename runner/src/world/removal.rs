//! Takes worlds away: what was made outside of them, and the directory that an agent has had to itself.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use uuid::Uuid;

use super::fault::on_disk;
use super::hook::Hook;
use super::journal::{Entry, Home, VARIABLES};
use super::variables::{Handed, handed_on};

/// Takes a world away and gives what is kept of its teardown. If that fails, or something cannot be removed, what says how
/// it is done stays for the next runner. `given` are the variables that its setup handed on, where they are known: the file
/// of them may have been written by the agent since.
pub(super) async fn take_away(home: Home, entry: Option<Entry>, given: Option<Handed>) -> Option<Value> {
    let path = home.path().to_owned();
    let mut log = None;
    let mut whole = home.path().to_owned();
    if let Some(container) = entry.as_ref().and_then(|entry| entry.container.as_ref()) {
        container.remove().await;
    }
    if let Some(Entry { teardown: Some(mut teardown), timeout, .. }) = entry {
        // A runner that died in the setup had not yet written what the setup handed on.
        let given = given.or_else(|| handed_on(&path.join(VARIABLES)).ok()).unwrap_or_default();
        teardown.environment.extend(given.into_iter().map(|(name, value)| (name, Some(value))));
        let (kept, outcome) = teardown.run(Hook::Teardown, &path, timeout).await;
        log = Some(kept);
        if let Err(fault) = outcome {
            let world = path.display();
            tracing::warn!(%world, %fault, "a world is not taken away whole; the next runner tries again");
            whole = home.files();
        }
    }
    let removed = on_disk(path, move || remove_all(&whole)).await;
    if let Err(fault) = removed {
        tracing::warn!(%fault, "a world's directory stays");
    }
    log
}

/// Removes a directory with all that is in it, also where an agent has taken away the right to. Links are not followed.
///
/// Directories within directories are moved to the uppermost before they are emptied: an agent can make them deeper than a path
/// may be long, and than a process may have files open.
///
/// # Errors
/// If something stays.
pub(crate) fn remove_all(directory: &Path) -> io::Result<()> {
    if !directory.try_exists()? {
        return Ok(());
    }
    let mut left = Vec::new();
    empty(directory, |within| {
        left.push(within.to_owned());
        Ok(())
    })?;
    let mut moved = 0_u64;
    let aside = Uuid::now_v7().simple().to_string();
    while let Some(next) = left.pop() {
        empty(&next, |within| {
            // Whoever moves a directory has to be allowed to write to it.
            open_up(within)?;
            let uppermost = directory.join(format!("{aside}-{moved}"));
            fs::rename(within, &uppermost)?;
            moved += 1;
            left.push(uppermost);
            Ok(())
        })?;
        fs::remove_dir(next)?;
    }
    fs::remove_dir(directory)
}

/// Removes all from a directory but the directories in it, which it hands over.
fn empty(directory: &Path, mut take: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    open_up(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => take(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Gives this user every right to a directory, if it lacks one.
fn open_up(directory: &Path) -> io::Result<()> {
    const ALL: u32 = 0o700;
    match directory.symlink_metadata() {
        Ok(metadata) if metadata.permissions().mode() & ALL == ALL => Ok(()),
        Ok(_) => fs::set_permissions(directory, Permissions::from_mode(ALL)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn closed_directories_are_removed_and_links_are_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "x").unwrap();
        let world = root.path().join("world");
        fs::create_dir_all(world.join("a/b")).unwrap();
        fs::write(world.join("a/b/file"), "x").unwrap();
        symlink(outside.path(), world.join("a/link")).unwrap();
        for closed in ["a/b", "a"] {
            fs::set_permissions(world.join(closed), Permissions::from_mode(0o0)).unwrap();
        }
        remove_all(&world).unwrap();
        remove_all(&world).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        assert!(outside.path().join("file").exists());
    }

    #[test]
    fn directories_deeper_than_a_path_is_long_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let world = root.path().join("world");
        fs::create_dir(&world).unwrap();
        let script = "import os\nfor _ in range(3000):\n    os.mkdir('deep')\n    os.chdir('deep')\n";
        assert!(Command::new("python3").args(["-c", script]).current_dir(&world).status().unwrap().success());
        remove_all(&world).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
