/// The first `most` characters of a text, and `ellipsis` after them if there are more.
pub fn shortened(text: &str, most: usize, ellipsis: &str) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => text[..end].to_owned() + ellipsis,
    }
}

/// As [`shortened`], on one line in which nothing moves the cursor: control characters are spaces.
pub fn shortened_line(text: &str, most: usize, ellipsis: &str) -> String {
    let first = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    shortened(&first.take(most.saturating_add(1)).collect::<String>(), most, ellipsis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_only_where_it_is_longer() {
        assert_eq!((shortened("äöü", 3, "..."), shortened("äöü", 2, "...")), ("äöü".to_owned(), "äö...".to_owned()));
        assert_eq!(shortened_line("a\nb\u{1b}[2J", 4, "…"), "a b …");
        assert_eq!(
            (shortened_line("", 0, "…"), shortened_line("a\n", usize::MAX, "…")),
            (String::new(), "a ".to_owned())
        );
    }
}
