//! Runs of the real command that learn from data that are there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use super::project::{recorded_steps, saved};
use super::{Ran, Server, eventually, fulgurite, tiny_model};

/// A directory with a model of two thousand weights, a file of data, and a config.
pub struct DataProject {
    pub directory: tempfile::TempDir,
}

/// A config that learns by this objective from this source, of which a fifth is scored.
pub fn config(objective: &str, source: &str) -> String {
    format!(
        r#"
[run]
name = "t"
seed = 1

[[models]]
name = "tiny"
backend = "embedded"
path = "model"

[trainer]
objective = "{objective}"
source = {{ {source}, validation = 0.2 }}
batch_size = 4
epochs = 2
learning_rate = 1e-2
checkpoint_every = 3
evaluation = {{ every = 4 }}
"#
    )
}

impl DataProject {
    pub fn new(config: &str, file: &str, rows: &str) -> Self {
        let project = Self { directory: tempfile::tempdir().unwrap() };
        tiny_model(project.directory.path(), 256);
        project.write("t.toml", config);
        project.write(file, rows);
        project
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn change(&self, from: &str, to: &str) {
        let config = std::fs::read_to_string(self.path("t.toml")).unwrap();
        assert!(config.contains(from), "{from}");
        self.write("t.toml", config.replacen(from, to, 1));
    }

    pub fn command(&self, run: &str) -> Command {
        let mut command = fulgurite(["train", "--json"]);
        command.arg(self.path("t.toml")).arg("--run-directory").arg(self.path(run));
        command
    }

    /// The lines of the steps, and the summary.
    pub fn train(&self, run: &str, arguments: &[&str]) -> (Vec<Value>, Value) {
        let mut lines = Ran::from(self.command(run).args(arguments).output().unwrap()).json_lines();
        let summary = lines.pop().unwrap();
        (lines, summary)
    }

    /// Kills a run after so many steps and resumes it, which ends in the bytes of a run that nobody killed, and with these
    /// of its metrics; gives the summary of the killed one.
    pub fn killed_and_resumed(&self, steps: usize, metrics: &[&str]) -> Value {
        let undisturbed = self.train("undisturbed", &[]).1;
        let mut train = self.command("killed").stdout(Stdio::null()).spawn().unwrap();
        eventually("some steps", || (recorded_steps(&self.path("killed")) >= steps).then_some(()));
        train.kill().unwrap();
        train.wait().unwrap();
        let (_, summary) = self.train("killed", &["--resume"]);
        for file in ["model.safetensors", "optimizer.state"] {
            assert!(saved(&summary, file) == saved(&undisturbed, file), "{file}");
        }
        let metrics_of = |run: &str| -> Vec<Vec<Value>> {
            let text = std::fs::read_to_string(self.path(run).join("metrics.jsonl")).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.map(|line| metrics.iter().map(|key| line[key].clone()).collect()).collect()
        };
        assert_eq!(metrics_of("killed"), metrics_of("undisturbed"));
        summary
    }

    /// A server of the project's model under the name `base`, and the lines of a config that learn at it.
    pub fn tinker_service(&self) -> (Server, String) {
        self.write("served.toml", "[[models]]\nname = \"base\"\nbackend = \"embedded\"\npath = \"model\"\n");
        let served = self.path("served.toml");
        let server = Server::start(self.directory.path(), ["--config".as_ref(), served.as_os_str()]);
        let service = format!("backend = \"tinker\"\nbase_model = \"base\"\nurls = [\"{}\"]", server.url);
        (server, service)
    }

    pub fn refused(&self, run: &str) -> String {
        let ran = Ran::from(self.command(run).output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(recorded_steps(&self.path(run)), 0, "{ran:?}");
        ran.stderr
    }
}

/// Writes a Parquet file of columns of text.
pub fn write_table(path: &Path, columns: &[(&str, Vec<String>)]) {
    let fields: String =
        columns.iter().map(|(name, _)| format!("REQUIRED BYTE_ARRAY {name} (STRING);")).collect::<Vec<_>>().join(" ");
    let schema = Arc::new(parse_message_type(&format!("message t {{ {fields} }}")).unwrap());
    let mut file = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    for (_, texts) in columns {
        let values: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
}
