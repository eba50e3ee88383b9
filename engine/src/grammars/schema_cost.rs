use serde_json::{Map, Value};

/// What some schemas cost to compile, estimated from their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchemaCost {
    /// Values in them, themselves included.
    pub(super) values: u64,
    references: u64,
    /// How many `multipleOf` there are, and the least number that all of them divide: where schemas meet, so do their
    /// divisors.
    divisors: u64,
    common_multiple: u64,
    /// Patterns of `patternProperties`.
    patterns: u64,
}

impl SchemaCost {
    pub(super) fn of<'s>(schemas: impl IntoIterator<Item = &'s Value>) -> Self {
        let mut cost = Self { values: 0, references: 0, divisors: 0, common_multiple: 1, patterns: 0 };
        schemas.into_iter().for_each(|schema| cost.add(schema));
        cost
    }

    /// Remainders that are distinguished, and pairs of patterns that are compared. Each reference may bring about one
    /// more schema in which they are.
    pub(super) fn work(&self) -> u64 {
        let remainders = match self.common_multiple {
            0 | 1 => 0,
            multiple => multiple.saturating_mul(self.divisors + self.references),
        };
        let pairs = self.patterns.saturating_mul(self.patterns).saturating_mul(1 + self.references);
        remainders.saturating_add(pairs)
    }

    fn add(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::Object(fields) => {
                self.add_keywords(fields);
                fields.values().for_each(|value| self.add(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            _ => {}
        }
    }

    fn add_keywords(&mut self, fields: &Map<String, Value>) {
        self.references += u64::from(fields.contains_key("$ref"));
        if let Some(divisor) = fields.get("multipleOf").and_then(Value::as_f64) {
            self.divisors += 1;
            self.common_multiple = common_multiple(self.common_multiple, digits(divisor));
        }
        let patterns = fields.get("patternProperties").and_then(Value::as_object);
        self.patterns += patterns.map_or(0, |patterns| patterns.len() as u64);
    }
}

/// The digits of a number without point and zeros at its end: a number of them divides what its digits divide.
fn digits(number: f64) -> u64 {
    let text = number.abs().to_string().replace('.', "");
    text.trim_start_matches('0').trim_end_matches('0').parse().unwrap_or(if number == 0.0 { 1 } else { u64::MAX })
}

/// The least common multiple, or the greatest number there is.
fn common_multiple(left: u64, right: u64) -> u64 {
    (left / common_divisor(left, right)).saturating_mul(right)
}

fn common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left.max(1) } else { common_divisor(right, left % right) }
}

/// The JSON schemas that stand in a grammar.
pub(super) fn schemas_in(grammar: &str) -> Vec<Value> {
    let mut schemas = Vec::new();
    let mut rest = grammar;
    while let Some((_, after)) = rest.split_once("%json ") {
        let mut reader = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        let schema = reader.next().and_then(Result::ok);
        rest = after.get(reader.byte_offset()..).unwrap_or_default();
        schemas.extend(schema);
    }
    schemas
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn divisors_cost_what_remainders_must_be_told_apart() {
        for (schema, work) in [
            (json!({ "type": "integer" }), 0),
            (json!({ "multipleOf": 0.01 }), 0),
            (json!({ "multipleOf": 0.25 }), 25),
            (json!({ "multipleOf": 1000 }), 0),
            (json!({ "multipleOf": 999_983 }), 999_983),
            (json!({ "allOf": [{ "multipleOf": 997 }, { "multipleOf": 991 }] }), 2 * 997 * 991),
            (json!({ "multipleOf": 1e300 }), 0),
            (json!({ "multipleOf": 1.2345678901234567e300 }), u64::MAX),
            (json!({ "items": { "$ref": "#/$defs/a" }, "$defs": { "a": { "multipleOf": 7 } } }), 14),
        ] {
            let found = SchemaCost::of([&schema]).work();
            assert!(found == work || (work == u64::MAX && found > 1 << 50), "{schema}: {found}");
        }
    }

    #[test]
    fn patterns_cost_a_comparison_with_each_other() {
        let patterns = |count: usize| -> Value {
            let patterns: Map<String, Value> = (0..count).map(|place| (format!("^{place}"), json!({}))).collect();
            json!({ "patternProperties": patterns })
        };
        assert_eq!(SchemaCost::of([&patterns(30)]).work(), 900);
        assert_eq!(SchemaCost::of([&json!({ "allOf": [patterns(3), { "$ref": "#" }] })]).work(), 18);
    }

    #[test]
    fn schemas_are_found_in_a_grammar() {
        let grammar = "start: \"a\" %json {\"type\": \"string\", \"x\": \"%json {}\"} | %json [1]\nother: \"%json \"\n";
        let found = schemas_in(grammar);
        assert_eq!(found, [json!({ "type": "string", "x": "%json {}" }), json!([1])]);
        assert_eq!(SchemaCost::of(&found).values, 5);
    }
}
