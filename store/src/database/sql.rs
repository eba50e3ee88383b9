//! Reading rows and building conditions.

use fulgurite_types::{FilterLogic, Page, SortOrder, TextFilter};
use futures::TryStreamExt;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::any::{AnyRow, AnyTypeInfo};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Database, Encode, Row, Type};

use crate::database::dialect::{Dialect, Word};
use crate::{Result, StoreError};

/// A column of a row. `None` columns are read as `Option`.
pub(crate) fn column<'r, T>(row: &'r AnyRow, name: &'static str) -> Result<T>
where
    T: sqlx::Decode<'r, Any> + sqlx::Type<Any>,
{
    Ok(row.try_get(name)?)
}

fn corrupt(column: &'static str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { column: column.to_owned(), message: error.to_string() }
}

/// A whole number that is not negative.
pub(crate) fn count<T: TryFrom<i64, Error: std::fmt::Display>>(row: &AnyRow, name: &'static str) -> Result<T> {
    T::try_from(column::<i64>(row, name)?).map_err(|error| corrupt(name, error))
}

/// A column that holds JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &AnyRow, name: &'static str) -> Result<T> {
    serde_json::from_str(column(row, name)?).map_err(|error| corrupt(name, error))
}

/// A column that holds JSON or nothing.
pub(crate) fn optional_json<T: DeserializeOwned>(row: &AnyRow, name: &'static str) -> Result<Option<T>> {
    let text: Option<String> = column(row, name)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| corrupt(name, error))).transpose()
}

/// A column that holds a value of an enum, as text.
pub(crate) fn word<T: for<'de> Deserialize<'de>>(row: &AnyRow, name: &'static str) -> Result<T> {
    of_word(column(row, name)?, name)
}

/// As [`word`], of one that may be missing.
pub(crate) fn optional_word<T: for<'de> Deserialize<'de>>(row: &AnyRow, name: &'static str) -> Result<Option<T>> {
    column::<Option<&str>>(row, name)?.map(|text| of_word(text, name)).transpose()
}

fn of_word<'r, T: Deserialize<'r>>(text: &'r str, name: &'static str) -> Result<T> {
    let text: StrDeserializer<'r, ValueError> = text.into_deserializer();
    T::deserialize(text).map_err(|error| corrupt(name, error))
}

/// Bytes that most of what is written as JSON fits into, so that its text need not grow.
const JSON_BYTES: usize = 1024;

/// JSON text of a value, for a column.
pub(crate) fn to_json<T: Serialize + ?Sized>(field: &'static str, value: &T) -> Result<String> {
    let mut text = Vec::with_capacity(JSON_BYTES);
    serde_json::to_writer(&mut text, value).map_err(|error| StoreError::invalid(field, error.to_string()))?;
    String::from_utf8(text).map_err(|error| StoreError::invalid(field, error.to_string()))
}

/// JSON text of a value that may be missing.
pub(crate) fn to_optional_json<T: Serialize>(field: &'static str, value: Option<&T>) -> Result<Option<String>> {
    value.map(|value| to_json(field, value)).transpose()
}

/// A whole number for a column. The database's numbers are signed.
pub(crate) fn to_integer(field: &'static str, value: impl TryInto<i64>) -> Result<i64> {
    value.try_into().map_err(|_| StoreError::invalid(field, "is too large"))
}

/// Text for a column that holds it as it is. PostgreSQL cannot keep a NUL character, so that neither does SQLite.
pub(crate) fn plain<'t>(field: &str, text: &'t str) -> Result<&'t str> {
    if text.contains('\0') { Err(StoreError::invalid(field, "holds a NUL character")) } else { Ok(text) }
}

/// Most bytes of an id or a name that a client chooses.
pub const LONGEST_ID: usize = 512;

/// As [`plain`], of an id or a name: it stands in indexes, keys, URLs and every list.
pub(crate) fn checked_id<'t>(field: &str, text: &'t str) -> Result<&'t str> {
    match text.len() {
        length if length > LONGEST_ID => {
            Err(StoreError::invalid(field, format!("has {length} bytes, and may have {LONGEST_ID}")))
        }
        _ => plain(field, text),
    }
}

/// As [`checked_id`], of one that may be missing.
pub(crate) fn optional_id<'t>(field: &str, text: Option<&'t str>) -> Result<Option<&'t str>> {
    text.map(|text| checked_id(field, text)).transpose()
}

/// As [`plain`], of a text that may be missing.
pub(crate) fn optional_plain<'t>(field: &str, text: Option<&'t str>) -> Result<Option<&'t str>> {
    text.map(|text| plain(field, text)).transpose()
}

