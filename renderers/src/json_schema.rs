//! What a JSON Schema says of a value: of which types it may be, and whether it is one of those that are listed.
//!
//! Parsers, answer grammars and preambles all read tools' parameters by this, so that they agree.

use std::collections::VecDeque;
use std::ops::{BitAnd, BitOr, Not};

use regex::RegexBuilder;
use serde_json::{Map, Value, json};

pub(crate) use types::{Types, spell_types};

/// How many schemas are looked at for one question. What lies behind them says nothing.
const MOST_SCHEMAS: usize = 2_000;
/// References that are followed in a row, and schemas that nest.
const DEEPEST: usize = 64;
/// Bytes of a compiled pattern of `patternProperties`.
const LARGEST_PATTERN: usize = 1 << 20;

/// A question to a schema, whose answers by its parts can be joined.
struct Question<T, F> {
    /// The answer of a schema that says nothing.
    open: T,
    /// The answer of a schema that no value meets.
    closed: T,
    /// What `nullable` adds.
    null: T,
    /// The answer of a schema's own `type`, `enum` and `const`.
    own: F,
    /// Keys of which the answer is exact, so that where a schema has no others its opposite is known too.
    exact: &'static [&'static str],
}

/// How far a question has got.
struct Walk {
    schemas_left: usize,
    /// References that are being followed.
    open: Vec<*const Value>,
}

impl Walk {
    fn new() -> Self {
        Self { schemas_left: MOST_SCHEMAS, open: Vec::new() }
    }
}

/// A document of schemas that may refer to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaDocument<'s> {
    root: &'s Value,
}

impl<'s> SchemaDocument<'s> {
    /// The document whose root `#` stands for.
    pub(crate) fn new(root: &'s Value) -> Self {
        Self { root }
    }

