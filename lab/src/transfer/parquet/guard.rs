//! Reads of Parquet files that others made: a damaged one can make the decoder panic, or take memory that it only claims to
//! need. Both are errors here.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::error::{ColumnDamage, DamagedColumn, DecoderPanic};
use super::pages::{PageHeader, PageHeaders};

/// Values of a column that are read together at most; the decoder keeps them in memory, with their levels.
const GREATEST_VALUES: i64 = 1 << 26;
/// How many times as long as its compressed form a page may be. Snappy's longest copy is 64 bytes and takes 3.
const GREATEST_RATIO: u64 = 32;
/// What a page may have however short its compressed form is.
const SMALL_PAGE: u64 = 1 << 16;

thread_local! {
    /// Whether a panic of this thread is caught and told as an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What a read of a Parquet file gives. A panic of the decoder is an error, and prints nothing.
///
/// # Errors
/// As `read`, and where the decoder panics.
pub fn guarded<T, E: From<DecoderPanic>>(read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CAUGHT.get() {
                usual(panic);
            }
        }));
    });
    let before = CAUGHT.replace(true);
    // What the decoder has half done is not used again.
    let read = catch_unwind(AssertUnwindSafe(read));
    CAUGHT.set(before);
    match read {
        Ok(read) => read,
        Err(_) => Err(DecoderPanic.into()),
    }
}

/// Refuses a row group whose columns claim more than they can hold, before a decoder takes memory for it. `is_read` says of
/// the name of a top-level column whether it is going to be read.
///
/// # Errors
/// Names the column, and what it claims.
pub fn check_group(file: &File, group: &RowGroupMetaData, is_read: impl Fn(&str) -> bool) -> Result<(), DamagedColumn> {
    for column in group.columns() {
        let path = column.column_path();
        if path.parts().first().is_some_and(|name| is_read(name)) {
            let damaged = |source| DamagedColumn { path: path.to_string(), source };
            check_column(file, column).map_err(damaged)?;
        }
    }
    Ok(())
}

fn check_column(file: &File, column: &ColumnChunkMetaData) -> Result<(), ColumnDamage> {
    let values = column.num_values();
    if values > GREATEST_VALUES {
        return Err(ColumnDamage::TooManyValues { values, greatest: GREATEST_VALUES });
    }
    let (start, length) = column.byte_range();
    let mut found = 0;
    for page in PageHeaders::new(file, start, length)? {
        let PageHeader { compressed, uncompressed, values: of_page } = page?;
        if uncompressed > SMALL_PAGE.max(compressed.saturating_mul(GREATEST_RATIO)) {
            return Err(ColumnDamage::TooLongPage { compressed, uncompressed });
        }
        found += of_page;
        if found > values {
            return Err(ColumnDamage::MoreInPages { values });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;

    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::transfer::parquet::ParquetFileError;

    /// A table of 1000 rows with the same text, in Snappy, and the place of its first page.
    fn table(path: &Path) -> (Vec<u8>, usize) {
        let schema = Arc::new(parse_message_type("message t { REQUIRED BYTE_ARRAY messages (STRING); }").unwrap());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_dictionary_enabled(false);
        let mut file =
            SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties.build())).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let texts = vec![ByteArray::from("the same text again and again"); 1000];
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        let group = group.close().unwrap();
        let place = group.column(0).byte_range().0;
        file.close().unwrap();
        (std::fs::read(path).unwrap(), usize::try_from(place).unwrap())
    }

    fn checked(path: &Path) -> anyhow::Result<()> {
        let (file, reader) = (File::open(path)?, SerializedFileReader::new(File::open(path)?)?);
        Ok(check_group(&file, reader.metadata().row_group(0), |name| name == "messages")?)
    }

    #[test]
    fn a_page_that_claims_more_than_it_can_hold_is_refused_before_memory_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let (whole, page) = table(&path);
        checked(&path).unwrap();
        // Field 1 is the page's kind, field 2 its uncompressed size: 33,000 bytes in three of a varint.
        assert_eq!(whole[page..page + 3], [0x15, 0, 0x15]);
        let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            format!("{:#}", checked(&path).unwrap_err())
        };
        let claim = |bytes: &mut Vec<u8>| {
            // As long as it was, so that nothing else moves: 3 bytes hold a little more than a million.
            bytes.splice(page + 3..page + 6, [0xfe, 0xff, 0x7f]);
        };
        assert!(refusal(&claim).contains("that claims to hold 1048575"), "{}", refusal(&claim));
        let ends = refusal(&|bytes| bytes[page] = 0xff);
        assert!(ends.contains("column `\"messages\"`: has a page whose header cannot be read"), "{ends}");
    }

    #[test]
    fn a_header_without_end_is_an_error() {
        for bytes in [vec![0x19; 100_000], vec![0x1c; 100_000], vec![0x15; 5], vec![0x15, 0xff]] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let mut headers = PageHeaders::new(&file, 0, bytes.len() as u64).unwrap();
            assert!(headers.next().unwrap().is_err(), "{:?}", &bytes[..2]);
        }
        assert!(PageHeaders::new(&tempfile::tempfile().unwrap(), 0, 1).is_err());
        assert!(PageHeaders::new(&tempfile::tempfile().unwrap(), u64::MAX, 1).is_err());
    }

    #[test]
    fn a_panic_is_an_error_and_what_comes_after_it_is_read() {
        let panics: fn() -> Result<u32, ParquetFileError> = || panic!("index out of bounds");
        assert!(guarded(panics).unwrap_err().to_string().starts_with("is damaged"));
        assert_eq!(guarded(|| Ok::<_, ParquetFileError>(1)).unwrap(), 1);
    }
}