/// A number that may be missing, as an argument.
///
/// sqlx 0.9 declares a missing `f64` to PostgreSQL as an `f32` and the other way round, and a statement that was prepared
/// for one type cannot be bound to the other.
pub(crate) struct OptionalReal(pub Option<f64>);

impl Type<Any> for OptionalReal {
    fn type_info() -> AnyTypeInfo {
        <f64 as Type<Any>>::type_info()
    }
}

impl<'q> Encode<'q, Any> for OptionalReal {
    fn encode_by_ref(
        &self,
        buffer: &mut <Any as Database>::ArgumentBuffer,
    ) -> std::result::Result<IsNull, BoxDynError> {
        match self.0 {
            Some(value) => Encode::<Any>::encode_by_ref(&value, buffer),
            None => Encode::<Any>::encode_by_ref(&None::<f32>, buffer),
        }
    }
}

/// Hashes in one list of [`Sql::hashes`], at most: a power of two, as its lengths are.
pub(crate) const HASHES_PER_QUERY: usize = 8192;

/// Texts that [`Sql::list`] has an argument each for; SQLite takes 32,766 of a statement, PostgreSQL 65,535.
const LISTED_ARGUMENTS: usize = 1000;

#[derive(Clone)]
enum Argument {
    Integer(i64),
    Real(Option<f64>),
    Text(Option<String>),
    Bytes(Vec<u8>),
}

/// SQL that grows together with its arguments. What the databases spell differently is spelled when it is known which of
/// them it goes to.
#[derive(Clone)]
pub(crate) struct Sql {
    text: String,
    /// What is to be spelled, and where in the text, in order.
    marks: Vec<(usize, Mark)>,
    /// One for each such mark.
    arguments: Vec<Argument>,
}

#[derive(Clone, Copy)]
enum Mark {
    Argument,
    Word(Word),
}

