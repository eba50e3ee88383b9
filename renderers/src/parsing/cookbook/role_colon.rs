use super::cookbook_message::CookbookMessage;
use super::draft::Draft;
use crate::Tokenizer;
use crate::parsing::Termination;

/// Base models: one leading space and the blank line before the next role are taken off.
pub(super) fn parse(tokenizer: &Tokenizer, sampled: &[u32]) -> CookbookMessage {
    let without_eos = tokenizer.eos_token().and_then(|eos| sampled.strip_suffix(&[eos]));
    let text = tokenizer.decode(without_eos.unwrap_or(sampled));
    let pieces: Vec<&str> = text.split("\n\nUser:").collect();
    let content = pieces[0].strip_prefix(' ').unwrap_or(pieces[0]);
    let content = content.strip_suffix("\n\n").unwrap_or(content);
    let termination = match (pieces.len(), without_eos) {
        (1, Some(_)) => Termination::Eos,
        (2, None) => Termination::StopSequence,
        _ => Termination::Malformed,
    };
    CookbookMessage { message: Draft::of_text(content.to_owned()).into_message(), termination }
}
