//! What a trainer prints, a JSON object a line, read from the file that it goes to.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::open_file;

/// What comes after a place of a file that grows.
#[derive(Debug)]
pub(super) struct Events {
    path: PathBuf,
    place: u64,
}

impl Events {
    /// What is written from now on.
    pub(super) fn after_now(path: &Path) -> Self {
        let place = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Self { path: path.to_owned(), place }
    }

    /// The lines that are whole by now, and were not read before.
    pub(super) fn next(&mut self) -> Vec<Value> {
        let Ok(mut file) = open_file(&self.path) else { return Vec::new() };
        let mut text = Vec::new();
        let read = file.seek(SeekFrom::Start(self.place)).and_then(|_| file.read_to_end(&mut text));
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        if read.is_err() || whole == 0 {
            return Vec::new();
        }
        self.place += whole as u64;
        text[..whole].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_read_once_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events");
        fs::write(&path, "{\"a\":1}\n").unwrap();
        let mut events = Events::after_now(&path);
        let mut write = |text: &str| {
            let before = fs::read_to_string(&path).unwrap();
            fs::write(&path, before + text).unwrap();
            events.next().iter().map(Value::to_string).collect::<Vec<_>>()
        };
        assert_eq!(write("{\"b\":2}\nno\n{\"c\""), ["{\"b\":2}"]);
        assert_eq!(write(":3}"), [""; 0]);
        assert_eq!(write("\n"), ["{\"c\":3}"]);
    }
}
