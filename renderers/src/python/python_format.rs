//! Python's `%` on texts, and `str.format`.

use std::iter::Peekable;
use std::str::Chars;

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{as_dict, as_sequence};
use crate::python::python_repr::{python_repr_within, python_str_within};
use crate::python::python_values::{Number, integer, number, type_name};

type Outcome<T> = Result<T, PythonError>;

/// How one value is written.
#[derive(Clone, Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    is_alternate: bool,
    has_zeros: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// `format % values`.
pub(crate) fn percent(format: &str, values: &Value, budget: &Budget<'_>) -> Outcome<String> {
    let positional = match values.is_tuple() {
        true => as_sequence(values).unwrap_or_default().into_owned(),
        false => vec![values.clone()],
    };
    let mut positional = positional.iter();
    let mut takes_names = false;
    let mut out = String::new();
    let mut rest = format.chars().peekable();
    budget.look_through(format)?;
    budget.make(format.len())?;
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut named = None;
        if rest.next_if_eq(&'(').is_some() {
            let name = parenthesized(&mut rest);
            named = Some(entry(values, &name)?);
            takes_names = true;
        }
        let mut spec = Spec::of_flags(&mut rest);
        let mut next = || match &named {
            Some(value) => Ok(value),
            None => positional.next().ok_or_else(|| PythonError::new("not enough arguments for format string")),
        };
        let starred = |value: &Value| integer(value).ok_or_else(|| PythonError::new("* wants int"));
        if rest.next_if_eq(&'*').is_some() {
            let width = starred(next()?)?;
            spec.align = if width < 0 { Some('<') } else { spec.align };
            spec.width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        } else {
            spec.width = digits(&mut rest)?.unwrap_or(0);
        }
        if rest.next_if_eq(&'.').is_some() {
            spec.precision = Some(if rest.next_if_eq(&'*').is_some() {
                usize::try_from(starred(next()?)?).unwrap_or(0)
            } else {
                digits(&mut rest)?.unwrap_or(0)
            });
        }
        while rest.next_if(|modifier| "hlL".contains(*modifier)).is_some() {}
        let Some(kind) = rest.next() else { return raise("incomplete format") };
        let value = next()?;
        if kind == '%' {
            return raise("unsupported format character '%'");
        }
        let text = conversion(kind, value, spec, budget)?;
        budget.make(text.len())?;
        out.push_str(&text);
    }
    let is_used = takes_names || positional.next().is_none();
    let may_stay =
        values.is_undefined() || as_dict(values).is_some() || (as_sequence(values).is_some() && !values.is_tuple());
    if !is_used && !may_stay {
        return raise("not all arguments converted during string formatting");
    }
    Ok(out)
}

/// The value of a name in what `%` formats.
fn entry(values: &Value, name: &str) -> Outcome<Value> {
    let Some(entries) = as_dict(values) else { return raise("format requires a mapping") };
    let found = entries.into_iter().find(|(key, _)| key.as_str() == Some(name));
    found.map(|(_, value)| value).ok_or_else(|| PythonError::new(format!("KeyError: '{name}'")))
}

/// The name up to the parenthesis that closes it, behind the one that opens it.
fn parenthesized(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut name = String::new();
    let mut depth = 1;
    for character in rest {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        name.push(character);
    }
    name
}

impl Spec {
    /// The flags of `%` that come next.
    fn of_flags(rest: &mut Peekable<Chars<'_>>) -> Self {
        let mut spec = Self::default();
        while let Some(flag) = rest.next_if(|flag| "-+ 0#".contains(*flag)) {
            match flag {
                '-' => spec.align = Some('<'),
                '0' => spec.has_zeros = true,
                '#' => spec.is_alternate = true,
                ' ' if spec.sign.is_some() => {}
                sign => spec.sign = Some(sign),
            }
        }
        spec
    }
}

fn conversion(kind: char, value: &Value, mut spec: Spec, budget: &Budget<'_>) -> Outcome<String> {
    spec.align = spec.align.or(Some('>'));
    match kind {
        's' | 'r' | 'a' => {
            let text = match kind {
                's' => python_str_within(value, budget)?.into_owned(),
                _ => python_repr_within(value, budget)?,
            };
            let text = if kind == 'a' { ascii(&text) } else { text };
            let text = spec.precision.map_or_else(|| text.clone(), |precision| text.chars().take(precision).collect());
            padded(&text, Spec { has_zeros: false, ..spec }, budget)
        }
        'c' => {
            let text = match (value.as_str(), integer(value)) {
                (Some(text), _) if text.chars().count() == 1 => text.to_owned(),
                (None, Some(code)) => code_point(code)?.to_string(),
                _ => return raise("%c requires int or char"),
            };
            padded(&text, Spec { has_zeros: false, ..spec }, budget)
        }
        'd' | 'i' | 'u' => {
            let Some(value) = number(value) else {
                return raise(format!("%{kind} format: a real number is required, not {}", type_name(value)));
            };
            let whole = match value {
                Number::Integer(integer) => integer,
                Number::Float(float) if float.is_finite() => float.trunc() as i128,
                Number::Float(_) => return raise("cannot convert float to integer"),
            };
            write_integer(whole, 'd', &spec, budget)
        }
        'o' | 'x' | 'X' => match integer(value) {
            Some(integer) => write_integer(integer, kind, &spec, budget),
            None => raise(format!("%{kind} format: an integer is required, not {}", type_name(value))),
        },
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => match number(value) {
            Some(value) => write_float(value.float(), kind, &spec, budget),
            None => raise(format!("must be real number, not {}", type_name(value))),
        },
        other => raise(format!("unsupported format character '{other}'")),
    }
}

