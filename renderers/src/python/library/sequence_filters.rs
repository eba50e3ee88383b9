//! Filters of lists and dicts.

use std::cmp::Ordering;

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, given, size, whole};
use crate::python::library::sorting::{SortOrder, sorted};
use crate::python::library::tests;
use crate::python::python_attributes::item;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{Generator, as_dict, tuple};
use crate::python::python_ops::{add, check_hashable, compare, equal, items, position, truth};
use crate::python::python_repr::python_str_within;
use crate::python::python_values::type_name;

type Outcome<T> = Result<T, PythonError>;

/// What applies the filter of a name, for `map`.
type ApplyFilter = fn(&str, &CallArguments, &Budget<'_>) -> Outcome<Value>;

/// Applies a filter of this file.
pub(super) fn apply(
    name: &str,
    value: &Value,
    arguments: &CallArguments,
    apply_filter: ApplyFilter,
    budget: &Budget<'_>,
) -> Outcome<Value> {
    match name {
        "first" | "last" => {
            let [_] = arguments.bind(name, ["seq"], 0)?;
            end(name, value, budget)
        }
        "items" => pairs(value, arguments, budget),
        "reverse" => reversed(value, arguments, budget),
        "join" => join(value, arguments, budget),
        "map" => map(value, arguments, apply_filter, budget),
        "select" | "reject" | "selectattr" | "rejectattr" => select(name, value, arguments, budget),
        "max" | "min" => extreme(name, value, arguments, budget),
        "sort" => sort(value, arguments, budget),
        "dictsort" => dictsort(value, arguments, budget),
        "unique" => unique(value, arguments, budget),
        "groupby" => {
            let parameters = ["value", "attribute", "default", "case_sensitive"];
            let [_, attribute, default, case_sensitive] = arguments.bind(name, parameters, 2)?;
            let key = Key { attribute, is_cased: flag(case_sensitive, false), default: given(default) };
            groups(key, &items(value, budget)?, budget)
        }
        "sum" => sum(value, arguments, budget),
        _ => divided(name, value, arguments, budget),
    }
}

fn pairs(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_] = arguments.bind("items", ["value"], 0)?;
    match as_dict(value) {
        _ if value.is_undefined() => Ok(Generator::of(Vec::new())),
        None => raise("Can only get item pairs from a mapping."),
        Some(entries) => {
            budget.make_items(entries.len().saturating_mul(2))?;
            Ok(Generator::of(entries.into_iter().map(|(key, item)| tuple(vec![key, item])).collect()))
        }
    }
}

fn reversed(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_] = arguments.bind("reverse", ["value"], 0)?;
    if let Some(text) = value.as_str() {
        budget.make(text.len())?;
        return Ok(text.chars().rev().collect::<String>().into());
    }
    let mut items = items(value, budget)?.into_owned();
    budget.make_items(items.len())?;
    items.reverse();
    Ok(Generator::of(items))
}

