//! What Python's Jinja reads and the parser does not, in the spelling that the parser reads.

use std::borrow::Cow;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// A template's source in which every escape means what it means in Python, and in which a sign `+` is two of `-`: the
/// parser knows no other.
///
/// # Errors
///
/// An escape that is not known here.
pub(crate) fn in_parsers_words(source: &str, syntax: SyntaxConfig) -> Result<Cow<'_, str>, String> {
    if !["\\a", "\\v", "\\/", "\\U", "\\N", "+"].iter().any(|part| source.contains(part)) {
        return Ok(Cow::Borrowed(source));
    }
    let mut written = String::new();
    let (mut from, mut ends_operand) = (0, false);
    for token in tokenize(source, false, syntax) {
        // The parser says what is wrong with it.
        let Ok((token, span)) = token else { break };
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        let (Some(before), Some(text)) = (source.get(from..start), source.get(start..end)) else { continue };
        let is_sign = matches!(token, Token::Plus) && !ends_operand;
        ends_operand = is_end_of_operand(&token);
        match token {
            Token::String(_) => {
                written.push_str(before);
                write_quoted(text, &mut written)
                    .map_err(|why| format!("{why} (line {} of the template)", span.start_line))?;
            }
            Token::Plus if is_sign => written.extend([before, "- -"]),
            _ => continue,
        }
        from = end;
    }
    written.push_str(source.get(from..).unwrap_or_default());
    Ok(Cow::Owned(written))
}

/// Whether a `+` behind a token adds, and is no sign.
fn is_end_of_operand(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(word) => !["not", "and", "or", "in", "if", "elif", "else"].contains(word),
        Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => true,
        Token::BracketClose | Token::ParenClose | Token::BraceClose => true,
        _ => false,
    }
}

fn write_quoted(quoted: &str, written: &mut String) -> Result<(), String> {
    let mut rest = quoted;
    while let Some((before, escape)) = rest.split_once('\\') {
        written.push_str(before);
        let Some(kind) = escape.chars().next() else {
            written.push('\\');
            return Ok(());
        };
        rest = &escape[kind.len_utf8()..];
        match kind {
            'a' => written.push_str("\\x07"),
            'v' => written.push_str("\\x0b"),
            '/' => written.push_str("\\\\/"),
            'U' => {
                let digits = rest.get(..8).ok_or("a text has `\\U` without eight digits behind it")?;
                let character = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                let character = character.ok_or_else(|| format!("`\\U{digits}` is no character"))?;
                match u8::try_from(character) {
                    Ok(byte) => written.push_str(&format!("\\x{byte:02x}")),
                    Err(_) => written.push(character),
                }
                rest = &rest[8..];
            }
            'N' => {
                return Err("a text has `\\N{...}`, and names of characters are not known here: write the character \
                            itself"
                    .to_owned());
            }
            other => written.extend(['\\', other]),
        }
    }
    written.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_texts_are_pythons_and_those_that_are_not_known_are_refused() {
        let read = |source| in_parsers_words(source, SyntaxConfig::default());
        for (source, expected) in [
            (r"{{ 'a\n' }}", r"{{ 'a\n' }}"),
            (r"\a {{ '\a\v\/\\a\U0001F600\U00000027' }} \v", r"\a {{ '\x07\x0b\\/\\a😀\x27' }} \v"),
            ("{{ +a + +1 }}{% if not +a %}+{% endif %}", "{{ - -a + - -1 }}{% if not - -a %}+{% endif %}"),
            ("{{ [+a, (b) + c[0] + 'd' + 1] }}", "{{ [- -a, (b) + c[0] + 'd' + 1] }}"),
        ] {
            assert_eq!(read(source).unwrap(), expected);
        }
        for (source, why) in [
            (
                "{{ 1 }}\n{{ '\\N{EM DASH}' }}",
                "names of characters are not known here: write the character itself (line 2",
            ),
            (r"{{ '\U0001' }}", "`\\U` without eight digits"),
            (r"{{ '\UFFFFFFFF' }}", "`\\UFFFFFFFF` is no character"),
        ] {
            let error = read(source).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
