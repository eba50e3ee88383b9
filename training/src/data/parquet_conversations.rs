//! Conversations, or comparisons of answers, in a Parquet file, written out as JSON lines that a run reads in any order.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail};
use fulgurite_lab::transfer::parquet::guard::{check_group, guarded};
use fulgurite_trainer::{COMPARISON_KEYS, CONVERSATION_KEYS};
use fulgurite_types::mended_json;
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::{Map, Value};

/// The columns of a table that are read, if they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Of conversations.
    Conversations,
    /// Of comparisons.
    Comparisons,
}

impl Columns {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Conversations => &CONVERSATION_KEYS,
            Self::Comparisons => &COMPARISON_KEYS,
        }
    }

    /// Of which one must be there.
    fn needed(self) -> &'static [&'static str] {
        match self {
            Self::Conversations => &["messages", "conversations", "conversation", "completion", "instruction"],
            Self::Comparisons => &["chosen", "label"],
        }
    }

    /// Whether a column may be plain text, or truth, as it is.
    fn is_plain(self, name: &str) -> bool {
        !["messages", "conversations", "conversation", "tools", "history"].contains(&name)
    }

    /// Whether a column is read; other people's may have such a name too, and another type.
    fn reads(self, field: &Type) -> bool {
        let is_others =
            self == Self::Conversations && self.is_plain(field.name()) && !is_text(field) && !is_list(field);
        self.names().contains(&field.name()) && !is_others
    }
}

/// What a Parquet file begins with.
const MAGIC: &[u8; 4] = b"PAR1";

/// Whether a file is, or should be, a Parquet file.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    let has_magic = File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && &begin == MAGIC;
    has_magic || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// Writes each row of `from` as a line of `to`, in order, and with it the column by which rows are to stay together.
///
/// # Errors
/// Names the file, and the row or the column that is no conversation's.
pub(crate) fn write_as_json_lines(from: &Path, to: &Path, of: Columns, group: Option<&str>) -> Result<()> {
    let file = || from.display().to_string();
    let reader = guarded(|| Ok::<_, Error>(SerializedFileReader::new(File::open(from)?)?));
    let reader = reader.with_context(|| format!("cannot read {} as Parquet", from.display()))?;
    let columns = guarded(|| columns(&reader, of, group)).with_context(file)?;
    let bytes = File::open(from).with_context(file)?;
    let is_read = |name: &str| of.names().contains(&name) || group == Some(name);
    check_compression(&reader, is_read).with_context(file)?;
    for (number, row_group) in reader.metadata().row_groups().iter().enumerate() {
        guarded(|| check_group(&bytes, row_group, is_read).map_err(Error::from))
            .with_context(|| format!("{} row group {}", from.display(), number + 1))?;
    }
    let mut out = BufWriter::new(File::create(to).with_context(|| format!("cannot write {}", to.display()))?);
    let mut rows = guarded(|| Ok::<_, Error>(RowIter::from_file(Some(columns), &reader)?)).with_context(file)?;
    for index in 1.. {
        let next = guarded(|| rows.next().map(|row| line_of(row?, of)).transpose());
        let Some(line) = next.with_context(|| format!("{} row {index}", from.display()))? else { break };
        writeln!(out, "{line}").with_context(|| format!("cannot write {}", to.display()))?;
    }
    out.flush().with_context(|| format!("cannot write {}", to.display()))
}

/// Says of columns that are read how they are compressed, if that is not read here.
fn check_compression(reader: &SerializedFileReader<File>, is_read: impl Fn(&str) -> bool) -> Result<()> {
    let chunks = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
    for chunk in chunks {
        let column = chunk.column_path().parts().first().map_or("", String::as_str);
        let compression = chunk.compression();
        if is_read(column) && !matches!(compression, Compression::UNCOMPRESSED | Compression::SNAPPY) {
            bail!(
                "has column `{column}` compressed by {compression}, and only Snappy is read: in Python, \
                 pyarrow.parquet.write_table(pyarrow.parquet.read_table(FILE), NEW) writes it anew"
            );
        }
    }
    Ok(())
}