/// `format.format(*positional, **named)`.
pub(crate) fn format(
    format: &str,
    positional: &[Value],
    named: &[(Box<str>, Value)],
    look_up: &dyn Fn(&Value, &str, bool) -> Outcome<Value>,
    budget: &Budget<'_>,
) -> Outcome<String> {
    let fields = Fields { positional, named, look_up, budget };
    let mut at = Some(0);
    fields.write(format, &mut at, 0)
}

struct Fields<'f> {
    positional: &'f [Value],
    named: &'f [(Box<str>, Value)],
    look_up: &'f dyn Fn(&Value, &str, bool) -> Outcome<Value>,
    budget: &'f Budget<'f>,
}

impl Fields<'_> {
    /// `at` is the place of the next field without a name; `None` once a field has had a number.
    fn write(&self, format: &str, at: &mut Option<usize>, depth: usize) -> Outcome<String> {
        if depth > 2 {
            return raise("Max string recursion exceeded");
        }
        self.budget.look_through(format)?;
        self.budget.make(format.len())?;
        let mut out = String::new();
        let mut rest = format.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '{' if rest.next_if_eq(&'{').is_some() => out.push('{'),
                '}' if rest.next_if_eq(&'}').is_some() => out.push('}'),
                '}' => return raise("Single '}' encountered in format string"),
                '{' => {
                    let mut field = String::new();
                    let mut open = 1;
                    for character in rest.by_ref() {
                        match character {
                            '{' => open += 1,
                            '}' => open -= 1,
                            _ => {}
                        }
                        if open == 0 {
                            break;
                        }
                        field.push(character);
                    }
                    if open > 0 {
                        return raise("expected '}' before end of string");
                    }
                    let text = self.field(&field, at, depth)?;
                    self.budget.make(text.len())?;
                    out.push_str(&text);
                }
                other => out.push(other),
            }
        }
        Ok(out)
    }

    fn field(&self, field: &str, at: &mut Option<usize>, depth: usize) -> Outcome<String> {
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = match name.split_once('!') {
            Some((name, conversion)) => (name, Some(conversion)),
            None => (name, None),
        };
        let value = self.value(name, at)?;
        let spec = self.write(spec, at, depth + 1)?;
        match conversion {
            None => format_value(&value, &spec, self.budget),
            Some("s") => format_value(&python_str_within(&value, self.budget)?.as_ref().into(), &spec, self.budget),
            Some("r") => format_value(&python_repr_within(&value, self.budget)?.into(), &spec, self.budget),
            Some("a") => format_value(&ascii(&python_repr_within(&value, self.budget)?).into(), &spec, self.budget),
            Some(other) => raise(format!("Unknown conversion specifier {other}")),
        }
    }

    fn value(&self, name: &str, at: &mut Option<usize>) -> Outcome<Value> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut path) = name.split_at(end);
        let place = match (first.is_empty(), first.parse::<usize>()) {
            (true, _) => {
                let Some(next) = at else { return raise("cannot switch from manual field specification") };
                *next += 1;
                Some(*next - 1)
            }
            (false, Ok(place)) => {
                *at = None;
                Some(place)
            }
            (false, Err(_)) => None,
        };
        let mut value = match place {
            Some(place) => match self.positional.get(place) {
                Some(value) => value.clone(),
                None => return raise(format!("Replacement index {place} out of range for positional args tuple")),
            },
            None => match self.named.iter().find(|(known, _)| **known == *first) {
                Some((_, value)) => value.clone(),
                None => return raise(format!("KeyError: '{first}'")),
            },
        };
        while !path.is_empty() {
            let (key, is_item, rest) = if let Some(rest) = path.strip_prefix('[') {
                let Some((key, rest)) = rest.split_once(']') else { return raise("expected '}' before end of string") };
                (key, true, rest)
            } else {
                let rest = path.strip_prefix('.').unwrap_or(path);
                let (key, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
                (key, false, rest)
            };
            value = (self.look_up)(&value, key, is_item)?;
            path = rest;
        }
        Ok(value)
    }
}

