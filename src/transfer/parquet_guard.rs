//! Reads of Parquet files that others made: a damaged one can make the decoder panic, which is an error here.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use anyhow::{Result, bail};

thread_local! {
    /// Whether a panic of this thread is caught and told as an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// What a read of a Parquet file gives. A panic of the decoder is an error, and prints nothing.
///
/// # Errors
/// As `read`, and where the decoder panics.
pub fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
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
        Err(_) => bail!("is damaged: the Parquet decoder panics over what it holds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_what_comes_after_it_is_read() {
        let panics: fn() -> Result<u32> = || panic!("index out of bounds");
        assert!(guarded(panics).unwrap_err().to_string().starts_with("is damaged"));
        assert_eq!(guarded(|| Ok(1)).unwrap(), 1);
    }
}