/// `max` or `min`.
fn extreme(name: &str, value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, case_sensitive, attribute] = arguments.bind(name, ["value", "case_sensitive", "attribute"], 0)?;
    let key = Key { attribute: given(attribute), is_cased: flag(case_sensitive, false), default: None };
    let wanted = if name == "max" { Ordering::Greater } else { Ordering::Less };
    let mut best: Option<(Value, Value)> = None;
    for item in &*items(value, budget)? {
        let own = key.of(item, budget)?;
        let is_better = match &best {
            None => true,
            Some((best, _)) => compare(&own, best, budget)? == Some(wanted),
        };
        if is_better {
            best = Some((own, item.clone()));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

fn sort(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let parameters = ["value", "reverse", "case_sensitive", "attribute"];
    let [_, reverse, case_sensitive, attribute] = arguments.bind("sort", parameters, 0)?;
    let key = Key { attribute: given(attribute), is_cased: flag(case_sensitive, false), default: None };
    let keyed = key.of_all(&items(value, budget)?, budget)?;
    let keyed = sorted(keyed, order(reverse), budget)?;
    Ok(Value::from(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

fn unique(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, case_sensitive, attribute] = arguments.bind("unique", ["value", "case_sensitive", "attribute"], 0)?;
    let key = Key { attribute: given(attribute), is_cased: flag(case_sensitive, false), default: None };
    let (mut seen, mut kept) = (Vec::new(), Vec::new());
    for item in &*items(value, budget)? {
        let own = key.of(item, budget)?;
        check_hashable(&own, budget)?;
        if position(&seen, &own, budget)?.is_none() {
            seen.push(own);
            kept.push(item.clone());
        }
    }
    budget.make_items(kept.len())?;
    Ok(Generator::of(kept))
}

fn sum(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, attribute, start] = arguments.bind("sum", ["iterable", "attribute", "start"], 0)?;
    let key = Key { attribute: given(attribute), is_cased: true, default: None };
    let mut sum = start.cloned().unwrap_or_else(|| Value::from(0));
    if sum.as_str().is_some() {
        return raise("sum() can't sum strings [use ''.join(seq) instead]");
    }
    for item in &*items(value, budget)? {
        sum = add(&sum, &key.of(item, budget)?, budget)?;
    }
    Ok(sum)
}

/// `batch` or `slice`.
fn divided(name: &str, value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let is_batch = name == "batch";
    let count = if is_batch { "linecount" } else { "slices" };
    let [_, count, filling] = arguments.bind(name, ["value", count, "fill_with"], 2)?;
    let count = count.unwrap_or(&Value::UNDEFINED);
    // No line is ever as short as less than nothing.
    let is_endless = is_batch && whole(count)? < 0;
    let (count, filling) = if is_endless { (usize::MAX, None) } else { (size(count)?, given(filling)) };
    let items = items(value, budget)?;
    let parts = if is_batch { batch(&items, count, filling, budget) } else { slices(&items, count, filling, budget) }?;
    Ok(Generator::of(parts.into_iter().map(Value::from).collect()))
}

fn end(name: &str, value: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    if let Some(text) = value.as_str() {
        let character = if name == "first" { text.chars().next() } else { text.chars().next_back() };
        return Ok(character.map(Value::from).unwrap_or_default());
    }
    if let Some(generator) = value.downcast_object_ref::<Generator>() {
        return match name {
            "first" => Ok(generator.next().unwrap_or_default()),
            _ => raise("'generator' object is not reversible"),
        };
    }
    let items = items(value, budget)?;
    Ok(if name == "first" { items.first() } else { items.last() }.cloned().unwrap_or_default())
}

/// What items are compared by.
struct Key<'k> {
    attribute: Option<&'k Value>,
    is_cased: bool,
    default: Option<&'k Value>,
}

impl Key<'_> {
    fn of(&self, item: &Value, budget: &Budget<'_>) -> Outcome<Value> {
        let key = match self.attribute {
            None => item.clone(),
            Some(path) => {
                let mut parts = Vec::new();
                let text = path.as_str().unwrap_or_default();
                let paths: Vec<&str> = if path.as_str().is_some() { text.split(',').collect() } else { Vec::new() };
                if paths.len() > 1 {
                    for path in paths {
                        parts.push(self.cased(look_up(item, &path.into(), self.default, budget)?, budget)?);
                    }
                    return Ok(Value::from(parts));
                }
                look_up(item, path, self.default, budget)?
            }
        };
        self.cased(key, budget)
    }

    fn cased(&self, key: Value, budget: &Budget<'_>) -> Outcome<Value> {
        match key.as_str() {
            Some(text) if !self.is_cased => {
                budget.look_through(text)?;
                budget.make(text.len())?;
                Ok(text.to_lowercase().into())
            }
            _ => Ok(key),
        }
    }

    fn of_all(&self, items: &[Value], budget: &Budget<'_>) -> Outcome<Vec<(Value, Value)>> {
        budget.make_items(items.len().saturating_mul(2))?;
        items.iter().map(|item| Ok((self.of(item, budget)?, item.clone()))).collect()
    }
}

/// Jinja's look-up of `a.b.0`.
fn look_up(value: &Value, path: &Value, default: Option<&Value>, budget: &Budget<'_>) -> Outcome<Value> {
    let step = |value: &Value, key: &Value| {
        let found = item(value, key, budget)?;
        Ok::<_, PythonError>(if found.is_undefined() { default.cloned().unwrap_or_default() } else { found })
    };
    let Some(text) = path.as_str() else { return step(value, path) };
    let mut value = value.clone();
    for part in text.split('.') {
        let is_place = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let key = part.parse::<i64>().ok().filter(|_| is_place).map_or_else(|| Value::from(part), Value::from);
        value = step(&value, &key)?;
    }
    Ok(value)
}

fn order(reverse: Option<&Value>) -> SortOrder {
    if flag(reverse, false) { SortOrder::Falling } else { SortOrder::Rising }
}

fn dictsort(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let parameters = ["value", "case_sensitive", "by", "reverse"];
    let [_, case_sensitive, by, reverse] = arguments.bind("dictsort", parameters, 0)?;
    let by_value = match by.and_then(Value::as_str).unwrap_or("key") {
        "key" => false,
        "value" => true,
        _ => return raise("You can only sort by either \"key\" or \"value\""),
    };
    let Some(entries) = as_dict(value) else {
        return raise(format!("'{}' object has no attribute 'items'", type_name(value)));
    };
    budget.make_items(entries.len().saturating_mul(3))?;
    let key = Key { attribute: None, is_cased: flag(case_sensitive, false), default: None };
    let keyed: Vec<(Value, Value)> = entries
        .into_iter()
        .map(|(name, item)| {
            let own = key.cased(if by_value { item.clone() } else { name.clone() }, budget)?;
            Ok((own, tuple(vec![name, item])))
        })
        .collect::<Outcome<_>>()?;
    let keyed = sorted(keyed, order(reverse), budget)?;
    Ok(Value::from(keyed.into_iter().map(|(_, pair)| pair).collect::<Vec<_>>()))
}

fn groups(key: Key<'_>, items: &[Value], budget: &Budget<'_>) -> Outcome<Value> {
    let exact = Key { is_cased: true, ..key };
    let keyed = Key { is_cased: key.is_cased, ..exact }.of_all(items, budget)?;
    let keyed = sorted(keyed, SortOrder::Rising, budget)?;
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for (own, item) in keyed {
        match groups.last_mut() {
            Some((last, _, members)) if equal(last, &own, budget)? => members.push(item),
            _ => {
                let shown = exact.of(&item, budget)?;
                groups.push((own, shown, vec![item]));
            }
        }
    }
    let groups = groups.into_iter().map(|(_, shown, members)| tuple(vec![shown, Value::from(members)]));
    Ok(Value::from(groups.collect::<Vec<_>>()))
}

fn join(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, separator, attribute] = arguments.bind("join", ["value", "d", "attribute"], 0)?;
    let separator = separator.cloned().unwrap_or_else(|| "".into());
    let key = Key { attribute: given(attribute), is_cased: true, default: None };
    let parts = items(value, budget)?;
    let mut looked_up = Vec::new();
    let parts = match key.attribute {
        None => &*parts,
        Some(_) => {
            for part in &*parts {
                looked_up.push(key.of(part, budget)?);
            }
            &looked_up
        }
    };
    let joiner = python_str_within(&separator, budget)?;
    let mut out = String::new();
    for (place, part) in parts.iter().enumerate() {
        let part = python_str_within(part, budget)?;
        budget.make(part.len().saturating_add(joiner.len()))?;
        out.push_str(if place > 0 { &joiner } else { "" });
        out.push_str(&part);
    }
    budget.make(out.len())?;
    Ok(out.into())
}

