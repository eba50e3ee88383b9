//! The one hint to the processor that needs `unsafe`.

/// Asks for the cache line of numbers from `at` on, which will be read or written soon; nothing where there are none.
///
/// A tile of a product is written some thousand cycles after its place is known. Unasked, its lines are fetched from memory
/// only then, and the stores wait for them.
#[inline(always)]
#[allow(unsafe_code)]
pub(super) fn prefetch(numbers: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(number) = numbers.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64 processor, changes nothing but caches, and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(number).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (numbers, at);
}