/// The schema of the columns that are read.
fn columns(reader: &SerializedFileReader<File>, of: Columns, group: Option<&str>) -> Result<Type> {
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let needed = of.needed();
    if !needed.iter().any(|needed| names.contains(needed)) {
        bail!("has no column `{}`; its columns are `{}`", needed.join("` or `"), names.join("`, `"));
    }
    let is_group = |field: &Type| group == Some(field.name());
    let read: Vec<Arc<Type>> = fields.iter().filter(|field| of.reads(field) || is_group(field)).cloned().collect();
    for field in &read {
        if !is_group(field) && !is_text(field) && !is_list(field) && !of.is_plain(field.name()) {
            bail!("has a column `{}` that is neither a list nor text of JSON", field.name());
        }
    }
    Ok(Type::group_type_builder(schema.name()).with_fields(read).build()?)
}

fn is_text(field: &Type) -> bool {
    field.is_primitive() && field.get_physical_type() == parquet::basic::Type::BYTE_ARRAY
}

fn is_list(field: &Type) -> bool {
    let info = field.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == parquet::basic::Repetition::REPEATED;
    is_repeated || info.converted_type() == parquet::basic::ConvertedType::LIST
}

/// A row as a line.
fn line_of(row: Row, of: Columns) -> Result<Value> {
    let mut line = Map::new();
    for (name, field) in row.into_columns() {
        let value = match field {
            Field::Null => continue,
            // Empty text is how some tables write that there are none.
            Field::Str(text) if name == "tools" && text.trim().is_empty() => continue,
            // Some tables hold the conversation as the text that it was.
            Field::Str(text) if of.is_plain(&name) => text_or_list(text),
            Field::Str(text) => parsed(&name, &text)?,
            Field::Bytes(bytes) if name == "tools" && bytes.data().iter().all(u8::is_ascii_whitespace) => continue,
            Field::Bytes(bytes) if of.is_plain(&name) => {
                text_or_list(bytes.as_utf8().with_context(|| format!("column `{name}`"))?.to_owned())
            }
            Field::Bytes(bytes) => parsed(&name, bytes.as_utf8().with_context(|| format!("column `{name}`"))?)?,
            field => json_of(field).with_context(|| format!("column `{name}`"))?,
        };
        line.insert(name, value);
    }
    Ok(Value::Object(line))
}

/// A text as it is, unless it is a list of messages that was written down as one.
fn text_or_list(text: String) -> Value {
    match serde_json::from_str::<Value>(&mended_json(&text)) {
        Ok(Value::Array(list)) if !list.is_empty() && list.iter().all(|message| message.get("role").is_some()) => {
            list.into()
        }
        _ => text.into(),
    }
}

fn parsed(name: &str, text: &str) -> Result<Value> {
    serde_json::from_str(&mended_json(text)).with_context(|| format!("column `{name}` is text, and no JSON"))
}

/// A field as JSON. What a struct does not have is null in a table, and is left out but for a message's content.
fn json_of(field: Field) -> Result<Value> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(truth) => truth.into(),
        Field::Byte(number) => number.into(),
        Field::Short(number) => number.into(),
        Field::Int(number) => number.into(),
        Field::Long(number) => number.into(),
        Field::UByte(number) => number.into(),
        Field::UShort(number) => number.into(),
        Field::UInt(number) => number.into(),
        Field::ULong(number) => number.into(),
        Field::Float(number) => number.into(),
        Field::Double(number) => number.into(),
        Field::Str(text) => text.into(),
        Field::Group(row) => {
            let mut object = Map::new();
            for (name, field) in row.into_columns() {
                if !matches!(field, Field::Null) || name == "content" {
                    object.insert(name, json_of(field)?);
                }
            }
            Value::Object(object)
        }
        Field::ListInternal(list) => {
            list.elements().iter().map(|element| json_of(element.clone())).collect::<Result<Vec<Value>>>()?.into()
        }
        Field::MapInternal(map) => {
            let entry = |(key, value): &(Field, Field)| match key {
                Field::Str(key) => Ok((key.clone(), json_of(value.clone())?)),
                key => Err(anyhow!("has a map whose key {key} is no text")),
            };
            Value::Object(map.entries().iter().map(entry).collect::<Result<_>>()?)
        }
        other => bail!("has {other}, which is nothing that a message says"),
    })
}

#[cfg(test)]
mod tests {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use serde_json::json;

    use super::*;