    /// The schema that a reference means: by a JSON pointer, an anchor or an `$id` within the document. None where it leads
    /// nowhere, or out of it.
    pub(crate) fn target(&self, reference: &str) -> Option<&'s Value> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = match resource {
            "" => self.root,
            name => find(self.root, &|fields| {
                fields.get("$id").and_then(Value::as_str).is_some_and(|id| is_named(id, name))
            })?,
        };
        let anchored = |fragment: &str| {
            let is_there =
                |key: &str, fields: &Map<String, Value>| fields.get(key).is_some_and(|name| name == fragment);
            find(resource, &|fields| ANCHORS.iter().any(|key| is_there(key, fields)))
        };
        let at = |fragment: &str| match fragment.is_empty() || fragment.starts_with('/') {
            true => resource.pointer(fragment),
            false => anchored(fragment),
        };
        at(fragment).or_else(|| at(&percent_decoded(fragment)?))
    }

    /// The schemas that a schema's references mean.
    fn targets(&self, fields: &Map<String, Value>) -> impl Iterator<Item = &'s Value> {
        let references = REFERENCES.iter().filter_map(|key| fields.get(*key)?.as_str());
        references.filter_map(|reference| self.target(reference)).collect::<Vec<_>>().into_iter()
    }

    /// The types that a schema allows, or lets guess where it does not say; all of them where it contradicts itself.
    pub(crate) fn types(&self, schema: &Value) -> Types {
        match self.types_by(schema, &|_| Types::ANY) {
            Types::ANY => self.types_by(schema, &types::guessed),
            types => types,
        }
    }

    /// The types that a schema allows, narrowed by what `guess` says of it and of each schema in it.
    fn types_by(&self, schema: &Value, guess: &dyn Fn(&Map<String, Value>) -> Types) -> Types {
        let own = |fields: &Map<String, Value>, _: &mut Walk| {
            let declared = match fields.get("type") {
                Some(Value::Array(names)) => union(names.iter().map(Types::named)),
                Some(name) => Types::named(name),
                None => Types::ANY,
            };
            let constant = fields.get("const").map_or(Types::ANY, Types::of);
            let listed = fields.get("enum").and_then(Value::as_array);
            guess(fields)
                & declared
                & constant
                & listed.map_or(Types::ANY, |values| union(values.iter().map(Types::of)))
        };
        let question = Question { open: Types::ANY, closed: Types::NONE, null: Types::NULL, own, exact: &["type"] };
        match self.answer(schema, &question, &mut Walk::new()) {
            None | Some(Types::NONE) => Types::ANY,
            Some(types) => types,
        }
    }

    /// Whether a value is of a type that a schema allows, and one of those that it lists. What else a schema asks for is
    /// not looked at.
    pub(crate) fn admits(&self, schema: &Value, value: &Value) -> bool {
        let own = |fields: &Map<String, Value>, walk: &mut Walk| {
            let is_typed = match fields.get("type") {
                Some(Value::Array(names)) => names.iter().any(|name| Types::named(name).has(Types::of(value))),
                Some(name) => Types::named(name).has(Types::of(value)),
                None => true,
            };
            let listed = fields.get("enum").and_then(Value::as_array);
            walk.schemas_left = walk.schemas_left.saturating_sub(listed.map_or(0, Vec::len) / 8);
            is_typed
                && fields.get("const").is_none_or(|constant| is_same(constant, value))
                && listed.is_none_or(|values| values.iter().any(|listed| is_same(listed, value)))
        };
        let question =
            Question { open: true, closed: false, null: value.is_null(), own, exact: &["type", "enum", "const"] };
        self.answer(schema, &question, &mut Walk::new()).unwrap_or(true)
    }

    /// The answer of a schema; none where it does nothing but refer to itself.
    fn answer<T, F>(&self, schema: &Value, question: &Question<T, F>, walk: &mut Walk) -> Option<T>
    where
        T: Copy + BitAnd<Output = T> + BitOr<Output = T> + Not<Output = T>,
        F: Fn(&Map<String, Value>, &mut Walk) -> T,
    {
        let fields = match schema {
            Value::Bool(false) => return Some(question.closed),
            Value::Object(fields) => fields,
            _ => return Some(question.open),
        };
        if walk.schemas_left == 0 || walk.open.len() > DEEPEST {
            return Some(question.open);
        }
        walk.schemas_left -= 1;
        walk.open.push(std::ptr::from_ref(schema));
        let restricts_itself = ["type", "enum", "const"].iter().any(|key| fields.contains_key(*key));
        let mut joined = (question.own)(fields, walk);
        let (mut is_restricted, mut is_circular) = (restricts_itself, false);
        let mut narrow = |answer: Option<T>| match answer {
            Some(answer) => (joined, is_restricted) = (joined & answer, true),
            None => is_circular = true,
        };
        for target in self.targets(fields) {
            match walk.open.contains(&std::ptr::from_ref(target)) {
                true => narrow(None),
                false => narrow(self.answer(target, question, walk)),
            }
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            narrow(self.answer(part, question, walk));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(alternatives) = fields.get(key).and_then(Value::as_array) {
                let answers: Vec<T> =
                    alternatives.iter().filter_map(|schema| self.answer(schema, question, walk)).collect();
                narrow(answers.into_iter().reduce(BitOr::bitor));
            }
        }
        if let Some(refused) = fields.get("not") {
            narrow(self.opposite(refused, question, walk));
        }
        if let Some(condition) = fields.get("if") {
            let [then, otherwise] =
                ["then", "else"].map(|key| fields.get(key).and_then(|schema| self.answer(schema, question, walk)));
            let met = self.answer(condition, question, walk).unwrap_or(question.open) & then.unwrap_or(question.open);
            let unmet = self.opposite(condition, question, walk).unwrap_or(question.open);
            narrow(Some(met | (unmet & otherwise.unwrap_or(question.open))));
        }
        walk.open.pop();
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            return Some(joined | question.null);
        }
        (is_restricted || !is_circular).then_some(joined)
    }

    /// The answer of what a schema refuses: everything, where it may refuse more than is asked for.
    fn opposite<T, F>(&self, schema: &Value, question: &Question<T, F>, walk: &mut Walk) -> Option<T>
    where
        T: Copy + BitAnd<Output = T> + BitOr<Output = T> + Not<Output = T>,
        F: Fn(&Map<String, Value>, &mut Walk) -> T,
    {
        let is_exact = |key: &String| question.exact.contains(&key.as_str()) || ANNOTATIONS.contains(&key.as_str());
        match schema {
            Value::Bool(true) => Some(question.closed),
            Value::Object(fields) if fields.keys().all(is_exact) => {
                let is_restricting = question.exact.iter().any(|key| fields.contains_key(*key));
                if is_restricting { self.answer(schema, question, walk).map(T::not) } else { Some(question.open) }
            }
            // What refuses all that another refuses is that other.
            Value::Object(fields) if fields.keys().all(|key| key == "not" || ANNOTATIONS.contains(&key.as_str())) => {
                fields.get("not").map_or(Some(question.open), |schema| self.answer(schema, question, walk))
            }
            _ => Some(question.open),
        }
    }

    /// The schema of a property of objects that meet the root: of its declaration wherever that stands, else that of
    /// patterns and of additional properties. None where nothing is said of it.
    pub(crate) fn property(&self, key: &str) -> Option<Value> {
        self.property_of(self.root, key, &mut Walk::new())
    }

    fn property_of(&self, schema: &Value, key: &str, walk: &mut Walk) -> Option<Value> {
        let fields = schema.as_object()?;
        let is_open = walk.open.contains(&std::ptr::from_ref(schema));
        if walk.schemas_left == 0 || walk.open.len() > DEEPEST || is_open {
            return None;
        }
        walk.schemas_left -= 1;
        walk.open.push(std::ptr::from_ref(schema));
        let mut all: Vec<Value> = own_property(fields, key).into_iter().cloned().collect();
        let parts = self.targets(fields).chain(fields.get("allOf").and_then(Value::as_array).into_iter().flatten());
        all.extend(parts.filter_map(|part| self.property_of(part, key, walk)));
        // Who declares a property under a condition means it wherever the property is given.
        let conditional = ["then", "else"].iter().filter_map(|name| fields.get(*name));
        let dependent = ["dependentSchemas", "dependencies"].iter().filter_map(|name| fields.get(*name)?.as_object());
        let conditional = conditional.chain(dependent.flat_map(Map::values));
        let schemas: Vec<Value> = conditional.filter_map(|part| self.property_of(part, key, walk)).collect();
        all.extend((!schemas.is_empty()).then(|| json!({ "anyOf": schemas })));
        for name in ["anyOf", "oneOf"] {
            let alternatives = fields.get(name).and_then(Value::as_array).into_iter().flatten();
            let schemas: Vec<Option<Value>> = alternatives.map(|schema| self.property_of(schema, key, walk)).collect();
            // An alternative that says nothing of it allows any value.
            let schemas: Option<Vec<Value>> = schemas.into_iter().collect();
            all.extend(schemas.filter(|schemas| !schemas.is_empty()).map(|schemas| json!({ "anyOf": schemas })));
        }
        walk.open.pop();
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(json!({ "allOf": all })),
        }
    }

    /// The values that a schema lists, none where it allows others as well.
    pub(crate) fn listed(&self, schema: &Value) -> Option<Vec<Value>> {
        let mut listed = self.listed_in(schema, &mut Walk::new())?;
        let mut seen: Vec<Value> = Vec::with_capacity(listed.len());
        listed.retain(|value| {
            let is_new = !seen.contains(value) && self.admits(schema, value);
            seen.extend(is_new.then(|| value.clone()));
            is_new
        });
        Some(listed)
    }

    fn listed_in(&self, schema: &Value, walk: &mut Walk) -> Option<Vec<Value>> {
        let fields = schema.as_object()?;
        let is_open = walk.open.contains(&std::ptr::from_ref(schema));
        if walk.schemas_left == 0 || walk.open.len() > DEEPEST || is_open {
            return None;
        }
        walk.schemas_left -= 1;
        if let Some(values) = fields.get("enum").and_then(Value::as_array) {
            return Some(values.clone());
        }
        if let Some(value) = fields.get("const") {
            return Some(vec![value.clone()]);
        }
        if fields.get("type").is_some_and(|name| name.is_string() && Types::named(name) == Types::NULL) {
            return Some(vec![Value::Null]);
        }
        walk.open.push(std::ptr::from_ref(schema));
        let mut listed = None;
        for target in self.targets(fields) {
            listed = listed.or_else(|| self.listed_in(target, walk));
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            listed = listed.or_else(|| self.listed_in(part, walk));
        }
        for key in ["anyOf", "oneOf"] {
            let alternatives =
                fields.get(key).and_then(Value::as_array).filter(|alternatives| !alternatives.is_empty());
            listed = listed.or_else(|| {
                let lists: Option<Vec<Vec<Value>>> =
                    alternatives?.iter().map(|schema| self.listed_in(schema, walk)).collect();
                Some(lists?.concat())
            });
        }
        walk.open.pop();
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            listed = listed.map(|values| [values, vec![Value::Null]].concat());
        }
        listed
    }

    /// A schema with what it refers to, and with all that must hold, as fields of its own; so are its alternatives. None
    /// where that cannot be written as one schema.
    pub(crate) fn flattened(&self, schema: &Value) -> Option<Value> {
        self.flattened_in(schema, DEEPEST / 4, &mut { MOST_SCHEMAS })
    }

    fn flattened_in(&self, schema: &Value, depth: usize, schemas_left: &mut usize) -> Option<Value> {
        let Some(fields) = schema.as_object() else { return Some(schema.clone()) };
        let depth = depth.checked_sub(1)?;
        *schemas_left = schemas_left.checked_sub(1)?;
        let mut flat = fields.clone();
        let mut parts = Vec::new();
        for key in REFERENCES {
            if let Some(Value::String(reference)) = flat.get(key) {
                parts.push(self.target(reference)?);
                flat.remove(key);
            }
        }
        if let Some(Value::Array(all)) = fields.get("allOf") {
            parts.extend(all);
            flat.remove("allOf");
        }
        for part in parts {
            let Value::Object(part) = self.flattened_in(part, depth, schemas_left)? else { return None };
            for (key, value) in part {
                let is_annotation = ANNOTATIONS.contains(&key.as_str());
                match (flat.get_mut(&key), value) {
                    (Some(Value::Object(own)), Value::Object(others)) if key == "properties" => {
                        if others.iter().any(|(name, schema)| own.get(name).is_some_and(|own| own != schema)) {
                            return None;
                        }
                        own.extend(others);
                    }
                    (Some(Value::Array(own)), Value::Array(others)) if key == "required" => own.extend(others),
                    (Some(own), value) if !is_annotation && *own != value => return None,
                    (Some(_), _) => {}
                    (None, value) => drop(flat.insert(key, value)),
                }
            }
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(alternatives)) = flat.get(key) {
                let flattened: Option<Vec<Value>> =
                    alternatives.iter().map(|schema| self.flattened_in(schema, depth, schemas_left)).collect();
                flat.insert(key.to_owned(), flattened?.into());
            }
        }
        Some(flat.into())
    }

    /// A schema in which what it refers to stands in place of the references, and its definitions are left out; a
    /// reference that leads nowhere, or in a circle, says nothing. None where that would be too long.
    pub(crate) fn expanded(&self, schema: &Value) -> Option<Value> {
        self.expanded_in(schema, &mut Walk::new())
    }

    fn expanded_in(&self, schema: &Value, walk: &mut Walk) -> Option<Value> {
        walk.schemas_left = walk.schemas_left.checked_sub(1)?;
        let fields = match schema {
            Value::Array(items) => {
                return items
                    .iter()
                    .map(|item| self.expanded_in(item, walk))
                    .collect::<Option<Vec<_>>>()
                    .map(Value::Array);
            }
            Value::Object(fields) => fields,
            other => return Some(other.clone()),
        };
        if walk.open.len() > DEEPEST {
            return None;
        }
        if walk.open.contains(&std::ptr::from_ref(schema)) {
            return Some(json!({}));
        }
        walk.open.push(std::ptr::from_ref(schema));
        let mut parts = Vec::new();
        let mut own = Map::new();
        for (key, value) in fields {
            match (key.as_str(), value) {
                (key, Value::String(reference)) if REFERENCES.contains(&key) => parts.extend(self.target(reference)),
                ("allOf", Value::Array(all)) => parts.extend(all),
                ("$defs" | "definitions", _) => {}
                ("enum" | "const" | "default" | "examples" | "required", value) => {
                    own.insert(key.clone(), value.clone());
                }
                ("properties", Value::Object(properties)) => {
                    let expand =
                        |(name, schema): (&String, &Value)| Some((name.clone(), self.expanded_in(schema, walk)?));
                    let properties: Option<Map<String, Value>> = properties.iter().map(expand).collect();
                    own.insert(key.clone(), properties?.into());
                }
                (_, value) => drop(own.insert(key.clone(), self.expanded_in(value, walk)?)),
            }
        }
        for part in parts {
            if let Value::Object(part) = self.expanded_in(part, walk)? {
                for (key, value) in part {
                    own.entry(key).or_insert(value);
                }
            }
        }
        walk.open.pop();
        Some(own.into())
    }
}

