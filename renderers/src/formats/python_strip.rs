//! White space around text, as Python's `str.strip` has it.

use std::borrow::Cow;

use crate::python::python_strings::is_space;

/// Text without the white space around it.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// [`trimmed`] of borrowed or owned text.
pub(crate) fn trimmed_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(trimmed(text)),
        Cow::Owned(text) => Cow::Owned(trimmed(&text).to_owned()),
    }
}

/// Text without the white space at its beginning.
pub(crate) fn trimmed_start_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_start_matches(is_space)),
        Cow::Owned(text) => Cow::Owned(text.trim_start_matches(is_space).to_owned()),
    }
}

/// Text without the white space at its end.
pub(crate) fn trimmed_end_cow(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end_matches(is_space)),
        Cow::Owned(text) => Cow::Owned(text.trim_end_matches(is_space).to_owned()),
    }
}
