//! Records as rows of a Parquet file: what is most asked for in columns of its own, token ids and logprobs as lists,
//! and all the rest as JSON text.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use fulgurite_types::mended_json;
use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value, json};

use super::error::ParquetFileError;
use super::guard::{check_group, guarded};

type Result<T> = std::result::Result<T, ParquetFileError>;

/// `prompt_tokens`, `sampled_tokens` and `logprobs` are null for what is not a generation or a triplet. `data` is the
/// record without them.
const SCHEMA: &str = "
    message fulgurite {
        REQUIRED BYTE_ARRAY record (STRING);
        OPTIONAL BYTE_ARRAY rollout_id (STRING);
        OPTIONAL BYTE_ARRAY attempt_id (STRING);
        OPTIONAL BYTE_ARRAY generation_id (STRING);
        OPTIONAL BYTE_ARRAY model (STRING);
        OPTIONAL DOUBLE reward;
        OPTIONAL GROUP prompt_tokens (LIST) { REPEATED GROUP list { REQUIRED INT32 element (INTEGER(32,false)); } }
        OPTIONAL GROUP sampled_tokens (LIST) { REPEATED GROUP list { REQUIRED INT32 element (INTEGER(32,false)); } }
        OPTIONAL GROUP logprobs (LIST) { REPEATED GROUP list { REQUIRED FLOAT element; } }
        REQUIRED BYTE_ARRAY data (STRING);
    }";
/// Rows that are written together.
const ROWS: usize = 1024;
/// Numbers in lists that are written together, so that long prompts do not fill the memory.
const NUMBERS: usize = 8 << 20;

/// Above what is written together, with room for other writers: what a file claims takes memory before it is read.
const GREATEST_ROWS: usize = 1 << 20;

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    record: String,
    rollout_id: Option<String>,
    attempt_id: Option<String>,
    generation_id: Option<String>,
    model: Option<String>,
    reward: Option<f64>,
    prompt_tokens: Option<Vec<u32>>,
    sampled_tokens: Option<Vec<u32>>,
    logprobs: Option<Vec<f32>>,
    data: String,
}

impl Row {
    fn of(mut record: Value) -> Result<Self> {
        let kind = record["record"].as_str().unwrap_or_default().to_owned();
        let data = record.get_mut("data").ok_or(ParquetFileError::NoData)?;
        let mut row = Self { record: kind, ..Self::default() };
        if row.record == "triplet" {
            row.prompt_tokens = take_list(&mut data["prompt"], "token_ids")?;
            row.sampled_tokens = take_list(&mut data["response"], "token_ids")?;
            row.logprobs = take_list(&mut data["response"], "logprobs")?;
            row.reward = data["reward"].as_f64();
            row.generation_id = text(&data["metadata"], "response_id");
        } else if row.record == "generation" {
            row.prompt_tokens = take_list(data, "prompt_tokens")?;
            row.sampled_tokens = take_list(data, "sampled_tokens")?;
            row.logprobs = take_list(data, "logprobs")?;
        }
        let named = if row.record == "triplet" { &data["metadata"] } else { &*data };
        row.rollout_id = text(named, "rollout_id");
        row.attempt_id = text(named, "attempt_id");
        row.generation_id = row.generation_id.or_else(|| text(named, "generation_id"));
        row.model = text(named, "model");
        row.data = data.to_string();
        Ok(row)
    }

    /// The record that was made a row. Only what can be imported is asked for.
    fn record(self) -> Result<Value> {
        let mut data: Map<String, Value> =
            serde_json::from_str(&mended_json(&self.data)).map_err(ParquetFileError::Data)?;
        if self.record == "generation" {
            data.insert("prompt_tokens".to_owned(), json!(self.prompt_tokens));
            data.insert("sampled_tokens".to_owned(), json!(self.sampled_tokens));
            data.insert("logprobs".to_owned(), json!(self.logprobs));
        }
        Ok(json!({ "record": self.record, "data": data }))
    }