/// Python's `format(value, spec)`.
fn format_value(value: &Value, spec: &str, budget: &Budget<'_>) -> Outcome<String> {
    if spec.is_empty() || value.is_undefined() {
        return Ok(python_str_within(value, budget)?.into_owned());
    }
    let mut spec = read_spec(spec)?;
    if let Some(text) = value.as_str() {
        if spec.kind.is_some_and(|kind| kind != 's') {
            return raise("Unknown format code for object of type 'str'");
        }
        if spec.sign.is_some() || spec.align == Some('=') || spec.grouping.is_some() {
            return raise("a sign, '=' or ',' is not allowed in a string's format specifier");
        }
        let text: String = match spec.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        spec.align = spec.align.or(Some('<'));
        if spec.has_zeros {
            spec.fill = spec.fill.or(Some('0'));
            spec.has_zeros = false;
        }
        return padded(&text, spec, budget);
    }
    let Some(number) = number(value) else {
        return raise(format!("unsupported format string passed to {}.__format__", type_name(value)));
    };
    spec.align = spec.align.or(Some('>'));
    match (number, spec.kind) {
        (Number::Integer(integer), None | Some('d' | 'n')) => {
            if spec.precision.is_some() {
                return raise("Precision not allowed in integer format specifier");
            }
            write_integer(integer, 'd', &spec, budget)
        }
        (Number::Integer(integer), Some(kind @ ('b' | 'o' | 'x' | 'X'))) => write_integer(integer, kind, &spec, budget),
        (Number::Integer(integer), Some('c')) => padded(&code_point(integer)?.to_string(), spec, budget),
        (number, Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%'))) => {
            write_float(number.float(), kind, &spec, budget)
        }
        (number, Some('n')) => write_float(number.float(), 'g', &spec, budget),
        (Number::Float(float), None) => write_float(float, 'r', &spec, budget),
        (_, Some(kind)) => raise(format!("Unknown format code '{kind}' for object of type '{}'", type_name(value))),
    }
}

fn read_spec(text: &str) -> Outcome<Spec> {
    let characters: Vec<char> = text.chars().collect();
    let is_align = |character: Option<&char>| character.copied().filter(|align| "<>=^".contains(*align));
    let mut spec = Spec::default();
    let mut from = 0;
    if let Some(align) = is_align(characters.get(1)) {
        (spec.fill, spec.align, from) = (Some(characters[0]), Some(align), 2);
    } else if let Some(align) = is_align(characters.first()) {
        (spec.align, from) = (Some(align), 1);
    }
    let rest: String = characters[from..].iter().collect();
    let mut rest = rest.chars().peekable();
    spec.sign = rest.next_if(|sign| "+- ".contains(*sign));
    spec.is_alternate = rest.next_if_eq(&'#').is_some();
    spec.has_zeros = rest.next_if_eq(&'0').is_some();
    if spec.has_zeros && spec.align.is_some() {
        spec.fill = spec.fill.or(Some('0'));
        spec.has_zeros = false;
    }
    spec.width = digits(&mut rest)?.unwrap_or(0);
    spec.grouping = rest.next_if(|grouping| ",_".contains(*grouping));
    if rest.next_if_eq(&'.').is_some() {
        spec.precision = match digits(&mut rest)? {
            Some(precision) => Some(precision),
            None => return raise("Format specifier missing precision"),
        };
    }
    spec.kind = rest.next();
    if rest.next().is_some() {
        return raise("Invalid format specifier");
    }
    Ok(spec)
}

fn digits(rest: &mut Peekable<Chars<'_>>) -> Outcome<Option<usize>> {
    let mut text = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        text.push(digit);
    }
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| PythonError::new("Too many decimal digits in format string"))
}

fn code_point(code: i128) -> Outcome<char> {
    let character = u32::try_from(code).ok().and_then(char::from_u32);
    character.ok_or_else(|| PythonError::new("character code not in range(0x110000)"))
}

/// Python's `ascii()` of a text that `repr` gave.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            character if character.is_ascii() => out.push(character),
            character => crate::python::python_repr::push_escape(&mut out, character),
        }
    }
    out
}

fn write_integer(integer: i128, kind: char, spec: &Spec, budget: &Budget<'_>) -> Outcome<String> {
    let size = integer.unsigned_abs();
    let (prefix, digits) = match kind {
        'b' => ("0b", format!("{size:b}")),
        'o' => ("0o", format!("{size:o}")),
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        _ => ("", size.to_string()),
    };
    let missing = spec.precision.unwrap_or(0).saturating_sub(digits.len());
    budget.make(missing)?;
    let digits = format!("{}{digits}", "0".repeat(missing));
    let prefix = if spec.is_alternate { prefix } else { "" };
    let group = if kind == 'd' { 3 } else { 4 };
    write_number(integer < 0, prefix, &digits, group, spec, budget)
}

