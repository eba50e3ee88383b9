//! Reads expressions; says of a mistake where it is.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::condition::{Comparison, Condition, Field, Operand};
use super::expression::RolloutExpression;
use crate::{RolloutMode, RolloutStatus, time};

/// How deep an expression may be nested.
const DEEPEST: usize = 64;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}, at character {position} of the filter")]
pub struct ExpressionError {
    /// What is wrong.
    pub message: String,
    /// Where, in characters from 1.
    pub position: usize,
}

impl FromStr for RolloutExpression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        parse(text)
    }
}

impl<'de> Deserialize<'de> for RolloutExpression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Compare(Comparison),
    Open,
    Close,
}

impl Token {
    fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own.eq_ignore_ascii_case(word))
    }
}

/// Reads an expression.
fn parse(text: &str) -> Result<RolloutExpression, ExpressionError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0, end: text.chars().count() + 1 };
    let expression = parser.any_of()?;
    match parser.peek() {
        None => Ok(expression),
        Some(token) => Err(parser.wrong(format!("{} stands where `and`, `or` or the end is expected", shown(token)))),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Quoted(text) => format!("\"{text}\""),
        Token::Compare(comparison) => format!("`{comparison}`"),
        Token::Open => "`(`".to_owned(),
        Token::Close => "`)`".to_owned(),
    }
}

/// The pieces with where they begin.
fn tokens(text: &str) -> Result<Vec<(Token, usize)>, ExpressionError> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut place = 0;
    while let Some(character) = characters.get(place).copied() {
        let begin = place;
        let next = characters.get(place + 1).copied();
        let (token, length) = match (character, next) {
            (space, _) if space.is_whitespace() => {
                place += 1;
                continue;
            }
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            ('=', Some('=')) => (Token::Compare(Comparison::Equal), 2),
            ('=', _) => (Token::Compare(Comparison::Equal), 1),
            ('!', Some('=')) => (Token::Compare(Comparison::NotEqual), 2),
            ('<', Some('=')) => (Token::Compare(Comparison::AtMost), 2),
            ('<', _) => (Token::Compare(Comparison::Less), 1),
            ('>', Some('=')) => (Token::Compare(Comparison::AtLeast), 2),
            ('>', _) => (Token::Compare(Comparison::Greater), 1),
            ('"' | '\'', _) => quoted(&characters, place)?,
            (letter, _) if is_of_word(letter) => {
                let length = characters[place..].iter().take_while(|letter| is_of_word(**letter)).count();
                (Token::Word(characters[place..place + length].iter().collect()), length)
            }
            (other, _) => {
                let message = format!("`{other}` is nothing that a filter has");
                return Err(ExpressionError { message, position: begin + 1 });
            }
        };
        tokens.push((token, begin + 1));
        place += length;
    }
    Ok(tokens)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_.-+:/@".contains(letter)
}