/// Keys that narrow nothing.
pub(crate) const ANNOTATIONS: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "$defs", "definitions", "$comment"];

/// Keys that refer to a schema. In one document the outermost anchor of a name is the first.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keys that give a schema a name within its document.
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// The first schema of a document that is so, those around others first.
fn find<'s>(root: &'s Value, is_it: &dyn Fn(&Map<String, Value>) -> bool) -> Option<&'s Value> {
    let mut ahead = VecDeque::from([root]);
    let mut left = MOST_SCHEMAS;
    while let Some(next) = ahead.pop_front() {
        left = left.checked_sub(1)?;
        match next {
            Value::Object(fields) if is_it(fields) => return Some(next),
            Value::Object(fields) => {
                let schemas =
                    fields.iter().filter(|(key, _)| !["enum", "const", "default", "examples"].contains(&key.as_str()));
                ahead.extend(schemas.map(|(_, value)| value).filter(|value| value.is_object() || value.is_array()));
            }
            Value::Array(items) => ahead.extend(items),
            _ => {}
        }
    }
    None
}

/// Whether an `$id` is the one that a reference names, which may leave out what stands before its last part.
fn is_named(id: &str, name: &str) -> bool {
    let id = id.strip_suffix('#').unwrap_or(id);
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|before| before.ends_with('/'));
    id == name || ends(id, name) || ends(name, id)
}