fn write_float(float: f64, kind: char, spec: &Spec, budget: &Budget<'_>) -> Outcome<String> {
    let size = float.abs();
    let is_upper = kind.is_ascii_uppercase();
    if !float.is_finite() {
        let text = if float.is_nan() { "nan" } else { "inf" };
        let text = if is_upper { text.to_uppercase() } else { text.to_owned() };
        let text = if kind == '%' { text + "%" } else { text };
        let spec = Spec { grouping: None, ..spec.clone() };
        return write_number(float.is_sign_negative() && !float.is_nan(), "", &text, 3, &spec, budget);
    }
    let precision = spec.precision.unwrap_or(6);
    budget.make(precision.saturating_add(320))?;
    let digits = match kind.to_ascii_lowercase() {
        'f' => format!("{size:.precision$}") + if precision == 0 && spec.is_alternate { "." } else { "" },
        '%' => format!("{:.precision$}%", size * 100.0),
        'e' => exponential(size, precision),
        'r' if spec.precision.is_none() => crate::python::python_text::float_repr(size),
        _ => general(size, precision.max(1), spec.is_alternate, kind == 'r'),
    };
    let digits = if is_upper { digits.to_uppercase() } else { digits };
    write_number(float.is_sign_negative(), "", &digits, 3, spec, budget)
}

/// C's `%e`.
fn exponential(size: f64, precision: usize) -> String {
    let written = format!("{size:.precision$e}");
    let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// C's `%g`; `keeps_point` writes at least one digit behind the point.
fn general(size: f64, precision: usize, is_alternate: bool, keeps_point: bool) -> String {
    let exponent = format!("{size:.*e}", precision - 1).split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    let exponent: i64 = exponent.unwrap_or(0);
    let without_zeros = |digits: &str| match digits.contains('.') && !is_alternate {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    let most = precision as i64 - i64::from(keeps_point);
    if exponent < -4 || exponent >= most.max(1) {
        let written = exponential(size, precision - 1);
        let (digits, power) = written.split_once('e').unwrap_or((&written, "+00"));
        return format!("{}e{power}", without_zeros(digits));
    }
    let behind = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
    let digits = without_zeros(&format!("{size:.behind$}"));
    if keeps_point && !digits.contains('.') { digits + ".0" } else { digits }
}

fn write_number(
    is_negative: bool,
    prefix: &str,
    digits: &str,
    group: usize,
    spec: &Spec,
    budget: &Budget<'_>,
) -> Outcome<String> {
    let sign = match (is_negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let whole_end =
        digits.find(|character: char| !character.is_ascii_hexdigit() || "eE".contains(character) && group == 3);
    let (whole, rest) = digits.split_at(whole_end.unwrap_or(digits.len()));
    let fills = spec.has_zeros && spec.align != Some('<') || spec.align == Some('=');
    let fill = if spec.has_zeros { '0' } else { spec.fill.unwrap_or(' ') };
    budget.make(spec.width)?;
    let room = spec.width.saturating_sub(sign.len() + prefix.len() + rest.len());
    let mut body = whole.to_owned();
    if let Some(separator) = spec.grouping {
        let zeros = if fills && fill == '0' { room } else { 0 };
        body = grouped(whole, separator, group, zeros);
    }
    if fills {
        let missing = room.saturating_sub(body.chars().count());
        let filling: String = std::iter::repeat_n(fill, missing).collect();
        return Ok(format!("{sign}{prefix}{filling}{body}{rest}"));
    }
    padded(&format!("{sign}{prefix}{body}{rest}"), Spec { has_zeros: false, ..spec.clone() }, budget)
}

/// Digits in groups, with leading zeros as far as `width` has room.
fn grouped(digits: &str, separator: char, group: usize, width: usize) -> String {
    let mut reversed = String::new();
    let mut written = 0;
    let mut digits = digits.chars().rev();
    loop {
        let digit = match digits.next() {
            Some(digit) => digit,
            None if reversed.len() < width => '0',
            None => break,
        };
        if written > 0 && written % group == 0 {
            reversed.push(separator);
        }
        reversed.push(digit);
        written += 1;
    }
    reversed.chars().rev().collect()
}

fn padded(text: &str, spec: Spec, budget: &Budget<'_>) -> Outcome<String> {
    let missing = spec.width.saturating_sub(text.chars().count());
    let fill = spec.fill.unwrap_or(' ');
    budget.make(missing.saturating_mul(fill.len_utf8()))?;
    let before = match spec.align {
        Some('<') => 0,
        Some('^') => missing / 2,
        _ => missing,
    };
    let side = |count: usize| std::iter::repeat_n(fill, count);
    Ok(side(before).chain(text.chars()).chain(side(missing - before)).collect())
}
