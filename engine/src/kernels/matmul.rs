use std::cell::Cell;

use pulp::{Arch, Simd, WithSimd};

use super::operands::{Left, Right};
use super::packed_matrix::{PANEL, PackedMatrix};
use super::tile::{Ending, Factors, PartialSums, SHORT_STRIP, STRIP, Tiles};
use crate::threads::share;

/// `product = left · right`, with `left` row-major `[rows, depth]` and `product` row-major `[rows, columns]`.
///
/// Each number of the product is summed over the depth in order, in chains of [`DEPTH_BLOCK`] steps that begin at 0. This
/// order does not depend on how many rows there are, nor on how many threads of a [`rayon`] pool take part: those of the
/// pool that the call is made in, or the caller's alone.
pub(crate) fn multiply(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of(right)).run(false, product);
}

/// `product += left · right`; shapes as for [`multiply`]. A number of the product is added to the whole sum: a large one
/// rounds the sum once, not at each step.
pub(crate) fn multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of(right)).run(true, product);
}

/// `product = left · rightᵀ`, with `left` row-major `[rows, columns]` and `product` `[rows, depth]`; else as [`multiply`].
pub(crate) fn multiply_transposed(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of_transpose(right)).run(false, product);
}

/// `product += leftᵀ · right`, with `left` row-major `[depth, rows]`.
pub(crate) fn transposed_multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_columns(left, rows), Right::of(right)).run(true, product);
}

/// Depth that one chain sums over: so much of a strip's rows stays in the first cache, and rounding errors stay those of
/// short sums.
const DEPTH_BLOCK: usize = 256;

/// Columns that a strip of rows goes through before the next strip: so much of them stays in the second cache.
const COLUMN_BLOCK: usize = 16 * PANEL;

/// Rows that are multiplied with a block of the depth at a time: so much of them stays in the second cache.
const ROW_BLOCK: usize = 43 * STRIP;

/// Columns from which on it is worth packing a block of the left matrix: a tile then reads it from end to end.
const WORTH_PACKING: usize = 256;

/// Multiplications from which on a product is worth another thread.
const WORTH_A_THREAD: usize = 1 << 21;

/// Numbers of the right matrix from which on it is, however few rows: they come from memory.
const WORTH_A_THREAD_TO_READ: usize = 1 << 18;

/// Some columns, from `start` on, of some rows of a product, from `first_row` on.
struct Window<'a> {
    first_row: usize,
    start: usize,
    rows: Vec<&'a mut [f32]>,
}

/// Cuts a row-major product of so many columns into windows of about the same size. Columns are cut between panels.
fn windows(product: &mut [f32], columns: usize, parts: usize) -> Vec<Window<'_>> {
    let rows = product.len() / columns;
    if rows > columns {
        let part = rows.div_ceil(parts).next_multiple_of(STRIP);
        let window = |(index, chunk)| {
            let rows = <[f32]>::chunks_exact_mut(chunk, columns).collect();
            Window { first_row: index * part, start: 0, rows }
        };
        return product.chunks_mut(part * columns).enumerate().map(window).collect();
    }
    let part = columns.div_ceil(parts).next_multiple_of(PANEL);
    let window = |start| Window { first_row: 0, start, rows: Vec::with_capacity(rows) };
    let mut windows: Vec<Window<'_>> = (0..columns).step_by(part).map(window).collect();
    for row in product.chunks_exact_mut(columns) {
        for (window, chunk) in windows.iter_mut().zip(row.chunks_mut(part)) {
            window.rows.push(chunk);
        }
    }
    windows
}

struct Product<'a> {
    left: Left<'a>,
    right: Right<'a>,
}

impl<'a> Product<'a> {
    fn new(left: Left<'a>, right: Right<'a>) -> Self {
        Self { left, right }
    }

    fn run(&self, accumulate: bool, product: &mut [f32]) {
        let Self { left, right } = self;
        assert_eq!(left.numbers.len(), left.rows * right.depth);
        assert_eq!(product.len(), left.rows * right.columns);
        if product.is_empty() {
            return;
        }
        let windows = windows(product, right.columns, self.threads());
        let run = |window| Arch::new().dispatch(WindowProduct { product: self, accumulate, window });
        share(windows, run);
    }