    fn numbers(&self) -> usize {
        let tokens = [&self.prompt_tokens, &self.sampled_tokens];
        tokens.into_iter().flatten().map(Vec::len).sum::<usize>() + self.data.len() / 4
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// Takes a list, or null, out of an object.
fn take_list<T: serde::de::DeserializeOwned>(object: &mut Value, key: &'static str) -> Result<Option<Vec<T>>> {
    let list = object.as_object_mut().and_then(|fields| fields.shift_remove(key)).unwrap_or_default();
    serde_json::from_value(list).map_err(|source| ParquetFileError::List { key, source })
}

/// Writes records as rows.
pub(crate) struct ParquetWriter {
    file: SerializedFileWriter<File>,
    rows: Vec<Row>,
    numbers: usize,
}

impl ParquetWriter {
    /// Makes the file, or empties it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
        let file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
        Ok(Self { file, rows: Vec::new(), numbers: 0 })
    }

    /// Writes a record, together with others.
    pub(crate) fn write(&mut self, record: Value) -> Result<()> {
        let row = Row::of(record)?;
        self.numbers += row.numbers();
        self.rows.push(row);
        if self.rows.len() >= ROWS || self.numbers >= NUMBERS { self.write_rows() } else { Ok(()) }
    }

    /// Writes what is left, and waits until the disk has it.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.write_rows()?;
        Ok(self.file.into_inner()?.sync_all()?)
    }

    fn write_rows(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.numbers = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let required = |text: &dyn Fn(&Row) -> &String| -> Vec<ByteArray> {
            rows.iter().map(|row| ByteArray::from(text(row).as_str())).collect()
        };
        write_column::<ByteArrayType>(&mut group, &required(&|row| &row.record), None, None)?;
        write_optional_text(&mut group, rows.iter().map(|row| &row.rollout_id))?;
        write_optional_text(&mut group, rows.iter().map(|row| &row.attempt_id))?;
        write_optional_text(&mut group, rows.iter().map(|row| &row.generation_id))?;
        write_optional_text(&mut group, rows.iter().map(|row| &row.model))?;
        let rewards: Vec<f64> = rows.iter().filter_map(|row| row.reward).collect();
        let there: Vec<i16> = rows.iter().map(|row| i16::from(row.reward.is_some())).collect();
        write_column::<DoubleType>(&mut group, &rewards, Some(&there), None)?;
        let signed = |token: &u32| token.cast_signed();
        write_lists::<Int32Type, _>(&mut group, rows.iter().map(|row| row.prompt_tokens.as_deref()), signed)?;
        write_lists::<Int32Type, _>(&mut group, rows.iter().map(|row| row.sampled_tokens.as_deref()), signed)?;
        write_lists::<FloatType, _>(&mut group, rows.iter().map(|row| row.logprobs.as_deref()), |logprob| *logprob)?;
        write_column::<ByteArrayType>(&mut group, &required(&|row| &row.data), None, None)?;
        group.close()?;
        Ok(())
    }
}

type Group<'g> = SerializedRowGroupWriter<'g, File>;

fn write_column<T: DataType>(
    group: &mut Group,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or(ParquetFileError::MissingColumn)?;
    column.typed::<T>().write_batch(values, definition, repetition)?;
    Ok(column.close()?)
}

fn write_optional_text<'r>(group: &mut Group, texts: impl Iterator<Item = &'r Option<String>>) -> Result<()> {
    let (mut values, mut definition) = (Vec::new(), Vec::new());
    for text in texts {
        definition.push(i16::from(text.is_some()));
        values.extend(text.as_ref().map(|text| ByteArray::from(text.as_str())));
    }
    write_column::<ByteArrayType>(group, &values, Some(&definition), None)
}

/// A missing list is defined to level 0, an empty one to 1, a number in a list to 2; the first number of a list repeats
/// nothing, the others repeat at level 1.
fn write_lists<'r, T: DataType, N: 'r>(
    group: &mut Group,
    lists: impl Iterator<Item = Option<&'r [N]>>,
    number: impl Fn(&N) -> T::T,
) -> Result<()> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        match list {
            None | Some([]) => {
                definition.push(i16::from(list.is_some()));
                repetition.push(0);
            }
            Some(numbers) => {
                definition.resize(definition.len() + numbers.len(), 2);
                repetition.push(0);
                repetition.resize(repetition.len() + numbers.len() - 1, 1);
                values.extend(numbers.iter().map(&number));
            }
        }
    }
    write_column::<T>(group, &values, Some(&definition), Some(&repetition))
}

/// Reads what [`ParquetWriter`] writes.
pub(crate) struct ParquetReader {
    file: SerializedFileReader<File>,
    /// The same file, for what is checked before it is read.
    bytes: File,
    group: usize,
    rows: std::vec::IntoIter<Row>,
    row: usize,
}

