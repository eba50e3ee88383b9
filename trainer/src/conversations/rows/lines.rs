//! Lines of a file that may be of any size, with what is wrong with one by its number.

use std::io::{BufRead, ErrorKind};
use std::path::{Path, PathBuf};

use crate::TrainError;

/// Greatest length of a line: what is longer is no conversation, and is not read into memory.
pub const LINE_LIMIT: usize = 16 << 20;

/// What rows of a file are counted as, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowUnit {
    /// Lines of text.
    #[default]
    Line,
    /// Rows of a table.
    Row,
}

/// The name of a file and the unit of its rows, as errors have them.
#[derive(Clone, Debug)]
pub(crate) struct RowPlace {
    pub(crate) path: PathBuf,
    pub(crate) unit: RowUnit,
}

impl RowPlace {
    /// What is wrong with a row, from 1.
    pub(crate) fn error(&self, number: u64, message: impl Into<String>) -> TrainError {
        let unit = match self.unit {
            RowUnit::Line => "line",
            RowUnit::Row => "row",
        };
        TrainError::Row { path: self.path.clone(), unit, number, message: message.into() }
    }

    /// What is wrong with the file.
    pub(crate) fn file_error(&self, message: impl ToString) -> TrainError {
        file_error(&self.path, message)
    }
}

pub(crate) fn file_error(path: &Path, message: impl ToString) -> TrainError {
    TrainError::File { path: path.to_owned(), message: message.to_string() }
}

/// Why a line cannot be given.
#[derive(Debug)]
pub(crate) enum LineError {
    Read(std::io::Error),
    TooLong,
}

/// Reads up to and with the end of the next line into `line`, whose memory is used again. False at the end of the file.
pub(crate) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, LineError> {
    line.clear();
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(LineError::Read(error)),
        };
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
        let used = end.unwrap_or(buffer.len());
        if line.len() + used > LINE_LIMIT {
            return Err(LineError::TooLong);
        }
        line.extend_from_slice(&buffer[..used]);
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(!line.is_empty());
        }
    }
}

/// Whether a line says nothing.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whatever_they_end_with_and_none_is_read_that_is_too_long() {
        let mut reader = std::io::BufReader::with_capacity(3, b"one\r\n\nlast".as_slice());
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        while read_line(&mut reader, &mut line).unwrap() {
            lines.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(lines, ["one\r\n", "\n", "last"]);
        let endless = std::io::Read::take(std::io::repeat(b'x'), 1 << 40);
        let mut reader = std::io::BufReader::new(endless);
        assert!(matches!(read_line(&mut reader, &mut line), Err(LineError::TooLong)));
        assert!(line.capacity() <= 2 * LINE_LIMIT);
    }
}