/// The arguments behind the first ones, for a filter or a test that is named by an argument.
fn passed_on(first: Value, rest: &[Value], named: &[(Box<str>, Value)]) -> CallArguments {
    CallArguments { positional: std::iter::once(first).chain(rest.iter().cloned()).collect(), named: named.to_vec() }
}

fn map(value: &Value, arguments: &CallArguments, apply_filter: ApplyFilter, budget: &Budget<'_>) -> Outcome<Value> {
    let mut mapped = Vec::new();
    // Jinja looks at nothing that counts as false.
    if !truth(value) {
        return Ok(Generator::of(mapped));
    }
    let given = arguments.positional.get(1..).unwrap_or_default();
    if given.is_empty()
        && let Some(attribute) = arguments.named("attribute")
    {
        if let Some((name, _)) = arguments.named.iter().find(|(name, _)| !["attribute", "default"].contains(&&**name)) {
            return raise(format!("Unexpected keyword argument '{name}'"));
        }
        for item in &*items(value, budget)? {
            mapped.push(look_up(item, attribute, arguments.named("default"), budget)?);
        }
    } else {
        let [name, rest @ ..] = given else { return raise("map requires a filter argument") };
        let Some(name) = name.as_str() else { return raise("map requires the name of a filter") };
        for item in &*items(value, budget)? {
            mapped.push(apply_filter(name, &passed_on(item.clone(), rest, &arguments.named), budget)?);
        }
    }
    budget.make_items(mapped.len())?;
    Ok(Generator::of(mapped))
}