impl ParquetReader {
    /// Opens a file, which must have the columns that an export has.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = File::open(path)?;
        let file = guarded(|| -> Result<_> { Ok(SerializedFileReader::new(File::open(path)?)?) })?;
        if file.metadata().file_metadata().schema() != &parse_message_type(SCHEMA)? {
            return Err(ParquetFileError::OtherColumns);
        }
        Ok(Self { file, bytes, group: 0, rows: Vec::new().into_iter(), row: 0 })
    }

    /// The next record, with its place in the file.
    pub(crate) fn next(&mut self) -> Result<Option<(String, Value)>> {
        loop {
            if let Some(row) = self.rows.next() {
                self.row += 1;
                let place = format!("row {}", self.row);
                return match row.record() {
                    Ok(record) => Ok(Some((place, record))),
                    Err(source) => Err(ParquetFileError::Row { place, source: Box::new(source) }),
                };
            }
            if self.group == self.file.num_row_groups() {
                return Ok(None);
            }
            let read = guarded(|| {
                check_group(&self.bytes, self.file.metadata().row_group(self.group), |_| true)?;
                read_rows(&*self.file.get_row_group(self.group)?)
            });
            self.group += 1;
            let unreadable = |source| ParquetFileError::RowGroup { number: self.group, source: Box::new(source) };
            self.rows = read.map_err(unreadable)?.into_iter();
        }
    }
}

fn read_rows(group: &dyn RowGroupReader) -> Result<Vec<Row>> {
    let count = usize::try_from(group.metadata().num_rows())?;
    if count > GREATEST_ROWS {
        return Err(ParquetFileError::TooManyRows { rows: count, greatest: GREATEST_ROWS });
    }
    let mut texts = [Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for (texts, column) in texts.iter_mut().zip([0, 1, 2, 3, 4, 9]) {
        *texts = read_texts(group, column, count)?;
    }
    let [records, rollouts, attempts, generations, models, data] = texts;
    let rewards = read_column::<DoubleType>(group, 5, count)?;
    let prompts = read_lists::<Int32Type, _>(group, 6, count, i32::cast_unsigned)?;
    let sampled = read_lists::<Int32Type, _>(group, 7, count, i32::cast_unsigned)?;
    let logprobs = read_lists::<FloatType, _>(group, 8, count, |logprob| logprob)?;
    let mut rows = vec![Row::default(); count];
    let mut rewards_that_are_there = rewards.values.into_iter();
    fill(&mut rows, records, |row, record| row.record = record.unwrap_or_default());
    fill(&mut rows, rollouts, |row, id| row.rollout_id = id);
    fill(&mut rows, attempts, |row, id| row.attempt_id = id);
    fill(&mut rows, generations, |row, id| row.generation_id = id);
    fill(&mut rows, models, |row, model| row.model = model);
    fill(&mut rows, rewards.definition, |row, level| {
        row.reward = (level == 1).then(|| rewards_that_are_there.next()).flatten();
    });
    fill(&mut rows, prompts, |row, tokens| row.prompt_tokens = tokens);
    fill(&mut rows, sampled, |row, tokens| row.sampled_tokens = tokens);
    fill(&mut rows, logprobs, |row, logprobs| row.logprobs = logprobs);
    fill(&mut rows, data, |row, data| row.data = data.unwrap_or_default());
    Ok(rows)
}

fn fill<T>(rows: &mut [Row], values: Vec<T>, mut set: impl FnMut(&mut Row, T)) {
    for (row, value) in rows.iter_mut().zip(values) {
        set(row, value);
    }
}

/// A column as it is stored.
struct Column<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

fn read_column<T: DataType>(group: &dyn RowGroupReader, column: usize, rows: usize) -> Result<Column<T::T>> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
    let mut read = Column { values: Vec::new(), definition: Vec::new(), repetition: Vec::new() };
    let mut left = rows;
    while left > 0 {
        let (records, ..) =
            reader.read_records(left, Some(&mut read.definition), Some(&mut read.repetition), &mut read.values)?;
        if records == 0 {
            return Err(ParquetFileError::TooFewRows { column });
        }
        left -= records;
    }
    Ok(read)
}