    /// Threads that are worth taking of the pool that this is called in.
    fn threads(&self) -> usize {
        let read = self.right.depth * self.right.columns;
        let worth = read >= WORTH_A_THREAD_TO_READ || read * self.left.rows >= WORTH_A_THREAD;
        if worth && rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
    }
}

/// Memory of a thread that multiplies, kept between products.
#[derive(Default)]
struct Scratch {
    /// A block of the left matrix.
    strips: Vec<f32>,
    /// Part of the right one.
    gathered: Vec<f32>,
    /// Sums of a block's rows, until they are whole and added to the product.
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = Cell::default();
}

struct WindowProduct<'a> {
    product: &'a Product<'a>,
    accumulate: bool,
    window: Window<'a>,
}

impl WithSimd for WindowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, STRIP, { PANEL / 16 }>(simd),
            8 => self.run::<S, SHORT_STRIP, { PANEL / 8 }>(simd),
            4 => self.run::<S, SHORT_STRIP, { PANEL / 4 }>(simd),
            _ => self.run::<S, SHORT_STRIP, PANEL>(simd),
        }
    }
}

impl WindowProduct<'_> {
    /// In strips of `ROWS` rows. A panel's row is `VECTORS` vectors.
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const VECTORS: usize>(&mut self, simd: S) {
        let Product { left, right } = self.product;
        let (rows, columns) = (self.window.rows.len(), self.window.rows[0].len());
        let pack_left = columns >= WORTH_PACKING && rows >= ROWS;
        let packed = rows.min(ROW_BLOCK) * left.depth.min(DEPTH_BLOCK);
        let mut scratch = SCRATCH.take();
        let Scratch { strips, gathered, sums } = &mut scratch;
        strips.resize(strips.len().max(if pack_left { packed } else { 0 }), 0.0);
        // A few rows are done with a panel before the next is looked at.
        let width = if rows > STRIP { COLUMN_BLOCK } else { PANEL };
        gathered.resize(gathered.len().max(DEPTH_BLOCK * width), 0.0);
        let apart = self.accumulate && left.depth > DEPTH_BLOCK;
        let sums_width = if apart { columns.next_multiple_of(PANEL) } else { 0 };
        sums.resize(sums.len().max(rows.min(ROW_BLOCK) * sums_width), 0.0);
        for block_start in (0..rows).step_by(ROW_BLOCK) {
            let block = block_start..rows.min(block_start + ROW_BLOCK);
            for depth_start in (0..left.depth).step_by(DEPTH_BLOCK) {
                let depth = depth_start..left.depth.min(depth_start + DEPTH_BLOCK);
                let first_row = self.window.first_row + block.start;
                if pack_left {
                    left.pack_block::<ROWS>(first_row..first_row + block.len(), &depth, strips);
                }
                let ending = Ending::of(&depth, left.depth, self.accumulate);
                let factors = |row: usize| match (left.by_columns, pack_left) {
                    (false, false) => {
                        Factors::Rows(&left.numbers[(first_row + row) * left.depth + depth.start..], left.depth)
                    }
                    (true, false) => {
                        Factors::Columns(&left.numbers[depth.start * left.rows + first_row + row..], left.rows)
                    }
                    (_, true) => Factors::Packed(&strips[row * depth.len()..]),
                };
                let rows = &mut self.window.rows[block.clone()];
                for start in (0..columns).step_by(width) {
                    let columns = start..columns.min(start + width);
                    let panels = right.panels(self.window.start, &columns, &depth, gathered);
                    let sums = PartialSums { ending, numbers: sums, width: sums_width };
                    let mut tiles = Tiles { panels, depth: depth.len(), columns, sums };
                    let mut row = 0;
                    while row < rows.len() {
                        let (left, later) = (factors(row), &mut rows[row..]);
                        row += match later.len() {
                            left_over if left_over >= ROWS => tiles.strip::<S, ROWS, VECTORS>(simd, left, row, later),
                            4.. => tiles.strip::<S, 4, VECTORS>(simd, left, row, later),
                            2.. => tiles.strip::<S, 2, VECTORS>(simd, left, row, later),
                            _ => tiles.strip::<S, 1, VECTORS>(simd, left, row, later),
                        };
                    }
                }
            }
        }
        SCRATCH.set(scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Precision;
    use crate::kernels::packed_matrix::Element;
    use crate::test_models::numbers;
    use proptest::prelude::*;

    fn exact(left: &[f32], right: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f64> {
        let mut product = vec![0.0; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                for p in 0..depth {
                    product[row * columns + column] +=
                        f64::from(left[row * depth + p]) * f64::from(right[p * columns + column]);
                }
            }
        }
        product
    }

    fn transpose(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns).map(|at| matrix[(at % rows) * columns + at / rows]).collect()
    }

    /// More than one block of everything, each with a rest, on one thread and on three. The rests of rows make tiles of every
    /// size.
    #[test]
    fn blocks_and_threads_change_no_bit() {
        for rest in [11, 15] {
            check_rows(ROW_BLOCK + rest);
        }
    }

    fn check_rows(rows: usize) {
        let (depth, columns) = (DEPTH_BLOCK + 5, COLUMN_BLOCK + 3);
        let (left, right) = (numbers(5, rows * depth), numbers(6, depth * columns));
        let mut packed = PackedMatrix::default();
        packed.pack(&right, depth, columns);
        let mut transpose_packed = PackedMatrix::default();
        transpose_packed.pack_transposed(&right, columns, depth);
        let products = || {
            let mut products = [(); 4].map(|()| vec![0.0; rows * columns]);
            let [plain, by_transpose, added, transposed] = &mut products;
            multiply(&left, rows, &packed, plain);
            multiply_transposed(&left, rows, &transpose_packed, by_transpose);
            multiply_add(&left, rows, &packed, added);
            transposed_multiply_add(&transpose(&left, rows, depth), rows, &packed, transposed);
            products
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let products = [products(), pool.install(products)].concat();
        for row in [0, ROW_BLOCK - 1].into_iter().chain(ROW_BLOCK..rows) {
            let mut alone = vec![0.0; columns];
            multiply(&left[row * depth..][..depth], 1, &packed, &mut alone);
            let expected = exact(&left[row * depth..][..depth], &right, 1, depth, columns);
            assert!(alone.iter().zip(expected).all(|(found, exact)| (f64::from(*found) - exact).abs() < 1e-4));
            assert!(products.iter().all(|product| product[row * columns..][..columns] == alone));
        }
        assert!(products.iter().all(|product| *product == products[0]));
    }

    /// The order in which a number is summed. A processor without fused operations rounds products first.
    #[test]
    fn a_number_is_a_sum_of_short_chains_added_to_what_was_there() {
        #[cfg(target_arch = "x86_64")]
        if !std::arch::is_x86_feature_detected!("fma") {
            return;
        }
        let (rows, depth, columns) = (13, 2 * DEPTH_BLOCK + 5, 33);
        let (left, right) = (numbers(7, rows * depth), numbers(8, depth * columns));
        let mut packed = PackedMatrix::default();
        packed.pack(&right, depth, columns);
        let before = numbers(9, rows * columns);
        let mut product = before.clone();
        multiply_add(&left, rows, &packed, &mut product);
        for (at, (number, start)) in product.iter().zip(before).enumerate() {
            let (row, column) = (at / columns, at % columns);
            let step = |sum, step| f32::mul_add(left[row * depth + step], right[step * columns + column], sum);
            let chain = |first: usize| (first..depth.min(first + DEPTH_BLOCK)).fold(0.0, step);
            let sum: f32 = (0..depth).step_by(DEPTH_BLOCK).map(chain).reduce(|sum, chain| sum + chain).unwrap();
            assert_eq!(number.to_bits(), (start + sum).to_bits());
        }
    }

    /// As the residual stream of a model has them: half a unit in the last place of the sum, and what the small products
    /// lose among themselves. A chain begun at the large number is off by ten times as much.
    #[test]
    fn small_products_keep_their_digits_next_to_a_large_number() {
        let (rows, depth, columns) = (13, 6 * DEPTH_BLOCK, 33);
        let (left, right) = (numbers(7, rows * depth), numbers(8, depth * columns));
        let sums = exact(&left, &right, rows, depth, columns);
        let large: Vec<f32> =
            numbers(9, rows * columns).iter().map(|number| number.signum() * 1000.0 + number).collect();
        let mut packed = PackedMatrix::default();
        packed.pack(&right, depth, columns);
        for rows_at_once in [1, rows] {
            let mut product = large.clone();
            let lines = product.chunks_exact_mut(rows_at_once * columns).zip(left.chunks_exact(rows_at_once * depth));
            for (product, left) in lines {
                multiply_add(left, rows_at_once, &packed, product);
            }
            for ((number, large), sum) in product.iter().zip(&large).zip(&sums) {
                let error = (f64::from(*number) - (f64::from(*large) + sum)).abs();
                assert!(
                    error < 0.5 * f64::from(1024.0_f32 * f32::EPSILON) + 3e-5,
                    "{number} is {error} from {sum} + {large}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn every_product_is_the_sum_over_the_depth(rows in 1..20_usize, depth in 1..40_usize, columns in 1..70_usize) {
            let left = numbers(1, rows * depth);
            let right = numbers(2, depth * columns);
            let expected = exact(&left, &right, rows, depth, columns);
            let mut packed = PackedMatrix::default();
            let mut transposed = PackedMatrix::default();
            packed.pack(&right, depth, columns);
            transposed.pack_transposed(&transpose(&right, depth, columns), depth, columns);

            let mut plain = vec![f32::NAN; rows * columns];
            multiply(&left, rows, &packed, &mut plain);
            let mut from_transposed = vec![f32::NAN; rows * columns];
            multiply(&left, rows, &transposed, &mut from_transposed);
            let mut added = vec![1.0; rows * columns];
            multiply_add(&left, rows, &packed, &mut added);
            let mut added_transposed = vec![1.0; rows * columns];
            transposed_multiply_add(&transpose(&left, rows, depth), rows, &packed, &mut added_transposed);
            let mut by_transpose = vec![f32::NAN; rows * columns];
            packed.pack_transposed(&right, columns, depth);
            multiply_transposed(&left, rows, &packed, &mut by_transpose);

            for at in 0..rows * columns {
                prop_assert!((f64::from(plain[at]) - expected[at]).abs() < 1e-5);
                prop_assert!((f64::from(added[at]) - expected[at] - 1.0).abs() < 1e-5);
            }
            prop_assert_eq!(&from_transposed, &plain);
            prop_assert_eq!(&by_transpose, &plain);
            prop_assert_eq!(&added_transposed, &added);
        }

        #[test]
        fn halves_give_the_same_products_as_the_numbers_that_they_stand_for(
            rows in 1..20_usize, depth in 1..300_usize, columns in 1..70_usize,
        ) {
            let halves: Vec<f32> = numbers(7, depth * columns).into_iter().map(|x| u16::of(x).whole()).collect();
            let mut wide = PackedMatrix::new(depth, columns, Precision::Single);
            let mut narrow = PackedMatrix::new(depth, columns, Precision::Half);
            wide.put_columns(0, &halves);
            narrow.put_columns(0, &halves);
            let products = |matrix: &PackedMatrix| {
                let (mut product, mut transposed) = (vec![0.0; rows * columns], vec![0.0; rows * depth]);
                multiply(&numbers(8, rows * depth), rows, matrix, &mut product);
                multiply_transposed(&numbers(9, rows * columns), rows, matrix, &mut transposed);
                let mut read_back = vec![0.0; depth * columns];
                matrix.columns_from(0, &mut read_back);
                (product, transposed, read_back)
            };
            let expected = products(&wide);
            prop_assert_eq!(&expected.2, &halves);
            prop_assert_eq!(&products(&narrow), &expected);
            narrow.widen();
            prop_assert_eq!(&products(&narrow), &expected);
        }

        #[test]
        fn a_row_does_not_depend_on_the_rows_around_it(rows in 1..30_usize, depth in 1..40_usize, columns in 1..70_usize) {
            let left = numbers(3, rows * depth);
            let mut right = PackedMatrix::default();
            right.pack(&numbers(4, depth * columns), depth, columns);
            let mut together = vec![0.0; rows * columns];
            multiply(&left, rows, &right, &mut together);
            for row in 0..rows {
                let mut alone = vec![0.0; columns];
                multiply(&left[row * depth..][..depth], 1, &right, &mut alone);
                prop_assert_eq!(&alone[..], &together[row * columns..][..columns]);
            }
        }
    }
}
