//! Runs of text and control tokens that are held against each other before they become tokens.

use crate::tokenizer::piece::Piece;

/// What follows `prefix` in `pieces`; `None` where they do not begin with it. Text may end inside a piece.
pub(crate) fn without_prefix(pieces: &[Piece], prefix: &[Piece]) -> Option<Vec<Piece>> {
    let mut pieces = merged(pieces);
    let prefix = merged(prefix);
    let Some((last, before)) = prefix.split_last() else { return Some(pieces) };
    if pieces.len() < prefix.len() || pieces[..before.len()] != *before {
        return None;
    }
    let mut rest = pieces.split_off(before.len());
    let remainder = match (&rest[0], last) {
        (Piece::Text(text), Piece::Text(start)) => text.strip_prefix(start.as_str())?.to_owned(),
        (piece, last) if piece == last => String::new(),
        _ => return None,
    };
    rest[0] = Piece::Text(remainder);
    rest.retain(|piece| *piece != Piece::Text(String::new()));
    Some(rest)
}

/// What is left of two runs of pieces behind that which they begin with alike.
pub(crate) fn after_common(left: &[Piece], right: &[Piece]) -> (Vec<Piece>, Vec<Piece>) {
    let (left, right) = (merged(left), merged(right));
    let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    let (mut left, mut right) = (left[same..].to_vec(), right[same..].to_vec());
    if let (Some(Piece::Text(left_text)), Some(Piece::Text(right_text))) = (left.first_mut(), right.first_mut()) {
        let common: usize = left_text
            .chars()
            .zip(right_text.chars())
            .take_while(|(left, right)| left == right)
            .map(|(character, _)| character.len_utf8())
            .sum();
        left_text.drain(..common);
        right_text.drain(..common);
    }
    let is_text = |piece: &Piece| *piece != Piece::Text(String::new());
    left.retain(is_text);
    right.retain(is_text);
    (left, right)
}

/// What stands before and after the last place of a character in the text; `None` where it does not occur.
pub(crate) fn split_at_last(mut pieces: Vec<Piece>, mark: char) -> Option<(Vec<Piece>, Vec<Piece>)> {
    let position = pieces.iter().rposition(|piece| matches!(piece, Piece::Text(text) if text.contains(mark)))?;
    let mut after = pieces.split_off(position);
    if let Piece::Text(text) = &after[0] {
        let (left, right) = text.rsplit_once(mark)?;
        pieces.push(Piece::Text(left.to_owned()));
        after[0] = Piece::Text(right.to_owned());
    }
    let is_text = |piece: &Piece| *piece != Piece::Text(String::new());
    pieces.retain(is_text);
    after.retain(is_text);
    Some((pieces, after))
}

/// The pieces with neighbouring text joined.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(text),
            _ => out.push(piece.clone()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_may_end_inside_a_text() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let pieces = [Piece::Control(1), text("ab"), text("c"), Piece::Control(2)];
        assert_eq!(without_prefix(&pieces, &[Piece::Control(1), text("a")]).unwrap(), [text("bc"), Piece::Control(2)]);
        assert_eq!(without_prefix(&pieces, &[Piece::Control(1)]).unwrap(), [text("abc"), Piece::Control(2)]);
        assert_eq!(without_prefix(&pieces, &pieces).unwrap(), []);
        assert_eq!(without_prefix(&pieces, &[Piece::Control(2)]), None);
        assert_eq!(without_prefix(&pieces, &[Piece::Control(1), text("b")]), None);
    }
}
