//! The document's tables, one for each table of the config.

use std::fmt::Write;

use serde_json::{Map, Value};
use syn::{Field, GenericArgument, ItemStruct, PathArguments, Type};

use super::declarations::{Declaration, Declarations, documentation, serde_value, variants};

/// Types whose form their own code decides.
const FORMS: [(&str, &str); 9] = [
    ("Device", "`cpu`, `cuda` or `cuda:N`"),
    ("TaskSource", "list or table (the forms of tasks are below)"),
    ("RolloutExpression", "string (docs/how-to/sft.md)"),
    ("Packing", "true, false or `concatenate`"),
    ("Truncation", "`refuse` (or false), `right` (or true), `left`"),
    ("Validation", "path, share between 0 and 1, or table of paths by name"),
    ("EntropyBonus", "number, or `{ target = NATS }`"),
    ("UpdateCount", "whole number, or share below 1"),
    ("SamplingSchedule", "`\"sync\"`, `{ async = { max_staleness = K } }` or `{ minibatches = N }`"),
];

/// Defaults that a program finds out where it runs, or that are too long for a table.
const FOUND_OUT: [(&str, &str); 6] = [
    ("engine.threads", "processors"),
    ("proxy.large_requests_at_once", "half of the processors"),
    ("proxy.auxiliary_rules", "built-in rules, which `config show` lists"),
    ("trainer.distillation.teachers", "none"),
    ("store.url", "what the meaning says"),
    ("models.0.path", "none"),
];

/// All tables from the root on, as Markdown.
pub fn tables(declarations: &Declarations, defaults: &Map<String, Value>) -> String {
    let maker = Maker { declarations, defaults };
    let Some(Declaration::Struct(root)) = declarations.find("Config") else { panic!("there is no struct Config") };
    let mut out = String::new();
    for field in &root.fields {
        let name = key_of(field);
        let kind = maker.kind(&field.ty);
        let item = kind.table.unwrap_or_else(|| panic!("{name} is no table"));
        maker.write_table(&mut out, &Place::root(&name, kind.is_list), &documentation(&field.attrs), &item);
    }
    out
}

struct Maker<'a> {
    declarations: &'a Declarations,
    defaults: &'a Map<String, Value>,
}

/// What a key can be.
struct Kind {
    words: String,
    /// The struct, if it is a table or a list of tables.
    table: Option<ItemStruct>,
    is_list: bool,
    is_optional: bool,
}

/// Where a table stands.
struct Place {
    /// `[base.shape]`
    heading: String,
    /// `base.shape`
    name: String,
    /// Its beginning of keys in `config show`.
    shown: String,
}

impl Place {
    fn root(name: &str, is_list: bool) -> Self {
        let heading = if is_list { format!("[[{name}]]") } else { format!("[{name}]") };
        let shown = if is_list { format!("{name}.0") } else { name.to_owned() };
        Self { heading, name: name.to_owned(), shown }
    }

    fn below(&self, name: &str, is_list: bool) -> Self {
        let place = Self::root(&format!("{}.{name}", self.name), is_list);
        Self { shown: format!("{}.{name}{}", self.shown, if is_list { ".0" } else { "" }), ..place }
    }
}

