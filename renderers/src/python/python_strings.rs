//! What Python does with texts.

/// Python's `str.isspace` of one character: Unicode's white space, and the four ASCII separators besides.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// `text.strip(characters)`, at the sides that are chosen; without characters, of white space.
pub(crate) fn strip<'t>(text: &'t str, characters: Option<&str>, [start, end]: [bool; 2]) -> &'t str {
    let strips = |character: char| match characters {
        None => is_space(character),
        Some(set) => set.contains(character),
    };
    let text = if start { text.trim_start_matches(strips) } else { text };
    if end { text.trim_end_matches(strips) } else { text }
}

/// Python's `str.splitlines`.
pub(crate) fn splitlines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_break =
        |character: char| matches!(character, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_break) {
        let end = if rest[at..].starts_with("\r\n") {
            "\r\n".len()
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Every letter after something that is no letter becomes a capital: `Don'T`, as Python has it.
pub(crate) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for character in text.chars() {
        if inside {
            out.extend(character.to_lowercase());
        } else {
            out.push_str(&title_case(character));
        }
        inside = character.is_lowercase() || character.is_uppercase();
    }
    out
}

/// The first letter becomes a capital, the others small.
pub(crate) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(title_case).unwrap_or_default();
    first + &characters.as_str().to_lowercase()
}

/// A letter as it begins a word: of those that are two in one, only the first is a capital.
fn title_case(character: char) -> String {
    let digraphs = [('ǅ', ['Ǆ', 'ǆ']), ('ǈ', ['Ǉ', 'ǉ']), ('ǋ', ['Ǌ', 'ǌ']), ('ǲ', ['Ǳ', 'ǳ'])];
    if let Some((title, _)) = digraphs.iter().find(|(_, cases)| cases.contains(&character)) {
        return title.to_string();
    }
    let mut upper = character.to_uppercase();
    let first = upper.next().unwrap_or(character);
    std::iter::once(first).chain(upper.flat_map(char::to_lowercase)).collect()
}
