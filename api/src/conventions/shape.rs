//! What a body looks like, and every mistake in one that does not, in the words of Agent-lightning's own server
//! (FastAPI with pydantic), which its clients and its users know.

use fulgurite_types::nearest_name;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::Mistake;

/// What a value must be.
pub enum Shape {
    /// Whatever it is.
    Any,
    /// A text.
    Text,
    /// True or false.
    Flag,
    /// A whole number, at least this.
    Integer(i64),
    /// A number.
    Number,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// An object with any keys, whose values are all of one shape.
    Map(&'static Self),
    /// A list of one shape.
    List(&'static Self),
    /// An object with these fields, and perhaps others.
    Record(&'static [Field]),
    /// An object with these fields and no others.
    Closed(&'static [Field]),
    /// The same in an API of our own: the message about another field names the nearest known one.
    Own(&'static [Field]),
    /// An object whose field of this name says which fields it has.
    Tagged(&'static str, &'static [(&'static str, &'static [Field])]),
}

/// A field of an object.
pub struct Field {
    name: &'static str,
    shape: Shape,
    required: bool,
    nullable: bool,
}

impl Field {
    /// Must be there.
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: true, nullable: false }
    }

    /// Must be there, but may be null.
    pub const fn required_or_null(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: true, nullable: true }
    }

    /// May be left out.
    pub const fn optional(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: false, nullable: false }
    }

    /// May be left out or null.
    pub const fn nullable(name: &'static str, shape: Shape) -> Self {
        Self { name, shape, required: false, nullable: true }
    }

    /// The field's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it holds several values.
    pub fn is_list(&self) -> bool {
        matches!(self.shape, Shape::List(_))
    }
}

/// What is read from a body or from parameters.
pub trait Shaped: DeserializeOwned {
    /// What that must look like.
    const SHAPE: Shape;
}

impl Shape {
    /// Every mistake in a value, in the order of the fields; none if it is as it should be. A whole number with a point
    /// loses it where a whole number is asked for. With `from_texts`, texts that are numbers become numbers.
    pub fn mistakes(&self, value: &mut Value, from_texts: bool) -> Vec<Mistake> {
        let mut check = Check { from_texts, path: Vec::new(), mistakes: Vec::new() };
        check.value(self, value);
        check.mistakes
    }

    /// The fields of an object with known fields.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            Self::Record(fields) | Self::Closed(fields) | Self::Own(fields) => fields,
            _ => &[],
        }
    }
}

struct Check {
    from_texts: bool,
    path: Vec<Value>,
    mistakes: Vec<Mistake>,
}

impl Check {
    fn mistake(&mut self, kind: &'static str, message: impl Into<String>, input: &Value) -> &mut Mistake {
        let mistake = Mistake { location: self.path.clone(), ..Mistake::new(kind, message, input.clone()) };
        self.mistakes.push(mistake);
        let last = self.mistakes.len() - 1;
        &mut self.mistakes[last]
    }

    fn at(&mut self, step: Value, check: impl FnOnce(&mut Self)) {
        self.path.push(step);
        check(self);
        self.path.pop();
    }

    fn value(&mut self, shape: &Shape, value: &mut Value) {
        match shape {
            Shape::Any => {}
            Shape::Text => {
                if !value.is_string() {
                    self.mistake("string_type", "Input should be a valid string", value);
                }
            }
            Shape::Flag => self.flag(value),
            Shape::Integer(minimum) => self.integer(*minimum, value),
            Shape::Number => self.number(value),
            Shape::Word(words) => self.word(words, value),
            Shape::Map(shape) => self.map(shape, value),
            Shape::List(shape) => self.list(shape, value),
            Shape::Record(fields) => self.record(fields, value),
            Shape::Closed(fields) => {
                self.record(fields, value);
                self.no_others(fields, value, |_| "Extra inputs are not permitted".to_owned());
            }
            Shape::Own(fields) => {
                self.record(fields, value);
                self.no_others(fields, value, |key| no_such_field(key, fields));
            }
            Shape::Tagged(tag, variants) => self.tagged(tag, variants, value),
        }
    }

