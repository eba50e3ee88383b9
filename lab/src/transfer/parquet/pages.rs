//! The headers of a Parquet file's pages: what they claim, read without their pages.
//!
//! A header is a struct in Thrift's compact protocol, of which three numbers are wanted (`PageHeader` of parquet-format).

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use super::error::{ColumnDamage, UnreadableHeader};

type Result<T> = std::result::Result<T, UnreadableHeader>;

/// How deep structs and lists may be in each other; a header's are not deeper than 3.
const DEPTH: usize = 8;

/// What a page's header claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes in the file, after the header.
    pub(crate) compressed: u64,
    /// Bytes once they are decompressed.
    pub(crate) uncompressed: u64,
    /// Values with their nulls; 0 of a dictionary.
    pub(crate) values: i64,
}

/// The headers of a column's pages, one after the other.
pub(crate) struct PageHeaders {
    input: BufReader<File>,
    position: u64,
    end: u64,
}

impl PageHeaders {
    /// Of the bytes of a column.
    ///
    /// # Errors
    /// If the column does not lie in the file.
    pub(crate) fn new(file: &File, start: u64, length: u64) -> std::result::Result<Self, ColumnDamage> {
        let end = start.checked_add(length).filter(|end| file.metadata().is_ok_and(|file| *end <= file.len()));
        let end = end.ok_or(ColumnDamage::OutsideTheFile)?;
        Ok(Self { input: BufReader::with_capacity(512, file.try_clone()?), position: start, end })
    }

    fn read_next(&mut self) -> std::result::Result<PageHeader, ColumnDamage> {
        self.input.seek(SeekFrom::Start(self.position))?;
        let mut input = Compact { input: (&mut self.input).take(self.end - self.position), depth: 0 };
        let header = input.page_header().map_err(ColumnDamage::PageHeader)?;
        let after = self.end - input.input.limit();
        self.position = after.saturating_add(header.compressed);
        if self.position > self.end {
            return Err(ColumnDamage::CutPage { claimed: header.compressed, left: self.end - after });
        }
        Ok(header)
    }
}

impl Iterator for PageHeaders {
    type Item = std::result::Result<PageHeader, ColumnDamage>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.position < self.end).then(|| self.read_next())
    }
}

/// Kinds of values in the compact protocol, by their numbers.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

/// A reader of Thrift's compact protocol, as far as headers use it.
struct Compact<R> {
    input: R,
    depth: usize,
}

impl<R: Read> Compact<R> {
    fn page_header(&mut self) -> Result<PageHeader> {
        /// Fields of `PageHeader`, and of the headers of data pages in it.
        const UNCOMPRESSED: i64 = 2;
        const COMPRESSED: i64 = 3;
        const DATA_PAGES: [i64; 2] = [5, 8];
        const VALUES: i64 = 1;
        let mut header = PageHeader::default();
        self.fields(&mut |this, field, kind| {
            match (field, kind) {
                (UNCOMPRESSED, kind::I32) => header.uncompressed = u64::try_from(this.number()?)?,
                (COMPRESSED, kind::I32) => header.compressed = u64::try_from(this.number()?)?,
                (field, kind::STRUCT) if DATA_PAGES.contains(&field) => {
                    this.fields(&mut |this, field, kind| match (field, kind) {
                        (VALUES, kind::I32) => {
                            header.values = i64::from(u32::try_from(this.number()?)?);
                            Ok(())
                        }
                        (_, kind) => this.skip(kind),
                    })?;
                }
                (_, kind) => this.skip(kind)?,
            }
            Ok(())
        })?;
        Ok(header)
    }

    /// Hands out the fields of a struct: `read` reads the value.
    fn fields(&mut self, read: &mut dyn FnMut(&mut Self, i64, u8) -> Result<()>) -> Result<()> {
        self.go_deeper()?;
        let mut field = 0;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                self.depth -= 1;
                return Ok(());
            }
            field = match i64::from(byte >> 4) {
                0 => self.number()?,
                more => field + more,
            };
            read(self, field, byte & 15)?;
        }
    }

    fn go_deeper(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(UnreadableHeader::TooDeep);
        }
        Ok(())
    }

    fn skip(&mut self, of: u8) -> Result<()> {
        match of {
            kind::TRUE | kind::FALSE => {}
            kind::BYTE => _ = self.byte()?,
            kind::I16 | kind::I32 | kind::I64 => _ = self.varint()?,
            kind::DOUBLE => self.skip_bytes(8)?,
            kind::BINARY => {
                let length = self.varint()?;
                self.skip_bytes(length)?;
            }
            kind::LIST | kind::SET => {
                let byte = self.byte()?;
                let length = match u64::from(byte >> 4) {
                    15 => self.varint()?,
                    length => length,
                };
                self.go_deeper()?;
                for _ in 0..length {
                    match byte & 15 {
                        // In a list a truth takes a byte.
                        kind::TRUE | kind::FALSE => _ = self.byte()?,
                        of => self.skip(of)?,
                    }
                }
                self.depth -= 1;
            }
            kind::STRUCT => self.fields(&mut |this, _, of| this.skip(of))?,
            other => return Err(UnreadableHeader::UnknownKind { kind: other }),
        }
        Ok(())
    }

    fn skip_bytes(&mut self, length: u64) -> Result<()> {
        let skipped = std::io::copy(&mut (&mut self.input).take(length), &mut std::io::sink())?;
        if skipped < length {
            return Err(UnreadableHeader::EndsEarly);
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(UnreadableHeader::EndlessNumber)
    }

    /// A number with its sign, in zigzag.
    fn number(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}
