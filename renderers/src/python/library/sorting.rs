//! Python's sort, also of keys that have no order among each other.

use std::cmp::Ordering;

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_ops::compare;

type Outcome<T> = Result<T, PythonError>;

/// Keys, each with its item.
pub(super) type Keyed = Vec<(Value, Value)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortOrder {
    Rising,
    Falling,
}

/// Lists below this length are sorted by insertion, as in CPython: where keys have no order, such as NaN, the result
/// depends on it.
const BY_INSERTION: usize = 64;

/// Sorts by the keys; what is equal stays in its order.
///
/// # Errors
///
/// Two keys cannot be compared, or keys of a long list have no order.
pub(super) fn sorted(mut keyed: Keyed, order: SortOrder, budget: &Budget<'_>) -> Outcome<Keyed> {
    // Reversed before and after, as Python does it.
    if order == SortOrder::Falling {
        keyed.reverse();
    }
    let mut keyed = if keyed.len() < BY_INSERTION { inserted(keyed, budget)? } else { merged(keyed, budget)? };
    if order == SortOrder::Falling {
        keyed.reverse();
    }
    Ok(keyed)
}

/// CPython's binary insertion behind the run that the list begins with.
fn inserted(mut keyed: Keyed, budget: &Budget<'_>) -> Outcome<Keyed> {
    let is_below = |keyed: &Keyed, left: usize, right: usize| {
        Ok::<_, PythonError>(compare(&keyed[left].0, &keyed[right].0, budget)? == Some(Ordering::Less))
    };
    let mut run = keyed.len().min(2);
    if run == 2 {
        let is_falling = is_below(&keyed, 1, 0)?;
        while run < keyed.len() && is_below(&keyed, run, run - 1)? == is_falling {
            run += 1;
        }
        if is_falling {
            keyed[..run].reverse();
        }
    }
    for next in run..keyed.len() {
        let (mut low, mut high) = (0, next);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_below(&keyed, next, middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        keyed[low..=next].rotate_right(1);
    }
    Ok(keyed)
}

/// Halves that are sorted and merged.
fn merged(mut keyed: Keyed, budget: &Budget<'_>) -> Outcome<Keyed> {
    if keyed.len() < 2 {
        return Ok(keyed);
    }
    let right = keyed.split_off(keyed.len() / 2);
    let mut left = merged(keyed, budget)?.into_iter().peekable();
    let mut right = merged(right, budget)?.into_iter().peekable();
    let mut sorted = Vec::with_capacity(left.len() + right.len());
    while let (Some((first, _)), Some((second, _))) = (left.peek(), right.peek()) {
        let next = match compare(second, first, budget)? {
            Some(Ordering::Less) => right.next(),
            Some(_) => left.next(),
            None => return raise(format!("a list of {BY_INSERTION} or more items with NaN is not sorted here")),
        };
        sorted.extend(next);
    }
    sorted.extend(left.chain(right));
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::python_repr::python_repr;
    use crate::python::python_text::from_float;

    fn keyed(keys: impl IntoIterator<Item = f64>) -> Keyed {
        keys.into_iter().enumerate().map(|(place, key)| (from_float(key), Value::from(place))).collect()
    }

    /// The expected lists are Python's.
    #[test]
    fn nan_is_sorted_as_python_sorts_it() {
        let nan = f64::NAN;
        for (keys, expected) in [
            (vec![3.0, nan, 1.0, nan, 2.0], "[3.0, nan, 1.0, nan, 2.0]"),
            (vec![3.0, 1.0, nan, 2.0, 0.0], "[0.0, 1.0, 2.0, 3.0, nan]"),
        ] {
            let sorted = sorted(keyed(keys), SortOrder::Rising, &Budget::unlimited()).unwrap();
            let keys: Vec<Value> = sorted.into_iter().map(|(key, _)| key).collect();
            assert_eq!(python_repr(&Value::from(keys)), expected);
        }
    }

    #[test]
    fn a_long_list_is_sorted_stably_and_refused_where_keys_have_no_order() {
        let budget = Budget::unlimited();
        let keys = || (0..1000_u32).map(|place| f64::from(place * 7919 % 10));
        for order in [SortOrder::Rising, SortOrder::Falling] {
            let sorted = sorted(keyed(keys()), order, &budget).unwrap();
            let is_sorted = |pair: &[(Value, Value)]| {
                let [(first, earlier), (second, later)] = pair else { return true };
                let is_before = if order == SortOrder::Rising { first < second } else { first > second };
                is_before || (first == second && earlier < later)
            };
            assert!(sorted.windows(2).all(is_sorted), "{order:?}");
        }
        let with_nan = keys().map(|key| if key == 3.0 { f64::NAN } else { key });
        assert!(sorted(keyed(with_nan), SortOrder::Rising, &budget).is_err());
        let mut mixed = keyed(keys());
        (0..1000).step_by(3).for_each(|place| mixed[place].0 = Value::from("text"));
        assert!(sorted(mixed, SortOrder::Rising, &budget).is_err());
    }
}