    fn flag(&mut self, value: &mut Value) {
        match &*value {
            Value::Bool(_) => {}
            Value::String(text) if self.from_texts => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => *value = json!(true),
                "false" | "0" | "no" | "off" => *value = json!(false),
                _ => {
                    let message = "Input should be a valid boolean, unable to interpret input";
                    self.mistake("bool_parsing", message, value);
                }
            },
            _ => {
                self.mistake("bool_type", "Input should be a valid boolean", value);
            }
        }
    }

    fn integer(&mut self, minimum: i64, value: &mut Value) {
        const TYPE: &str = "Input should be a valid integer";
        let given = match &*value {
            Value::String(text) if self.from_texts => match text.trim().parse::<i64>() {
                Ok(number) => number,
                Err(_) => {
                    let message = format!("{TYPE}, unable to parse string as an integer");
                    self.mistake("int_parsing", message, value);
                    return;
                }
            },
            Value::Number(number) => match whole(number) {
                Some(number) => number,
                None if number.is_f64() => {
                    self.mistake("int_from_float", format!("{TYPE}, got a number with a fractional part"), value);
                    return;
                }
                None => {
                    self.mistake(
                        "int_parsing_size",
                        "Unable to parse input string as an integer, exceeded maximum size",
                        value,
                    );
                    return;
                }
            },
            _ => {
                self.mistake("int_type", TYPE, value);
                return;
            }
        };
        if given < minimum {
            let message = format!("Input should be greater than or equal to {minimum}");
            self.mistake("greater_than_equal", message, value).context = Some(json!({"ge": minimum}));
        }
        *value = json!(given);
    }

    fn number(&mut self, value: &mut Value) {
        const TYPE: &str = "Input should be a valid number";
        match &*value {
            Value::Number(_) => {}
            Value::String(text) if self.from_texts => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => *value = json!(number),
                Ok(_) => {
                    self.mistake("finite_number", "Input should be a finite number", value);
                }
                Err(_) => {
                    self.mistake("float_parsing", format!("{TYPE}, unable to parse string as a number"), value);
                }
            },
            _ => {
                self.mistake("float_type", TYPE, value);
            }
        }
    }

    fn word(&mut self, words: &[&str], value: &Value) {
        if !value.as_str().is_some_and(|word| words.contains(&word)) {
            let expected = alternatives(words);
            let mistake = self.mistake("literal_error", format!("Input should be {expected}"), value);
            mistake.context = Some(json!({ "expected": expected }));
        }
    }

    fn map(&mut self, shape: &Shape, value: &mut Value) {
        let Value::Object(entries) = value else {
            self.mistake("dict_type", "Input should be a valid dictionary", value);
            return;
        };
        for (key, value) in entries {
            self.at(json!(key), |check| check.value(shape, value));
        }
    }

    fn list(&mut self, shape: &Shape, value: &mut Value) {
        let Value::Array(items) = value else {
            self.mistake("list_type", "Input should be a valid list", value);
            return;
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.at(json!(index), |check| check.value(shape, item));
        }
    }

    fn record(&mut self, fields: &[Field], value: &mut Value) {
        if !value.is_object() {
            let message = "Input should be a valid dictionary or object to extract fields from";
            self.mistake("model_attributes_type", message, value);
            return;
        }
        for field in fields {
            match value.get_mut(field.name) {
                Some(Value::Null) if field.nullable => {}
                Some(value) => self.at(json!(field.name), |check| check.value(&field.shape, value)),
                None if field.required => self.at(json!(field.name), |check| {
                    check.mistake("missing", "Field required", value);
                }),
                None => {}
            }
        }
    }

    fn no_others(&mut self, fields: &[Field], value: &Value, message: impl Fn(&str) -> String) {
        let known = |key: &str| fields.iter().any(|field| field.name == key);
        for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| !known(key)) {
            self.at(json!(key), |check| {
                check.mistake("extra_forbidden", message(key), value);
            });
        }
    }

    fn tagged(&mut self, tag: &str, variants: &[(&str, &'static [Field])], value: &mut Value) {
        let discriminator = format!("'{tag}'");
        let Some(found) = value.get(tag) else {
            let message = format!("Unable to extract tag using discriminator {discriminator}");
            let mistake = self.mistake("union_tag_not_found", message, value);
            mistake.context = Some(json!({ "discriminator": discriminator }));
            return;
        };
        let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        match variants.iter().find(|(name, _)| *name == found) {
            // The variant stands in the path, as if it were a step.
            Some((name, fields)) => self.at(json!(name), |check| check.record(fields, value)),
            None => {
                let names: Vec<String> = variants.iter().map(|(name, _)| format!("'{name}'")).collect();
                let expected = names.join(", ");
                let message = format!(
                    "Input tag '{found}' found using {discriminator} does not match any of the expected tags: {expected}"
                );
                self.mistake("union_tag_invalid", message, value).context =
                    Some(json!({"discriminator": discriminator, "tag": found, "expected_tags": expected}));
            }
        }
    }
}

/// What is wrong with a field that there is not, and which one may have been wanted.
fn no_such_field(key: &str, fields: &[Field]) -> String {
    let names: Vec<&str> = fields.iter().map(Field::name).collect();
    match nearest_name(key, &names) {
        Some(near) => format!("there is no field `{key}`; did you mean `{near}`?"),
        None => format!("there is no field `{key}`; there are `{}`", names.join("`, `")),
    }
}

/// A number without a fraction, however it is written.
fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let real = number.as_f64().filter(|_| number.is_f64())?;
        // Up to here every whole number has a float of its own.
        (real.fract() == 0.0 && real.abs() < 9_007_199_254_740_992.0).then_some(real as i64)
    })
}

/// `'a', 'b' or 'c'`.
fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}