/// A text in quotes of either kind, in which a backslash makes the next character one of the text.
fn quoted(characters: &[char], begin: usize) -> Result<(Token, usize), ExpressionError> {
    let quote = characters[begin];
    let mut text = String::new();
    let mut place = begin + 1;
    loop {
        match (characters.get(place), characters.get(place + 1)) {
            (Some('\\'), Some(next)) => {
                text.push(*next);
                place += 2;
            }
            (Some(end), _) if *end == quote => return Ok((Token::Quoted(text), place + 1 - begin)),
            (Some(other), _) => {
                text.push(*other);
                place += 1;
            }
            (None, _) => {
                let message = format!("the text that begins with {quote} does not end");
                return Err(ExpressionError { message, position: begin + 1 });
            }
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
    /// The position behind the text.
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn wrong(&self, message: String) -> ExpressionError {
        let position = self.tokens.get(self.next).map_or(self.end, |(_, position)| *position);
        ExpressionError { message, position }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let takes = self.peek().is_some_and(|token| token.is_word(word));
        self.next += usize::from(takes);
        takes
    }

    fn any_of(&mut self) -> Result<RolloutExpression, ExpressionError> {
        let mut parts = vec![self.all_of()?];
        while self.takes_word("or") {
            parts.push(self.all_of()?);
        }
        Ok(one_or(parts, RolloutExpression::Or))
    }

    fn all_of(&mut self) -> Result<RolloutExpression, ExpressionError> {
        let mut parts = vec![self.part()?];
        while self.takes_word("and") {
            parts.push(self.part()?);
        }
        Ok(one_or(parts, RolloutExpression::And))
    }

    fn part(&mut self) -> Result<RolloutExpression, ExpressionError> {
        if self.depth == DEEPEST {
            return Err(self.wrong(format!("the filter is nested deeper than {DEEPEST} times")));
        }
        self.depth += 1;
        let part = if self.takes_word("not") {
            RolloutExpression::Not(Box::new(self.part()?))
        } else if self.peek() == Some(&Token::Open) {
            self.next += 1;
            let inner = self.any_of()?;
            if self.peek() != Some(&Token::Close) {
                return Err(self.wrong("a `)` is missing".to_owned()));
            }
            self.next += 1;
            inner
        } else {
            RolloutExpression::Is(self.condition()?)
        };
        self.depth -= 1;
        Ok(part)
    }

    fn condition(&mut self) -> Result<Condition, ExpressionError> {
        let there_is = Field::NAMES.join("`, `");
        let field = match self.peek() {
            Some(Token::Word(name)) => match Field::named(name) {
                Some(field) => field,
                None => return Err(self.wrong(format!("`{name}` is no field; there is `{there_is}`"))),
            },
            Some(other) => return Err(self.wrong(format!("{} stands where a field is expected", shown(other)))),
            None => return Err(self.wrong(format!("a condition is missing; fields are `{there_is}`"))),
        };
        self.next += 1;
        let comparison = match self.peek() {
            Some(Token::Compare(comparison)) => *comparison,
            _ => return Err(self.wrong(format!("`{field}` is compared with nothing: `{field} = ...`"))),
        };
        if comparison.is_ordered() && !field.is_number() {
            return Err(self.wrong(format!("`{field}` is text, which is `=` or `!=` another")));
        }
        self.next += 1;
        let operand = self.operand(&field)?;
        self.next += 1;
        Ok(Condition { field, comparison, operand })
    }

    fn operand(&self, field: &Field) -> Result<Operand, ExpressionError> {
        let text = match self.peek() {
            Some(Token::Word(text) | Token::Quoted(text)) => text.as_str(),
            _ => return Err(self.wrong(format!("`{field}` is compared with nothing"))),
        };
        match field {
            Field::Since => {
                let number = text
                    .parse()
                    .ok()
                    .filter(|seconds: &f64| seconds.is_finite())
                    .or_else(|| time::parse(text).filter(|seconds| *seconds >= 0.0));
                let form = "2026-11-25, 2026-11-25T04:00:00 (UTC) or seconds since 1970";
                number.map(Operand::Number).ok_or_else(|| self.wrong(format!("`{text}` is no time: {form}")))
            }
            field if field.is_number() => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Operand::Number(number)),
                _ => Err(self.wrong(format!("`{text}` is no number, as `{field}` is"))),
            },
            Field::Mode if RolloutMode::from_word(text).is_none() => {
                Err(self.wrong(format!("`{text}` is no mode; there is `train`, `val`, `test`")))
            }
            Field::Status if RolloutStatus::from_word(text).is_none() => {
                Err(self.wrong(format!("`{text}` is no status")))
            }
            _ => Ok(Operand::Text(text.to_owned())),
        }
    }
}