    /// A table of one column after the other: values, definition and repetition levels.
    fn write(
        path: &Path,
        schema: &str,
        columns: &[(&[&str], &[i16], &[i16])],
        weights: Option<(&[f64], &[i16], &[i16])>,
    ) {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut file = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
        let mut group = file.next_row_group().unwrap();
        for (texts, definition, repetition) in columns {
            let values: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(*text)).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values, Some(definition), Some(repetition)).unwrap();
            column.close().unwrap();
        }
        if let Some((values, definition, repetition)) = weights {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(values, Some(definition), Some(repetition)).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        file.close().unwrap();
    }

    fn lines(path: &Path) -> Result<Vec<Value>> {
        let out = path.with_extension("jsonl");
        write_as_json_lines(path, &out, Columns::Conversations, None)?;
        let text = std::fs::read_to_string(out).unwrap();
        Ok(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn rows_are_lines_with_nothing_in_them_that_the_table_has_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let schema = "message t { OPTIONAL GROUP messages (LIST) { REPEATED GROUP list { OPTIONAL GROUP element {
            OPTIONAL BYTE_ARRAY role (STRING); OPTIONAL BYTE_ARRAY content (STRING); OPTIONAL DOUBLE weight; } } } }";
        // Two rows: of two messages, the second without content, and of one.
        let roles: (&[&str], &[i16], &[i16]) = (&["user", "assistant", "user"], &[4, 4, 4], &[0, 1, 0]);
        let contents: (&[&str], &[i16], &[i16]) = (&["a", "b"], &[4, 3, 4], &[0, 1, 0]);
        write(&path, schema, &[roles, contents], Some((&[0.5], &[3, 4, 3], &[0, 1, 0])));
        assert!(is_parquet(&path));
        assert_eq!(
            lines(&path).unwrap(),
            [
                json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": null, "weight": 0.5 }] }),
                json!({ "messages": [{ "role": "user", "content": "b" }] }),
            ]
        );
    }

    #[test]
    fn changed_bytes_of_a_table_make_lines_or_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let schema = "message t { OPTIONAL GROUP messages (LIST) { REPEATED GROUP list { OPTIONAL GROUP element {
            OPTIONAL BYTE_ARRAY role (STRING); OPTIONAL BYTE_ARRAY content (STRING); OPTIONAL DOUBLE weight; } } } }";
        let roles: (&[&str], &[i16], &[i16]) = (&["user", "assistant", "user"], &[4, 4, 4], &[0, 1, 0]);
        let contents: (&[&str], &[i16], &[i16]) = (&["a", "b"], &[4, 3, 4], &[0, 1, 0]);
        write(&path, schema, &[roles, contents], Some((&[0.5], &[3, 4, 3], &[0, 1, 0])));
        let whole = std::fs::read(&path).unwrap();
        let mut state = 5_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        for round in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=below(3) {
                let at = below(bytes.len());
                bytes[at] = if round % 2 == 0 { bytes[at] ^ (1 << below(8)) } else { below(256) as u8 };
            }
            if round % 8 == 0 {
                let at = below(bytes.len());
                bytes.drain(at..(at + below(20)).min(whole.len()));
            }
            std::fs::write(&path, bytes).unwrap();
            if let Err(error) = lines(&path) {
                assert!(format!("{error:#}").contains("a.parquet"), "{error:#}");
            }
        }
    }

    #[test]
    fn a_table_of_other_columns_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let refused = |path: &Path| format!("{:#}", lines(path).unwrap_err());
        let text: (&[&str], &[i16], &[i16]) = (&["[{}]", "[", "[]"], &[1, 1, 1], &[0, 0, 0]);
        write(&path, "message t { OPTIONAL BYTE_ARRAY messages (STRING); }", &[text], None);
        assert!(
            refused(&path).ends_with(
                "a.parquet row 2: column `messages` is text, and no JSON: EOF while parsing a list at line 1 column 1"
            ),
            "{}",
            refused(&path)
        );
        write(&path, "message t { OPTIONAL BYTE_ARRAY chat (STRING); }", &[text], None);
        assert!(
            refused(&path).contains("has no column `messages` or `conversations` or")
                && refused(&path).ends_with("its columns are `chat`")
        );
        write(&path, "message t { OPTIONAL DOUBLE messages; }", &[], Some((&[1.0], &[1], &[0])));
        assert!(refused(&path).ends_with("has a column `messages` that is neither a list nor text of JSON"));
        std::fs::write(&path, "no table").unwrap();
        assert!(is_parquet(&path) && refused(&path).contains("as Parquet"));
    }
}
