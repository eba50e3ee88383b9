use minijinja::{Error, ErrorKind};

use crate::python::budget::Exhausted;

/// What stops a template: an error that Python raises, or a budget that is used up.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct PythonError {
    message: String,
    /// The line of the template, once it is known.
    line: Option<usize>,
}

impl PythonError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None }
    }

    /// The same error, of the innermost statement that it came from.
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self { line: self.line.or(Some(line)), ..self }
    }

    /// The message, with the template's line where it is known.
    pub(crate) fn in_template(&self) -> String {
        match self.line {
            Some(line) => format!("{} (line {line} of the template)", self.message),
            None => self.message.clone(),
        }
    }
}

impl From<Exhausted> for PythonError {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(exhausted.to_string())
    }
}

impl From<Error> for PythonError {
    fn from(error: Error) -> Self {
        match (error.kind(), error.detail()) {
            (ErrorKind::InvalidOperation, Some(detail)) => Self::new(detail),
            _ => Self::new(error.to_string()),
        }
    }
}

/// `Err` of an error that Python raises.
pub(crate) fn raise<T>(message: impl Into<String>) -> Result<T, PythonError> {
    Err(PythonError::new(message))
}
