//! Tiles of a product: some rows by some vectors of a panel, summed over a block of the depth in registers.

use std::ops::Range;

use pulp::Simd;

use super::operands::TilePanels;
use super::packed_matrix::PANEL;
use super::prefetch::prefetch;

/// Rows of a tile of vectors of 512 bits: with two vectors each they take 24 of 32 registers.
pub(super) const STRIP: usize = 12;

/// Rows of a tile of shorter vectors: 12 of 16 registers. Eight sums wait for one another; twelve do not.
pub(super) const SHORT_STRIP: usize = 6;

/// Numbers of a cache line.
const CACHE_LINE: usize = 16;

/// What becomes of a chain's sum. The chains before it have left theirs in the product or, where the product is added to,
/// apart from it.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    /// Add what is kept apart.
    add_apart: bool,
    /// Add what is in the product.
    add_product: bool,
    /// Keep it apart. Else it is put into the product.
    keep_apart: bool,
}

impl Ending {
    /// For the chain over `part` of the depth.
    #[inline(always)]
    pub(super) fn of(part: &Range<usize>, depth: usize, accumulate: bool) -> Self {
        let (first, last) = (part.start == 0, part.end == depth);
        if accumulate {
            Self { add_apart: !first, add_product: last, keep_apart: !last }
        } else {
            Self { add_apart: false, add_product: !first, keep_apart: false }
        }
    }
}

/// Sums of a block's rows, kept apart from the product.
pub(super) struct PartialSums<'a> {
    pub(super) ending: Ending,
    pub(super) numbers: &'a mut [f32],
    /// From one row to the next: whole panels.
    pub(super) width: usize,
}

/// Where the left matrix's numbers for a tile are.
#[derive(Clone, Copy)]
pub(super) enum Factors<'a> {
    /// Row after row, with so much from one to the next.
    Rows(&'a [f32], usize),
    /// For each place of the depth those of all rows, with so much from one place to the next.
    Columns(&'a [f32], usize),
    /// The same, one place right after another.
    Packed(&'a [f32]),
}

/// What all rows share of some columns and part of the depth.
pub(super) struct Tiles<'a> {
    pub(super) panels: TilePanels<'a>,
    /// How much of the depth.
    pub(super) depth: usize,
    /// Of the window, beginning at a panel.
    pub(super) columns: Range<usize>,
    pub(super) sums: PartialSums<'a>,
}

impl Tiles<'_> {
    /// The columns of the first `ROWS` of some rows, which begin at `first` of the block; returns how many that are. A panel's
    /// row is `VECTORS` vectors.
    #[inline(always)]
    pub(super) fn strip<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        left: Factors<'_>,
        first: usize,
        rows: &mut [&mut [f32]],
    ) -> usize {
        let rows = &mut rows[..ROWS];
        for (index, column) in self.columns.clone().step_by(PANEL).enumerate() {
            for row in 0..ROWS {
                for at in (column + PANEL..column + 2 * PANEL).step_by(CACHE_LINE) {
                    prefetch(rows[row], at);
                }
            }
            let (vectors, _) = S::as_simd_f32s(self.panels.tile(index, self.depth));
            let (steps, _) = vectors.as_chunks::<VECTORS>();
            for start in (0..VECTORS).step_by(2) {
                let at = column + start * S::F32_LANES;
                if at >= rows[0].len() {
                    break;
                }
                let sums = match left {
                    Factors::Rows(numbers, stride) => {
                        sum_rows::<S, ROWS, VECTORS>(simd, (numbers, stride), steps, start)
                    }
                    Factors::Columns(numbers, stride) => {
                        sum_columns::<S, ROWS, VECTORS>(simd, (numbers, stride), steps, start)
                    }
                    Factors::Packed(numbers) => sum_packed::<S, ROWS, VECTORS>(simd, numbers, steps, start),
                };
                self.sums.end_chains(simd, sums, first, rows, at);
            }
        }
        ROWS
    }
}

