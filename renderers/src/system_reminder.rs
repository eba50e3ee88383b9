/// The marks around a system message that is written into the user's turn, as in the prompts of Claude Code.
pub(crate) const REMINDER: [&str; 2] = ["<system-reminder>\n", "\n</system-reminder>"];