fn select(name: &str, value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let mut given = arguments.positional.get(1..).unwrap_or_default();
    let attribute = match (name.ends_with("attr"), given) {
        (false, _) => None,
        (true, [attribute, rest @ ..]) => {
            given = rest;
            Some(attribute)
        }
        (true, []) => return raise("Missing parameter for attribute name"),
    };
    let keeps = name.starts_with("select");
    let mut kept = Vec::new();
    if !truth(value) {
        return Ok(Generator::of(kept));
    }
    for item in &*items(value, budget)? {
        let tested = match attribute {
            Some(attribute) => look_up(item, attribute, None, budget)?,
            None => item.clone(),
        };
        let holds = match given {
            [] => truth(&tested),
            [test, rest @ ..] => {
                let Some(test) = test.as_str() else { return raise("a test is named by text") };
                tests::passes(test, &passed_on(tested, rest, &arguments.named), budget)?
            }
        };
        if holds == keeps {
            kept.push(item.clone());
        }
    }
    budget.make_items(kept.len())?;
    Ok(Generator::of(kept))
}

fn batch(items: &[Value], count: usize, filling: Option<&Value>, budget: &Budget<'_>) -> Outcome<Vec<Vec<Value>>> {
    budget.make_items(items.len())?;
    if count == 0 {
        // Only the line that is empty yet is as long as that.
        return Ok(if items.is_empty() { Vec::new() } else { vec![Vec::new(), items.to_vec()] });
    }
    let mut lines: Vec<Vec<Value>> = items.chunks(count).map(<[Value]>::to_vec).collect();
    if let (Some(filling), Some(last)) = (filling, lines.last_mut()) {
        budget.make_items(count)?;
        last.resize(count, filling.clone());
    }
    Ok(lines)
}

fn slices(items: &[Value], count: usize, filling: Option<&Value>, budget: &Budget<'_>) -> Outcome<Vec<Vec<Value>>> {
    if count == 0 {
        return raise("integer division or modulo by zero");
    }
    budget.make_items(items.len().saturating_add(count.saturating_mul(3)))?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut rest = items;
    let mut columns = Vec::new();
    for column in 0..count {
        let (own, others) = rest.split_at(each + usize::from(column < longer));
        rest = others;
        let mut own = own.to_vec();
        own.extend(filling.filter(|_| column >= longer).cloned());
        columns.push(own);
    }
    Ok(columns)
}
