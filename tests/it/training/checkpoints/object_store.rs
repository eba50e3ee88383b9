//! An object store of S3's kind for tests (moto), and a connection to it that breaks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Process, client};

pub const BUCKET: &str = "runs";

/// `moto_server`, in an environment that `tests/setup` makes.
pub struct ObjectStore {
    pub url: String,
    _process: Process,
}

impl ObjectStore {
    /// One with a bucket, that takes whatever key comes.
    pub fn start() -> Self {
        let store = Self::start_with(&[]);
        let made = client().put(format!("{}/{BUCKET}", store.url)).send().unwrap();
        assert!(made.status().is_success(), "{made:?}");
        store
    }

    /// One that takes no key.
    pub fn refusing() -> Self {
        Self::start_with(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")])
    }

    fn start_with(environment: &[(&str, &str)]) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/s3/bin/moto_server");
        assert!(program.exists(), "{} is missing: tests/setup makes it", program.display());
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", "0"]).envs(environment.iter().copied());
        // It tells its port among its log.
        let (read, write) = std::io::pipe().unwrap();
        command.stdin(Stdio::null()).stdout(write.try_clone().unwrap()).stderr(write);
        let process = Process::spawn(command);
        let mut lines = BufReader::new(read).lines().map(Result::unwrap);
        let url = lines.find_map(|line| Some(format!("http://127.0.0.1:{}", line.split_once("127.0.0.1:")?.1.trim())));
        // Its log would stop it once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self { url: url.unwrap(), _process: process }
    }

    /// How a run finds it.
    pub fn environment(&self) -> [(&'static str, &str); 3] {
        credentials(&self.url)
    }

    /// The keys of the objects that are there.
    pub fn keys(&self) -> Vec<String> {
        let listed = client().get(format!("{}/{BUCKET}?list-type=2", self.url)).send().unwrap().text().unwrap();
        let keys = listed.split("<Key>").skip(1).map(|rest| rest.split_once("</Key>").unwrap().0.to_owned());
        keys.collect()
    }

    pub fn remove(&self, key: &str) {
        // Whose it is, it does not look at.
        let signed =
            "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x";
        let removed = client().delete(format!("{}/{BUCKET}/{key}", self.url)).header("authorization", signed);
        let removed = removed.send().unwrap();
        assert!(removed.status().is_success(), "{removed:?}");
    }

    /// A way to it on which every request breaks off that begins with `broken`.
    pub fn behind_broken_line(&self, broken: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = self.url.strip_prefix("http://").unwrap().to_owned();
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let (from, to) = (from.unwrap(), TcpStream::connect(&store).unwrap());
                let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
                std::thread::spawn(move || pass_on(from, to, broken));
                std::thread::spawn(move || pass_on(back.0, back.1, "\0"));
            }
        });
        format!("http://{address}")
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, broken: &str) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count) = from.read(&mut bytes) {
        let part = &bytes[..count];
        let breaks = part.windows(broken.len()).any(|window| window == broken.as_bytes());
        // Of a request that breaks off, a part has arrived.
        let sent = if breaks { &part[..count / 2] } else { part };
        if count == 0 || to.write_all(sent).is_err() || breaks {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Where objects of a run's are below the bucket.
pub fn key(run: &str, path: &str) -> String {
    PathBuf::from("tests").join(run).join(path).display().to_string()
}

/// What is in the environment of a run whose checkpoints go to this URL.
pub fn credentials(url: &str) -> [(&'static str, &str); 3] {
    [("AWS_ENDPOINT_URL", url), ("AWS_ACCESS_KEY_ID", "someone"), ("AWS_SECRET_ACCESS_KEY", "secret")]
}
