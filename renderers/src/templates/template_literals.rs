//! The texts that a template's source quotes.

/// Each text in quotes that stands within `{{ }}` or `{% %}`.
pub(crate) fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(open) = rest.find(['{']) {
        rest = &rest[open + 1..];
        let close = match rest.chars().next() {
            Some('{') => "}}",
            Some('%') => "%}",
            _ => continue,
        };
        let mut block = &rest[1..];
        // A quoted text may hold what ends the block.
        while let Some(at) = block.find(['\'', '"', close.chars().next().unwrap_or('}')]) {
            if block[at..].starts_with(close) {
                block = &block[at..];
                break;
            }
            match (&block[at..=at], quoted(&block[at..])) {
                ("'" | "\"", Some((text, length))) => {
                    found.push(text);
                    block = &block[at + length..];
                }
                _ => block = &block[at + 1..],
            }
        }
        rest = block;
    }
    found
}

/// The text that begins with a quote, and how long it is in the source.
fn quoted(source: &str) -> Option<(String, usize)> {
    let mut characters = source.char_indices();
    let (_, quote) = characters.next()?;
    let mut text = String::new();
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((text, at + 1)),
            '\\' => text.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_are_found_in_blocks_alone() {
        let source = "don't {{- 'a\\n' + \"b'}}\" }} it's {% if '</think>' in m.content %}{'c'}{% set x = 1 % 2 %}{{ 'd' }}{{ 'e";
        assert_eq!(literals(source), ["a\n", "b'}}", "</think>", "d"]);
    }
}
