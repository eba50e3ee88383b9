/// A run of a prompt: either one control token, or text that stays text whatever it spells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A token of the tokenizer's added vocabulary.
    Control(u32),
    /// Text, encoded by the model's vocabulary alone. Tokens never reach across two pieces.
    Text(String),
}