impl Sql {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), marks: Vec::new(), arguments: Vec::new() }
    }

    /// Appends text, which must not come from outside.
    pub(crate) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Appends a word that the databases spell differently.
    pub(crate) fn word(&mut self, word: Word) -> &mut Self {
        self.mark(Mark::Word(word))
    }

    fn mark(&mut self, mark: Mark) -> &mut Self {
        self.marks.push((self.text.len(), mark));
        self
    }

    /// Appends a text argument.
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.owned_text(value.to_owned())
    }

    /// Appends a text argument that need not be copied.
    pub(crate) fn owned_text(&mut self, value: String) -> &mut Self {
        self.argument(Argument::Text(Some(value)))
    }

    /// Appends a text argument or null.
    pub(crate) fn optional_text(&mut self, value: Option<&str>) -> &mut Self {
        self.argument(Argument::Text(value.map(str::to_owned)))
    }

    /// Appends a number argument or null.
    pub(crate) fn optional_real(&mut self, value: Option<f64>) -> &mut Self {
        self.argument(Argument::Real(value))
    }

    /// Appends a number argument.
    pub(crate) fn integer(&mut self, value: i64) -> &mut Self {
        self.argument(Argument::Integer(value))
    }

    fn argument(&mut self, argument: Argument) -> &mut Self {
        self.arguments.push(argument);
        self.mark(Mark::Argument)
    }

    /// Appends `(a, b, ..)`; without values `(NULL)`, in which nothing is. Of many it is a query that gives them.
    pub(crate) fn list<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) -> &mut Self {
        let values: Vec<&str> = values.into_iter().collect();
        if values.len() > LISTED_ARGUMENTS {
            return self.word(Word::TextsOf).owned_text(Value::from(values).to_string()).word(Word::TextsEnd);
        }
        let mut separator = "(";
        for value in values {
            self.push(separator).text(value);
            separator = ", ";
        }
        self.push(if separator == "(" { "(NULL)" } else { ")" })
    }

    /// Appends `(a, b, ..)` of at most so many numbers, of which there is at least one. The last is repeated, so that there
    /// is one text, which the databases prepare once.
    pub(crate) fn integers(&mut self, values: impl IntoIterator<Item = i64>, at_most: usize) -> &mut Self {
        let mut last = None;
        let mut values = values.into_iter();
        for place in 0..at_most {
            last = values.next().or(last);
            if let Some(value) = last {
                self.push(if place == 0 { "(" } else { ", " }).integer(value);
            }
        }
        self.push(")")
    }

    /// Appends `(a, b, ..)` of hashes, of which there is at least one. The last is repeated, so that there are few texts,
    /// which the databases prepare once.
    pub(crate) fn hashes<const N: usize>(&mut self, hashes: &[[u8; N]]) -> &mut Self {
        let repeated = std::iter::repeat_n(hashes.last(), hashes.len().next_power_of_two() - hashes.len());
        let mut separator = "(";
        for hash in hashes.iter().chain(repeated.flatten()) {
            self.push(separator).argument(Argument::Bytes(hash.to_vec()));
            separator = ", ";
        }
        self.push(")")
    }

    /// Appends ` ORDER BY .. LIMIT .. OFFSET ..`. `fields` are those that may be sorted by.
    pub(crate) fn page(&mut self, page: &Page, fields: &[SortField]) -> Result<&mut Self> {
        self.push(" ORDER BY ");
        if let Some(sort_by) = &page.sort_by {
            let direction = match page.sort_order {
                Some(SortOrder::Descending) => "DESC",
                Some(SortOrder::Ascending) | None => "ASC",
            };
            self.sort_key(sort_by, fields)?.push(" ").push(direction).push(", ");
        }
        self.push("position");
        self.part(page.limit, page.offset)
    }

    /// Appends the order in which the newest record, or the greatest by one of `fields`, comes first, and ` LIMIT ..`.
    pub(crate) fn newest(
        &mut self,
        limit: Option<u64>,
        sort_by: Option<&str>,
        fields: &[SortField],
    ) -> Result<&mut Self> {
        self.push(" ORDER BY ");
        if let Some(sort_by) = sort_by {
            self.sort_key(sort_by, fields)?.push(" DESC, ");
        }
        self.push("position DESC").part(limit, 0)
    }

    /// Appends the expression by which a list is sorted.
    fn sort_key(&mut self, sort_by: &str, fields: &[SortField]) -> Result<&mut Self> {
        let Some(field) = fields.iter().find(|field| field.name == sort_by) else {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let message = format!("Invalid sort_by: {sort_by}, allowed fields are: {}", names.join(", "));
            return Err(StoreError::invalid("sort_by", message));
        };
        self.push("COALESCE(").push(field.name).push(", ");
        match field.null {
            Null::EndOfTime => self.push(END_OF_TIME),
            Null::EmptyText => self.word(Word::EmptyText),
            Null::Zero => self.push("0"),
        };
        Ok(self.push(")"))
    }

    /// Appends ` LIMIT .. OFFSET ..` as far as needed.
    pub(crate) fn part(&mut self, limit: Option<u64>, offset: u64) -> Result<&mut Self> {
        if limit.is_some() || offset > 0 {
            let limit = limit.map_or(Ok(i64::MAX), |limit| to_integer("limit", limit))?;
            self.push(" LIMIT ").integer(limit).push(" OFFSET ").integer(to_integer("offset", offset)?);
        }
        Ok(self)
    }

    fn spelled(&self, dialect: Dialect) -> String {
        let mut spelled = String::with_capacity(self.text.len() + 4 * self.marks.len());
        let (mut done, mut arguments) = (0, 0);
        for (place, mark) in &self.marks {
            spelled.push_str(&self.text[done..*place]);
            done = *place;
            match mark {
                Mark::Argument => {
                    arguments += 1;
                    dialect.push_argument(&mut spelled, arguments);
                }
                Mark::Word(word) => spelled.push_str(dialect.spell(*word)),
            }
        }
        spelled.push_str(&self.text[done..]);
        spelled
    }

    fn query(self, connection: &AnyConnection) -> Result<Query<'static, Any, sqlx::any::AnyArguments>> {
        // Every piece of text is one of ours; whatever comes from outside is an argument.
        let mut query = sqlx::query(AssertSqlSafe(self.spelled(Dialect::of(connection))));
        for argument in self.arguments {
            query = match argument {
                Argument::Integer(value) => query.bind(value),
                Argument::Real(value) => query.bind(OptionalReal(value)),
                Argument::Bytes(value) => query.bind(value),
                Argument::Text(None) => query.bind(None::<String>),
                Argument::Text(Some(value)) => {
                    plain("filter", &value)?;
                    query.bind(value)
                }
            };
        }
        Ok(query)
    }

    /// This text between two others, which have no arguments.
    pub(crate) fn inside(mut self, before: &str, after: &str) -> Self {
        self.text.insert_str(0, before);
        self.marks.iter_mut().for_each(|(place, _)| *place += before.len());
        self.push(after);
        self
    }

    /// The one row that there must be.
    pub(crate) async fn one(&self, connection: &mut AnyConnection) -> Result<AnyRow> {
        Ok(self.clone().query(connection)?.fetch_one(connection).await?)
    }

    /// Runs it; how many rows it changed.
    pub(crate) async fn execute(self, connection: &mut AnyConnection) -> Result<u64> {
        Ok(self.query(connection)?.execute(connection).await?.rows_affected())
    }

    /// All rows.
    pub(crate) async fn all(&self, connection: &mut AnyConnection) -> Result<Vec<AnyRow>> {
        Ok(self.clone().query(connection)?.fetch_all(connection).await?)
    }

    /// Hands over one row after the other, of which only a few are in memory at a time.
    pub(crate) async fn each(
        &self,
        connection: &mut AnyConnection,
        mut row: impl FnMut(&AnyRow) -> Result<()> + Send,
    ) -> Result<()> {
        let mut rows = self.clone().query(connection)?.fetch(connection);
        while let Some(next) = rows.try_next().await? {
            row(&next)?;
        }
        Ok(())
    }

    /// The number that `SELECT COUNT(*)` gives for these conditions.
    pub(crate) async fn total(&self, connection: &mut AnyConnection) -> Result<u64> {
        let total: i64 = self.one(connection).await?.try_get(0)?;
        Ok(total.unsigned_abs())
    }
}

