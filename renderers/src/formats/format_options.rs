use std::fmt::Write;

/// What can be chosen about a named format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Reproduce tinker-cookbook token for token, faults included.
    pub cookbook_exact: bool,
    /// Today's date as `YYYY-MM-DD`, for formats that write it into prompts. None: the day on which a prompt is
    /// rendered, UTC.
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