impl Maker<'_> {
    fn write_table(&self, out: &mut String, place: &Place, about: &str, item: &ItemStruct) {
        write!(out, "\n### `{}`\n\n{about}\n\n", place.heading).unwrap();
        out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
        let is_default = serde_value(&item.attrs, "default").is_some();
        let mut below = Vec::new();
        for field in &item.fields {
            let (name, kind, about) = (key_of(field), self.kind(&field.ty), documentation(&field.attrs));
            assert!(!about.is_empty(), "{} {name} has no meaning", place.heading);
            let has_default = is_default || kind.is_optional || serde_value(&field.attrs, "default").is_some();
            let default = if has_default { self.default(place, &name, &kind) } else { "required".to_owned() };
            let cell = about.replace('|', "\\|");
            writeln!(out, "| `{name}` | {} | {default} | {cell} |", kind.words.replace('|', "\\|")).unwrap();
            if let Some(table) = kind.table {
                below.push((place.below(&name, kind.is_list), about, table));
            }
        }
        for (place, about, table) in below {
            self.write_table(out, &place, &about, &table);
        }
    }

    fn default(&self, place: &Place, name: &str, kind: &Kind) -> String {
        let key = format!("{}.{name}", place.shown);
        if let Some((_, words)) = FOUND_OUT.iter().find(|(found, _)| *found == key) {
            return (*words).to_owned();
        }
        match self.defaults.get(&key) {
            None | Some(Value::Null) if kind.is_optional => "none".to_owned(),
            Some(Value::String(text)) if text.is_empty() => "none".to_owned(),
            Some(value) => format!("`{}`", toml_text(value)),
            None if kind.table.is_some() => "its keys' defaults".to_owned(),
            None if !self.fields_of(&key).is_empty() => {
                format!("`{}`", toml_text(&Value::Object(self.fields_of(&key))))
            }
            None if kind.words == "true or false" => "`false`".to_owned(),
            None => panic!("what is the default of {key}? `config show` does not say it"),
        }
    }

    /// What `config show` has of a table whose keys nobody declares.
    fn fields_of(&self, key: &str) -> Map<String, Value> {
        let below = |(name, value): (&String, &Value)| {
            Some((name.strip_prefix(key)?.strip_prefix('.')?.to_owned(), value.clone()))
        };
        self.defaults.iter().filter_map(below).collect()
    }

    fn kind(&self, kind: &Type) -> Kind {
        let Type::Path(path) = kind else { return self.leaf("list of two numbers") };
        let segment = path.path.segments.last().unwrap();
        let name = segment.ident.to_string();
        let inner: Vec<&Type> = match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => {
                let types = arguments.args.iter().filter_map(|argument| match argument {
                    GenericArgument::Type(kind) => Some(kind),
                    _ => None,
                });
                types.collect()
            }
            _ => Vec::new(),
        };
        match (name.as_str(), inner.as_slice()) {
            ("Option", [kind]) => Kind { is_optional: true, ..self.kind(kind) },
            ("Vec" | "BTreeSet", [kind]) => {
                let element = self.kind(kind);
                let words = if element.table.is_some() { "tables".to_owned() } else { plural(&element.words) };
                Kind { words: format!("list of {words}"), is_list: true, is_optional: false, ..element }
            }
            ("BTreeMap" | "Map", [_, kind]) => self.leaf(&match self.kind(kind).words.as_str() {
                "anything" => "table".to_owned(),
                words => format!("table of {}", plural(words)),
            }),
            ("bool", _) => self.leaf("true or false"),
            ("String", _) => self.leaf("string"),
            ("PathBuf", _) => self.leaf("path"),
            ("Value", _) => self.leaf("anything"),
            ("usize" | "u64" | "u32" | "u16" | "NonZeroUsize", _) => self.leaf("whole number"),
            ("i64", _) => self.leaf("whole number, also below 0"),
            ("f64" | "f32", _) => self.leaf("number"),
            _ => self.declared(&name),
        }
    }

    fn leaf(&self, words: &str) -> Kind {
        Kind { words: words.to_owned(), table: None, is_list: false, is_optional: false }
    }

    fn declared(&self, name: &str) -> Kind {
        if let Some((_, words)) = FORMS.iter().find(|(form, _)| *form == name) {
            return self.leaf(words);
        }
        match self.declarations.find(name) {
            Some(Declaration::Struct(item)) => Kind { table: Some(item), ..self.leaf("table") },
            Some(Declaration::Enum(item)) => {
                let names = variants(&item).unwrap_or_else(|| panic!("say in tests/config_reference what a {name} is"));
                self.leaf(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
            }
            None => panic!("tests/config_reference does not find where {name} is declared"),
        }
    }
}

fn key_of(field: &Field) -> String {
    let name = field.ident.as_ref().unwrap().to_string();
    serde_value(&field.attrs, "rename").unwrap_or_else(|| name.trim_start_matches("r#").to_owned())
}

fn plural(words: &str) -> String {
    match words {
        "string" | "path" | "number" | "whole number" | "table" => format!("{words}s"),
        other => other.to_owned(),
    }
}

/// A value as TOML writes it on one line.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key} = {}", toml_text(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