fn read_texts(group: &dyn RowGroupReader, column: usize, rows: usize) -> Result<Vec<Option<String>>> {
    let read = read_column::<ByteArrayType>(group, column, rows)?;
    let mut values = read.values.iter().map(|bytes| bytes.as_utf8().map(str::to_owned));
    if read.definition.is_empty() {
        return values.map(|text| Ok(Some(text?))).collect();
    }
    let text = |level: &i16| if *level == 1 { values.next().transpose() } else { Ok(None) };
    Ok(read.definition.iter().map(text).collect::<parquet::errors::Result<_>>()?)
}

fn read_lists<T: DataType, N>(
    group: &dyn RowGroupReader,
    column: usize,
    rows: usize,
    number: impl Fn(T::T) -> N,
) -> Result<Vec<Option<Vec<N>>>> {
    let read = read_column::<T>(group, column, rows)?;
    let mut values = read.values.into_iter();
    let mut lists: Vec<Option<Vec<N>>> = Vec::with_capacity(rows);
    for (definition, repetition) in read.definition.iter().zip(&read.repetition) {
        if *repetition == 0 {
            lists.push((*definition > 0).then(Vec::new));
        }
        if *definition == 2
            && let Some(Some(list)) = lists.last_mut()
        {
            list.extend(values.next().map(&number));
        }
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_and_read(records: &[Value]) -> Vec<Value> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.parquet");
        let mut writer = ParquetWriter::create(&path).unwrap();
        records.iter().for_each(|record| writer.write(record.clone()).unwrap());
        writer.finish().unwrap();
        let mut reader = ParquetReader::open(&path).unwrap();
        std::iter::from_fn(|| reader.next().unwrap()).map(|(_, record)| record).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let generation = |tokens: &[u32], logprobs: Option<&[f32]>| {
            json!({ "record": "generation", "data": {
                "rollout_id": "r", "attempt_id": "a", "generation_id": "g", "model": "ä", "seed": u64::MAX,
                "prompt_tokens": tokens, "sampled_tokens": [u32::MAX], "logprobs": logprobs,
            } })
        };
        let mut records = vec![
            json!({ "record": "worker", "data": { "worker_id": "w", "status": "idle" } }),
            generation(&[], None),
            generation(&[1, 2, 3], Some(&[])),
            json!({ "record": "rollout", "data": { "rollout_id": "r", "input": [0.1, 1e300, null] } }),
            generation(&[7; 5000], Some(&[-0.1, -0.0, f32::MIN_POSITIVE, -3.4e38, 1e-45])),
        ];
        records.extend((0..2 * ROWS).map(|index| json!({ "record": "run", "data": { "seed": index } })));
        assert_eq!(written_and_read(&records), records);
        assert_eq!(written_and_read(&[]), [] as [Value; 0]);
    }

    #[test]
    fn a_logprob_keeps_every_bit() {
        let logprobs: Vec<f32> =
            (0..20_000u32).map(|index| -f32::from_bits(index.wrapping_mul(212_370_441) >> 2)).collect();
        let record = json!({ "record": "generation", "data": { "prompt_tokens": [], "sampled_tokens": [], "logprobs": logprobs } });
        let read: Vec<f32> =
            serde_json::from_value(written_and_read(&[record])[0]["data"]["logprobs"].clone()).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(&logprobs));
    }

    #[test]
    fn changed_bytes_of_an_export_make_records_or_a_refusal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.parquet");
        let mut writer = ParquetWriter::create(&path).unwrap();
        let generation = json!({ "record": "generation", "data": { "rollout_id": "r", "prompt_tokens": [1, 2, 3],
                                                                    "sampled_tokens": [4], "logprobs": [-0.5] } });
        (0..3).for_each(|_| writer.write(generation.clone()).unwrap());
        writer.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut state = 9_u64;
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
            std::fs::write(&path, bytes).unwrap();
            let Ok(mut reader) = ParquetReader::open(&path) else { continue };
            while let Ok(Some(_)) = reader.next() {}
        }
    }

    #[test]
    fn another_table_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.parquet");
        let schema = Arc::new(parse_message_type("message other { REQUIRED INT32 x; }").unwrap());
        SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::default()).unwrap().close().unwrap();
        let error = ParquetReader::open(&path).err().unwrap();
        assert_eq!(error.to_string(), "its columns are not those of an export");
        std::fs::write(&path, "no table").unwrap();
        assert!(ParquetReader::open(&path).is_err());
    }
}