/// What a schema's own keywords say of a property.
fn own_property<'f>(fields: &'f Map<String, Value>, key: &str) -> Vec<&'f Value> {
    let mut schemas: Vec<&Value> =
        fields.get("properties").and_then(|properties| properties.get(key)).into_iter().collect();
    let patterns = fields.get("patternProperties").and_then(Value::as_object);
    schemas
        .extend(patterns.into_iter().flatten().filter(|(pattern, _)| matches(pattern, key)).map(|(_, schema)| schema));
    let others = ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|name| fields.get(*name));
    schemas.extend(others.filter(|schema| schema.is_object()).take(usize::from(schemas.is_empty())));
    schemas
}

fn matches(pattern: &str, key: &str) -> bool {
    let pattern = RegexBuilder::new(pattern).size_limit(LARGEST_PATTERN).build();
    pattern.is_ok_and(|pattern| pattern.is_match(key))
}

fn union(types: impl Iterator<Item = Types>) -> Types {
    types.fold(Types::NONE, BitOr::bitor)
}

/// Whether two values are the same to JSON Schema, to which 1 and 1.0 are one number.
fn is_same(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && right.is_number() && left.as_f64() == right.as_f64())
}

/// A text with `%XX` as the bytes that it stands for.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    String::from_utf8(bytes).ok()
}

mod types;

#[cfg(test)]
mod tests;