/// Later than any time, and a number in both databases.
const END_OF_TIME: &str = "1.7976931348623157e308";

/// The value that sorts like null.
#[derive(Clone, Copy)]
enum Null {
    EndOfTime,
    EmptyText,
    Zero,
}

/// A field that a list may be sorted by.
pub(crate) struct SortField {
    /// Its name on the wire, which is its column's as well.
    pub name: &'static str,
    null: Null,
}

impl SortField {
    pub(crate) const fn time(name: &'static str) -> Self {
        Self { name, null: Null::EndOfTime }
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, null: Null::EmptyText }
    }

    pub(crate) const fn number(name: &'static str) -> Self {
        Self { name, null: Null::Zero }
    }
}

/// Conditions that are combined by one operator.
pub(crate) struct Conditions {
    logic: FilterLogic,
    count: usize,
}

impl Conditions {
    pub(crate) fn new(logic: Option<FilterLogic>) -> Self {
        Self { logic: logic.unwrap_or(FilterLogic::And), count: 0 }
    }

    /// Appends the operator, or the opening bracket before the first condition.
    pub(crate) fn next<'a>(&mut self, sql: &'a mut Sql) -> &'a mut Sql {
        self.count += 1;
        sql.push(match (self.count, self.logic) {
            (1, _) => " AND (",
            (_, FilterLogic::And) => " AND ",
            (_, FilterLogic::Or) => " OR ",
        })
    }

    pub(crate) fn one_of<'a>(&mut self, sql: &mut Sql, column: &str, values: impl IntoIterator<Item = &'a str>) {
        self.next(sql).push(column).push(" IN ").list(values);
    }

    pub(crate) fn contains(&mut self, sql: &mut Sql, column: &str, part: &str) {
        // `LIKE` does not mind case.
        self.next(sql).word(Word::PositionOf).push("(").push(column).push(", ").text(part).push(") > 0");
    }

    pub(crate) fn text(&mut self, sql: &mut Sql, column: &str, filter: &TextFilter) {
        if let Some(value) = &filter.equals {
            self.next(sql).push(column).push(" = ").text(value);
        }
        if let Some(part) = &filter.contains {
            self.contains(sql, column, part);
        }
    }

    /// Whether there was any condition; closes the bracket.
    pub(crate) fn close(self, sql: &mut Sql) -> bool {
        if self.count > 0 {
            sql.push(")");
        }
        self.count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_words_are_spelled_as_each_database_does() {
        let mut sql = Sql::new("SELECT a FROM t WHERE b = ");
        sql.text("x").push(" AND ").word(Word::PositionOf).push("(a, ").integer(1).push(") > 0 AND c IN ");
        sql.list(["y", "z"]);
        let sql = sql.inside("SELECT COUNT(*) FROM (", ")");
        assert_eq!(
            sql.spelled(Dialect::Sqlite),
            "SELECT COUNT(*) FROM (SELECT a FROM t WHERE b = ? AND instr(a, ?) > 0 AND c IN (?, ?))"
        );
        assert_eq!(
            sql.spelled(Dialect::Postgres),
            "SELECT COUNT(*) FROM (SELECT a FROM t WHERE b = $1 AND strpos(a, $2) > 0 AND c IN ($3, $4))"
        );
    }
}
