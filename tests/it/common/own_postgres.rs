//! A PostgreSQL server of a test's own, which the test may stop and start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A server that listens on a socket in its own directory alone, and ends with this.
pub struct OwnPostgres {
    programs: PathBuf,
    directory: TempDir,
}

impl OwnPostgres {
    /// A server that is not started yet; `None` where PostgreSQL is not installed.
    pub fn prepare() -> Option<Self> {
        let server = Self { programs: programs()?, directory: TempDir::new().unwrap() };
        if let Some(owner) = unprivileged() {
            assert!(Command::new("chown").arg(owner).arg(server.directory.path()).status().unwrap().success());
        }
        server.run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        Some(server)
    }

    /// Its database.
    pub fn url(&self) -> String {
        let socket = self.directory.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{socket}/postgres")
    }

    /// Starts it, and waits until it answers.
    pub fn start(&self) {
        let (log, socket) = (self.directory.path().join("log"), self.directory.path().display());
        let options = format!("-c listen_addresses= -k {socket}");
        self.run("pg_ctl", &["-w", "-l", log.to_str().unwrap(), "-o", &options, "start"]);
    }

    /// Stops it as a crash does.
    pub fn stop(&self) {
        self.run("pg_ctl", &["-m", "immediate", "stop"]);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        assert!(self.command(&program).args(arguments).status().unwrap().success(), "{}", program.display());
    }

    /// A program of PostgreSQL, which refuses to run as root.
    fn command(&self, program: &Path) -> Command {
        let mut command = match unprivileged() {
            None => Command::new(program),
            Some(owner) => {
                let mut command = Command::new("runuser");
                command.args(["-u", owner, "--"]).arg(program);
                command
            }
        };
        command.arg("-D").arg(self.directory.path().join("data")).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // It may not be running.
        let _ = self.command(&self.programs.join("pg_ctl")).args(["-m", "immediate", "stop"]).status();
    }
}

/// Who runs PostgreSQL in the place of root.
fn unprivileged() -> Option<&'static str> {
    let is_user = |arguments: &[&str]| Command::new("id").args(arguments).output().unwrap();
    let id = String::from_utf8(is_user(&["-u"]).stdout).unwrap();
    match id.trim() {
        "0" if is_user(&["postgres"]).status.success() => Some("postgres"),
        "0" => Some("nobody"),
        _ => None,
    }
}

/// The folder of PostgreSQL's programs: in PATH, or where Debian puts them.
fn programs() -> Option<PathBuf> {
    let in_path = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let of_debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = in_path.into_iter().chain(of_debian.map(|version| version.path().join("bin")));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
}
