//! The formats of model families, one file each.

mod llama3;
mod role_colon;

use std::fmt::Write;

use crate::format::Format;
use crate::{RenderError, Tokenizer};

/// What can be chosen about a named format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Reproduce tinker-cookbook token for token, faults included.
    pub cookbook_exact: bool,
    /// Today's date as `YYYY-MM-DD`, for formats that tell the model. None: the day on which a prompt is rendered, UTC.
    pub current_date: Option<String>,
}

impl FormatOptions {
    /// Text that tells apart options under which tokens may differ.
    pub(crate) fn fingerprint(&self) -> String {
        let mut text = String::new();
        let _ = write!(text, "cookbook_exact={} current_date={:?}", self.cookbook_exact, self.current_date);
        text
    }
}

/// The format of a name. A name may end in `#strip=False`, which keeps reasoning in the history.
pub(crate) fn open_format(
    name: &str,
    tokenizer: &Tokenizer,
    options: &FormatOptions,
) -> Result<Box<dyn Format>, RenderError> {
    let (family, strip_thinking) = match name.strip_suffix("#strip=False") {
        Some(family) => (family, false),
        None => (name, true),
    };
    let _ = (strip_thinking, options);
    Ok(match family {
        "role_colon" => Box::new(role_colon::RoleColon::new(tokenizer)),
        "llama3" => Box::new(llama3::Llama3),
        _ => return Err(RenderError::UnknownRenderer { name: name.to_owned() }),
    })
}