impl PartialSums<'_> {
    /// Adds what is to be added to pairs of sums, for the columns from `at` on of rows from `first` of the block on, and puts
    /// them where they are to be.
    #[inline(always)]
    fn end_chains<S: Simd, const ROWS: usize>(
        &mut self,
        simd: S,
        sums: [[S::f32s; 2]; ROWS],
        first: usize,
        rows: &mut [&mut [f32]],
        at: usize,
    ) {
        // Through a copy, whose places are looked up: the sums themselves stay in registers.
        let mut ended = [[simd.splat_f32s(0.0); 2]; ROWS];
        for r in 0..ROWS {
            ended[r] = sums[r];
        }
        for r in 0..ROWS {
            self.end_chain(simd, ended[r], first + r, rows[r], at);
        }
    }

    #[inline(always)]
    fn end_chain<S: Simd>(&mut self, simd: S, mut sums: [S::f32s; 2], block_row: usize, row: &mut [f32], at: usize) {
        let Self { ending, numbers, width } = self;
        if ending.add_apart || ending.keep_apart {
            let kept = &mut numbers[block_row * *width + at..][..2 * S::F32_LANES];
            let (kept, _) = S::as_mut_simd_f32s(kept);
            if ending.add_apart {
                sums = [simd.add_f32s(kept[0], sums[0]), simd.add_f32s(kept[1], sums[1])];
            }
            if ending.keep_apart {
                [kept[0], kept[1]] = sums;
                return;
            }
        }
        if let Some(whole) = row.get_mut(at..at + 2 * S::F32_LANES) {
            let (whole, _) = S::as_mut_simd_f32s(whole);
            if ending.add_product {
                sums = [simd.add_f32s(whole[0], sums[0]), simd.add_f32s(whole[1], sums[1])];
            }
            [whole[0], whole[1]] = sums;
            return;
        }
        let middle = row.len().min(at + S::F32_LANES);
        let (first, second) = row[at..].split_at_mut(middle - at);
        if ending.add_product {
            let there = [simd.partial_load_f32s(first), simd.partial_load_f32s(second)];
            sums = [simd.add_f32s(there[0], sums[0]), simd.add_f32s(there[1], sums[1])];
        }
        simd.partial_store_f32s(first, sums[0]);
        simd.partial_store_f32s(second, sums[1]);
    }
}

/// The products of `ROWS` rows with a pair of a panel's vectors, summed in chains that begin at 0.
#[inline(always)]
fn sum_rows<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    (left, stride): (&[f32], usize),
    steps: &[[S::f32s; VECTORS]],
    start: usize,
) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    let mut rows = [left; ROWS];
    for r in 0..ROWS {
        rows[r] = &left[r * stride..][..steps.len()];
    }
    for p in 0..steps.len() {
        let right = [steps[p][start], steps[p][start + 1]];
        for r in 0..ROWS {
            let factor = simd.splat_f32s(rows[r][p]);
            sums[r][0] = simd.mul_add_e_f32s(factor, right[0], sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(factor, right[1], sums[r][1]);
        }
    }
    sums
}

/// The same for rows that stand side by side, with so much from one place of the depth to the next.
#[inline(always)]
fn sum_columns<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    (left, stride): (&[f32], usize),
    steps: &[[S::f32s; VECTORS]],
    start: usize,
) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    for p in 0..steps.len() {
        let right = [steps[p][start], steps[p][start + 1]];
        let factors = &left[p * stride..][..ROWS];
        for r in 0..ROWS {
            let factor = simd.splat_f32s(factors[r]);
            sums[r][0] = simd.mul_add_e_f32s(factor, right[0], sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(factor, right[1], sums[r][1]);
        }
    }
    sums
}

/// The same for packed rows.
#[inline(always)]
fn sum_packed<S: Simd, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    left: &[f32],
    steps: &[[S::f32s; VECTORS]],
    start: usize,
) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    let (factors, _) = left.as_chunks::<ROWS>();
    let factors = &factors[..steps.len()];
    for p in 0..steps.len() {
        let right = [steps[p][start], steps[p][start + 1]];
        for r in 0..ROWS {
            let factor = simd.splat_f32s(factors[p][r]);
            sums[r][0] = simd.mul_add_e_f32s(factor, right[0], sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(factor, right[1], sums[r][1]);
        }
    }
    sums
}
