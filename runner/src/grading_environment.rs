//! The environment of programs that run after an agent: nothing in it leads to what the agent could have written.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::order::Order;

/// Variables by which interpreters and tools find code, or settings that name code.
const STEERING: [&str; 24] = [
    "HOME",
    "ENV",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "CDPATH",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "GCONV_PATH",
    "LOCPATH",
    "LANG",
    "LANGUAGE",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LESSOPEN",
];

/// Beginnings of the names of such variables.
const STEERING_PREFIXES: [&str; 13] = [
    "PYTHON",
    "PYTEST_",
    "GIT_",
    "LD_",
    "DYLD_",
    "LC_",
    "XDG_",
    "BASH_FUNC_",
    "PERL",
    "RUBY",
    "LUA_",
    "NPM_CONFIG_",
    "npm_config_",
];

/// The locale of graders, so that they sort and print alike everywhere.
const LOCALE: &str = "C.UTF-8";

/// An empty home directory of a name that nobody can guess; it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct FreshHome(PathBuf);

impl FreshHome {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// If the disk does not.
    pub(crate) fn make(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("fulgurite-grader-{}", Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The same, in the home of the attempt's world if it has one, or else where temporary files are.
    ///
    /// # Errors
    /// If the disk does not.
    pub(crate) fn of_attempt(world: Option<&Path>) -> io::Result<Self> {
        match world.and_then(Path::parent) {
            Some(home) => Self::make(home),
            None => Self::make(&env::temp_dir()),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for FreshHome {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a grader's home directory stays");
        }
    }
}

/// The order with an environment that leads to no code of the agent's: `home` for a home directory if any, no variable that steers
/// an interpreter, and a `PATH` without relative directories and without those below one of `agents`, where the agent could
/// write.
pub(crate) fn for_grading(mut order: Order, home: Option<&Path>, agents: &[&Path]) -> Order {
    let given = order.environment.iter().map(|(name, _)| name.clone());
    let steering: BTreeSet<OsString> =
        env::vars_os().map(|(name, _)| name).chain(given).filter(|n| steers(n)).collect();
    let path = order.environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_else(|| env::var_os("PATH")).map(|path| trusted_path(&path, agents));
    order.environment.extend(steering.into_iter().map(|name| (name, None)));
    order.environment.extend([("HOME".into(), home.map(Into::into)), ("LANG".into(), Some(LOCALE.into()))]);
    order.environment.extend(path.map(|path| ("PATH".into(), Some(path))));
    order
}

/// Commands of bash on one line that do the same inside of a container, whose image brings variables. The agent could write to
/// `world`; the home directory and the locale stay.
pub(crate) fn clean_in_bash(world: &str) -> String {
    let exact = STEERING.iter().filter(|name| !["HOME", "LANG", "IFS", "BASHOPTS", "SHELLOPTS"].contains(name));
    let names: Vec<String> = exact.map(|name| (*name).to_owned()).collect();
    let prefixes = STEERING_PREFIXES.iter().map(|prefix| format!("{prefix}*"));
    let patterns = names.into_iter().chain(prefixes).collect::<Vec<_>>().join("|");
    let world = format!("'{}'", world.replace('\'', r"'\''"));
    format!(
        "for n in $(compgen -e); do case $n in {patterns}) unset \"$n\";; esac; done; p=; IFS=:; for d in $PATH; do \
         case $d in {world}|{world}/*|*/../*|*/..) ;; /*) p=$p:$d;; esac; done; unset IFS; PATH=${{p#:}};"
    )
}

fn steers(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    STEERING.contains(&&*name) || STEERING_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The directories of `path` in which no agent could have put a program.
fn trusted_path(path: &OsStr, agents: &[&Path]) -> OsString {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let agents: Vec<PathBuf> = agents.iter().flat_map(|agent| [agent.to_path_buf(), real(agent)]).collect();
    let is_trusted = |directory: &PathBuf| {
        let places = [directory.clone(), real(directory)];
        // A directory that does not exist yet, behind `..`, could be anywhere once it does.
        let leads_back = places[1].components().any(|part| part == std::path::Component::ParentDir);
        let is_agents = places.iter().any(|place| agents.iter().any(|agent| place.starts_with(agent)));
        directory.is_absolute() && !leads_back && !is_agents
    };
    // What was split by the separator holds none.
    env::join_paths(env::split_paths(path).filter(is_trusted)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_that_steers_an_interpreter_is_left_and_everything_else_is() {
        let names = ["PYTHONPATH", "BASH_ENV", "GIT_CONFIG_GLOBAL", "NODE_OPTIONS", "LD_PRELOAD", "LC_ALL", "PORT"];
        let environment = names.map(|name| (name.into(), Some("x".into()))).to_vec();
        let order = Order { program: "/usr/bin/env".into(), environment, ..Order::default() };
        let printed = for_grading(order, Some(Path::new("/fresh")), &[]).command().output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        let of = |name: &str| printed.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        assert_eq!([of("HOME"), of("LANG"), of("PORT")], [Some("/fresh"), Some("C.UTF-8"), Some("x")]);
        assert!(names[..6].iter().all(|name| of(name).is_none()), "{printed}");
    }

    #[test]
    fn a_program_that_the_agent_put_on_the_path_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("world/bin")).unwrap();
        fs::create_dir_all(at("tools")).unwrap();
        symlink(at("world/bin"), at("link")).unwrap();
        let world = at("world");
        let back = at("tools/../world/bin");
        let later = at("no/../world/later");
        let wanted = [at("tools"), PathBuf::from("/usr/bin")];
        let all =
            [wanted[0].clone(), "".into(), ".".into(), at("world/bin"), at("link"), back, later, wanted[1].clone()];
        let path = trusted_path(&env::join_paths(all).unwrap(), &[&world]);
        assert_eq!(env::split_paths(&path).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn bash_in_a_container_leaves_nothing_of_the_image_that_leads_into_the_world() {
        let script = format!(
            "{} echo \"$PATH|$HOME|$PORT|$PYTHONPATH$BASH_ENV$GIT_DIR|\"; a='x y'; echo $a",
            clean_in_bash("/app")
        );
        let mut bash = std::process::Command::new("/bin/bash");
        let ran = bash.args(["-pc", &script]).env_clear().envs([
            ("PATH", "/app/bin:relative::/usr/bin:/app:/usr/../app/bin:/apple"),
            ("HOME", "/fresh"),
            ("PORT", "80"),
            ("PYTHONPATH", "/app"),
            ("BASH_ENV", "/no/such"),
            ("GIT_DIR", "/app"),
        ]);
        let ran = ran.output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "/usr/bin:/apple|/fresh|80||\nx y\n", "{:?}", ran.stderr);
    }

    #[test]
    fn a_fresh_home_is_empty_private_and_gone_afterwards() {
        let root = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| FreshHome::make(root.path()).unwrap());
        assert_ne!(first.path(), second.path());
        fs::write(first.path().join(".cache"), "x").unwrap();
        drop((first, second));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
