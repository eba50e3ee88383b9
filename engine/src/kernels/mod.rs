//! The arithmetic of the model. Sampler and learner call the same functions, and what a function computes for a row
//! depends on that row alone, so that both find the same logprob to the bit.
//!
//! Hot loops run over arrays of [`LANES`] numbers inside [`vectorised`], which compiles each of them for the
//! processor's own vectors. Outside products of matrices no operation is fused, so their results are the same on every
//! processor.

// Iterator adapters are not always inlined into code compiled for other processor features than the crate's.
#![allow(clippy::needless_range_loop)]

use pulp::{Arch, Simd, WithSimd};

mod attention;
mod attention_backward;
mod matmul;
mod operands;
mod packed_matrix;
mod pointwise;
mod prefetch;
mod softmax;
mod square_product;

pub(crate) use attention::{AttentionShape, BLOCK, Blocks, Joined, Queries, attend, store_keys};
pub(crate) use attention_backward::{AttentionForward, AttentionScratch, attend_backward};
pub(crate) use matmul::{multiply, multiply_add, multiply_transposed, transposed_multiply_add};
pub(crate) use packed_matrix::{PackedMatrix, Precision};
pub(crate) use pointwise::{
    HeadNorms, Rotation, add_bias, bias_backward, norm_and_rotate, norm_and_rotate_backward, rms_norm,
    rms_norm_backward, swiglu, swiglu_backward,
};
pub(crate) use softmax::{LogSoftmax, add_entropy_gradient, softmax_gradient};
pub use square_product::square_product;

/// Runs a loop compiled for the processor's vectors.
///
/// The body must be marked `#[inline(always)]` and must write to what it captures: the compiler wraps a closure that
/// only reads in a function of its own, which is then compiled for the oldest processor.
#[inline(always)]
pub(crate) fn vectorised(body: impl FnMut()) {
    struct Body<F>(F);
    impl<F: FnMut()> WithSimd for Body<F> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _: S) {
            (self.0)();
        }
    }
    Arch::new().dispatch(Body(body));
}

/// Numbers that a reduction keeps side by side.
const LANES: usize = 16;

/// Sums the lanes in one fixed order.
#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Sum of `left[i] * right[i]`.
#[inline(always)]
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left_blocks, left_rest) = left.as_chunks::<LANES>();
    let (right_blocks, right_rest) = right.as_chunks::<LANES>();
    let right_blocks = &right_blocks[..left_blocks.len()];
    let mut sums = [0.0; LANES];
    for block in 0..left_blocks.len() {
        for lane in 0..LANES {
            sums[lane] += left_blocks[block][lane] * right_blocks[block][lane];
        }
    }
    let right_rest = &right_rest[..left_rest.len()];
    for lane in 0..left_rest.len() {
        sums[lane] += left_rest[lane] * right_rest[lane];
    }
    fold(sums)
}

/// Sum of `first[i] * second[i] * third[i]`.
#[inline(always)]
fn triple_dot(first: &[f32], second: &[f32], third: &[f32]) -> f32 {
    let (firsts, first_rest) = first.as_chunks::<LANES>();
    let (seconds, second_rest) = second.as_chunks::<LANES>();
    let (thirds, third_rest) = third.as_chunks::<LANES>();
    let (seconds, thirds) = (&seconds[..firsts.len()], &thirds[..firsts.len()]);
    let mut sums = [0.0; LANES];
    for block in 0..firsts.len() {
        for lane in 0..LANES {
            sums[lane] += firsts[block][lane] * seconds[block][lane] * thirds[block][lane];
        }
    }
    let (second_rest, third_rest) = (&second_rest[..first_rest.len()], &third_rest[..first_rest.len()]);
    for lane in 0..first_rest.len() {
        sums[lane] += first_rest[lane] * second_rest[lane] * third_rest[lane];
    }
    fold(sums)
}

/// `e^x` to about one unit in the last place; 0 below the smallest normal number, NaN for NaN.
///
/// Cephes' `expf`: `x = n ln 2 + r` with a polynomial in `r`. Written without calls so that loops vectorise.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const LOWEST: f32 = -87.336_54;
    const HIGHEST: f32 = 88.376_26;
    let bounded = if x < LOWEST { LOWEST } else { x };
    let bounded = if bounded > HIGHEST { HIGHEST } else { bounded };
    let shifted = bounded * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = bounded - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut polynomial = 1.987_569_1e-4;
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = polynomial * r + coefficient;
    }
    let fraction = polynomial * r * r + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    let power = f32::from_bits(exponent << 23);
    if x < LOWEST { 0.0 } else { fraction * power }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exp_is_close_to_the_exact_one(x in -87.3_f32..88.3) {
            let exact = f64::from(x).exp();
            prop_assert!(((f64::from(exp(x)) - exact) / exact).abs() < 2.5e-7);
        }
    }

    #[test]
    fn exp_at_its_edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-88.0), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }
}
