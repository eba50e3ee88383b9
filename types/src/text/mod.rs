//! Text as people write it and as they are shown it: names, numbers, placeholders, enums as words.

pub(crate) mod json_text;
pub(crate) mod long_numbers;
pub(crate) mod nearest_name;
pub(crate) mod short_text;
pub(crate) mod task_placeholder;
pub(crate) mod words;