fn one_or(
    mut parts: Vec<RolloutExpression>,
    several: fn(Vec<RolloutExpression>) -> RolloutExpression,
) -> RolloutExpression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            several(parts)
        }
        None => several(parts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<RolloutExpression>().unwrap_err().to_string()
    }

    #[test]
    fn and_binds_before_or_and_not_before_both() {
        let text = "reward >= 1 and mode = train or not tag == 'a\"b' AND run != x-1";
        let printed = text.parse::<RolloutExpression>().unwrap().to_string();
        assert_eq!(printed, r#"(reward >= 1.0 and mode = "train") or (not tag = "a\"b" and run != "x-1")"#);
    }

    #[test]
    fn times_are_dates_or_seconds() {
        assert_eq!(time::parse("1970-01-01"), Some(0.0));
        assert_eq!(time::parse("2000-03-01T00:00:01Z"), Some(951_868_801.0));
        assert_eq!(time::parse("2024-02-29T23:59"), Some(1_709_251_140.0));
        for wrong in ["2023-02-29", "2024-13-01", "2024-00-01", "2024-01-00", "2024-1", "x", "2024-01-01T24:00"] {
            assert_eq!(time::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        for (text, expected) in [
            ("", "a condition is missing"),
            ("rewrd >= 1", "`rewrd` is no field; there is `reward`, `reward.NAME`, `mode`"),
            ("reward", "`reward` is compared with nothing: `reward = ...`, at character 7"),
            ("reward >= high", "`high` is no number, as `reward` is, at character 11"),
            ("reward >= inf", "`inf` is no number"),
            ("reward >=", "`reward` is compared with nothing, at character 10"),
            ("mode > train", "`mode` is text, which is `=` or `!=` another"),
            ("mode = training", "`training` is no mode"),
            ("status = done", "`done` is no status"),
            ("since >= yesterday", "`yesterday` is no time"),
            ("(reward = 1", "a `)` is missing, at character 12"),
            ("reward = 1 mode = val", "`mode` stands where `and`, `or` or the end is expected, at character 12"),
            ("reward = 1; DROP TABLE rollouts", "`;` is nothing that a filter has, at character 11"),
            ("tag = 'x", "the text that begins with ' does not end"),
            ("and reward = 1", "`and` is no field"),
        ] {
            let message = refused(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert!(refused(&"(".repeat(100_000)).contains("nested deeper than 64 times"));
    }

    fn any_condition() -> impl Strategy<Value = RolloutExpression> {
        let text = prop_oneof!["[a-z]{1,6}", ".{0,8}"];
        let number = prop_oneof![any::<i32>().prop_map(f64::from), -1e300..1e300f64];
        let comparison = prop::sample::select(vec![
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::AtMost,
            Comparison::Greater,
            Comparison::AtLeast,
        ]);
        let numbers = (
            prop_oneof![
                Just(Field::Reward),
                "[a-z_.]{1,5}".prop_map(Field::Component),
                Just(Field::Step),
                Just(Field::Since)
            ],
            comparison,
            number.prop_map(Operand::Number),
        );
        let equality = prop::sample::select(vec![Comparison::Equal, Comparison::NotEqual]);
        let texts = (
            prop::sample::select(vec![Field::Tag, Field::Model, Field::Run, Field::Rollout, Field::Session]),
            equality,
            text.prop_map(Operand::Text),
        );
        let of = |(field, comparison, operand)| RolloutExpression::Is(Condition { field, comparison, operand });
        prop_oneof![numbers.prop_map(of), texts.prop_map(of)]
    }

    fn any_expression() -> impl Strategy<Value = RolloutExpression> {
        any_condition().prop_recursive(4, 24, 4, |inner| {
            let several = || prop::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                several().prop_map(RolloutExpression::And),
                several().prop_map(RolloutExpression::Or),
                inner.prop_map(|part| RolloutExpression::Not(Box::new(part))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(expression in any_expression()) {
            let printed = expression.to_string();
            prop_assert_eq!(printed.parse::<RolloutExpression>(), Ok(expression), "{}", printed);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<RolloutExpression>();
        }
    }
}
