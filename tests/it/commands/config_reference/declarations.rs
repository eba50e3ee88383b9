//! The structs and enums that a config is read into, as they stand in the source.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, Fields, Item, ItemEnum, ItemStruct, Lit, Meta};

/// Where declarations are looked for, in order.
const ROOMS: [&str; 8] = [
    "config/src",
    "runner/src",
    "trainer/src",
    "proxy/src",
    "tinker/src",
    "backends/src",
    "engine/src",
    "renderers/src",
];

/// All source files of these rooms.
pub struct Declarations {
    sources: Vec<String>,
}

/// A type that a config is read into.
pub enum Declaration {
    Struct(ItemStruct),
    Enum(ItemEnum),
}

impl Declarations {
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<PathBuf> = Vec::new();
        for room in ROOMS {
            let begin = files.len();
            collect(&root.join(room), &mut files);
            files[begin..].sort();
        }
        // The config's own declarations come before others of the same name.
        files.sort_by_key(|path| !path.parent().is_some_and(|folder| folder.ends_with("config/src/declarations")));
        Self { sources: files.into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect() }
    }

    /// The type of this name that serde reads.
    pub fn find(&self, name: &str) -> Option<Declaration> {
        let beginnings = [format!("struct {name} "), format!("enum {name} ")];
        let sources = self.sources.iter().filter(|text| beginnings.iter().any(|it| text.contains(it)));
        let found = sources.flat_map(|text| syn::parse_file(text).unwrap().items).find_map(|item| match item {
            Item::Struct(item) if item.ident == name && is_read(&item.attrs) => Some(Declaration::Struct(item)),
            Item::Enum(item) if item.ident == name && is_read(&item.attrs) => Some(Declaration::Enum(item)),
            _ => None,
        });
        match found {
            // What is read is the type that it is made from.
            Some(Declaration::Struct(item)) => match serde_value(&item.attrs, "from") {
                Some(table) => self.find(&table),
                None => Some(Declaration::Struct(item)),
            },
            found => found,
        }
    }
}

/// What stands between quotes in the source of these folders and is written in capitals after `beginning`.
pub fn quoted_words(folders: &[&str], beginning: &str) -> BTreeSet<String> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files));
    let texts = files.into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let words = |text: String| -> Vec<String> {
        let parts: Vec<&str> = text.split('"').collect();
        // What the compiler is told is nobody's to set when the program runs.
        let quoted = parts.windows(2).filter(|pair| !pair[0].ends_with("env!(")).map(|pair| pair[1]);
        let named = quoted.filter(|word| word.starts_with(beginning) && word.len() > beginning.len());
        named.filter(|word| word.bytes().all(|c| c.is_ascii_uppercase() || c == b'_')).map(str::to_owned).collect()
    };
    texts.flat_map(words).collect()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn is_read(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("derive") => list.tokens.to_string().contains("Deserialize"),
        _ => false,
    })
}

/// The doc comment as one paragraph.
pub fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`").trim().to_owned()
}

/// What serde is told of an item: the value of `rename = "..."` and the like, or an empty string for a bare word.
pub fn serde_value(attributes: &[Attribute], word: &str) -> Option<String> {
    let mut value_found = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute
            .parse_nested_meta(|meta| {
                let value = match meta.input.peek(syn::Token![=]) {
                    true => meta.value()?.parse::<syn::LitStr>()?.value(),
                    false => String::new(),
                };
                if meta.path.is_ident(word) {
                    value_found = Some(value);
                }
                Ok(())
            })
            .unwrap();
    }
    value_found
}

/// The names under which serde knows the variants of an enum; none if one of them holds something.
pub fn variants(item: &ItemEnum) -> Option<Vec<String>> {
    let case = serde_value(&item.attrs, "rename_all");
    let name = |variant: &syn::Variant| {
        let written = variant.ident.to_string();
        serde_value(&variant.attrs, "rename").unwrap_or_else(|| in_case(&written, case.as_deref()))
    };
    item.variants.iter().map(|variant| matches!(variant.fields, Fields::Unit).then(|| name(variant))).collect()
}

fn in_case(name: &str, case: Option<&str>) -> String {
    let joined = |separator: char| {
        let mut out = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !out.is_empty() {
                out.push(separator);
            }
            out.extend(letter.to_lowercase());
        }
        out
    };
    match case {
        Some("lowercase") => name.to_lowercase(),
        Some("snake_case") => joined('_'),
        Some("kebab-case") => joined('-'),
        None => name.to_owned(),
        Some(other) => panic!("say here how serde writes names in {other}"),
    }
}
