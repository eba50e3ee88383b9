use std::cell::Cell;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::operands::{Left, Right, STRIP, TilePanels};
use super::packed_matrix::{PANEL, PackedMatrix};
use super::prefetch::prefetch;
use crate::threads::share;

/// `product = left · right`, with `left` row-major `[rows, depth]` and `product` row-major `[rows, columns]`.
///
/// Each number of the product is summed over the depth in order, however many rows there are and however many threads
/// of a [`rayon`] pool take part: those of the pool that the call is made in, or the caller's alone.
pub(crate) fn multiply(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of(right)).run(false, product);
}

/// `product += left · right`; shapes as for [`multiply`].
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

/// Depth that is summed over at a time: so much of a strip's rows stays in the first cache.
const DEPTH_BLOCK: usize = 256;

/// Columns that a strip of rows goes through before the next strip: so much of them stays in the second cache.
const COLUMN_BLOCK: usize = 16 * PANEL;

/// Rows that are multiplied with a block of the depth at a time: so much of them stays in the second cache.
const ROW_BLOCK: usize = 43 * STRIP;

/// Numbers of a cache line.
const CACHE_LINE: usize = 16;

/// Columns from which on it is worth packing a block of the left matrix.
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
        // Processors with short vectors have half the registers.
        if S::F32_LANES >= 16 { self.run::<S, STRIP>(simd) } else { self.run::<S, 4>(simd) }
    }
}

impl WindowProduct<'_> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(&mut self, simd: S) {
        let Product { left, right } = self.product;
        let (rows, columns) = (self.window.rows.len(), self.window.rows[0].len());
        // Rows that are far apart, by powers of two above all, drive each other out of the caches.
        let far_apart = left.by_columns || left.depth > DEPTH_BLOCK;
        let pack_left = far_apart && columns >= WORTH_PACKING && rows >= STRIP;
        let packed = rows.min(ROW_BLOCK).next_multiple_of(STRIP) * left.depth.min(DEPTH_BLOCK);
        let mut scratch = SCRATCH.take();
        let Scratch { strips, gathered } = &mut scratch;
        strips.resize(strips.len().max(if pack_left { packed } else { 0 }), 0.0);
        // A few rows are done with a panel before the next is looked at.
        let width = if rows > STRIP { COLUMN_BLOCK } else { PANEL };
        gathered.resize(gathered.len().max(DEPTH_BLOCK * width), 0.0);
        for block_start in (0..rows).step_by(ROW_BLOCK) {
            let block = block_start..rows.min(block_start + ROW_BLOCK);
            for depth_start in (0..left.depth).step_by(DEPTH_BLOCK) {
                let depth = depth_start..left.depth.min(depth_start + DEPTH_BLOCK);
                let first_row = self.window.first_row + block.start;
                if pack_left {
                    left.pack_block(first_row..first_row + block.len(), &depth, strips);
                }
                let add = self.accumulate || depth.start > 0;
                let factors = |row: usize| match (left.by_columns, pack_left) {
                    (false, false) => (&left.numbers[(first_row + row) * left.depth + depth.start..], left.depth),
                    (false, true) => (&strips[row * depth.len()..], depth.len()),
                    (true, false) => (&left.numbers[depth.start * left.rows + first_row + row..], left.rows),
                    (true, true) => (&strips[row / STRIP * STRIP * depth.len() + row % STRIP..], STRIP),
                };
                let rows = &mut self.window.rows[block.clone()];
                for start in (0..columns).step_by(width) {
                    let columns = start..columns.min(start + width);
                    let panels = right.panels(self.window.start, &columns, &depth, gathered);
                    let mut tiles = Tiles { by_columns: left.by_columns, panels, depth: &depth, columns, add };
                    let mut row = 0;
                    while row + ROWS <= rows.len() {
                        tiles.strip::<S, ROWS>(simd, factors(row), &mut rows[row..row + ROWS]);
                        row += ROWS;
                    }
                    while row + 4 <= rows.len() {
                        tiles.strip::<S, 4>(simd, factors(row), &mut rows[row..row + 4]);
                        row += 4;
                    }
                    if row + 2 <= rows.len() {
                        tiles.strip::<S, 2>(simd, factors(row), &mut rows[row..row + 2]);
                        row += 2;
                    }
                    if row < rows.len() {
                        tiles.strip::<S, 1>(simd, factors(row), &mut rows[row..]);
                    }
                }
            }
        }
        SCRATCH.set(scratch);
    }
}

/// What all rows share of some columns and part of the depth.
struct Tiles<'a> {
    by_columns: bool,
    panels: TilePanels<'a>,
    depth: &'a Range<usize>,
    /// Of the window, beginning at a panel.
    columns: Range<usize>,
    /// The sums go on from what is there.
    add: bool,
}

impl Tiles<'_> {
    /// `ROWS` rows of the columns. `left` is where the first of them begins, and how far it is to the next row or, by columns,
    /// to the next place of the depth.
    #[inline(always)]
    fn strip<S: Simd, const ROWS: usize>(&mut self, simd: S, left: (&[f32], usize), rows: &mut [&mut [f32]]) {
        for (index, column) in self.columns.clone().step_by(PANEL).enumerate() {
            for row in 0..ROWS {
                for at in (column + PANEL..column + 2 * PANEL).step_by(CACHE_LINE) {
                    prefetch(rows[row], at);
                }
            }
            self.tile::<S, ROWS>(simd, left, self.panels.tile(index, self.depth.len()), column, rows);
        }
    }

    /// The same for one panel, part of whose depth `tile` is.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize>(
        &self,
        simd: S,
        left: (&[f32], usize),
        tile: &[f32],
        column: usize,
        rows: &mut [&mut [f32]],
    ) {
        let (vectors, _) = S::as_simd_f32s(tile);
        let per_row = PANEL / S::F32_LANES;
        let columns = rows[0].len();
        for pair in (0..per_row).step_by(2) {
            let at = column + pair * S::F32_LANES;
            let (first_end, second_end) = (columns.min(at + S::F32_LANES), columns.min(at + 2 * S::F32_LANES));
            if at >= columns {
                break;
            }
            let whole = second_end == at + 2 * S::F32_LANES;
            let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
            if self.add {
                for r in 0..ROWS {
                    if whole {
                        let (row, _) = S::as_simd_f32s(&rows[r][at..second_end]);
                        sums[r] = [row[0], row[1]];
                    } else {
                        sums[r][0] = simd.partial_load_f32s(&rows[r][at..first_end]);
                        sums[r][1] = simd.partial_load_f32s(&rows[r][first_end..second_end]);
                    }
                }
            }
            let sums = if self.by_columns {
                sum_columns(simd, left, self.depth.len(), vectors, per_row, pair, sums)
            } else {
                sum_rows(simd, left, self.depth.len(), vectors, per_row, pair, sums)
            };
            for r in 0..ROWS {
                if whole {
                    let (row, _) = S::as_mut_simd_f32s(&mut rows[r][at..second_end]);
                    [row[0], row[1]] = sums[r];
                } else {
                    simd.partial_store_f32s(&mut rows[r][at..first_end], sums[r][0]);
                    simd.partial_store_f32s(&mut rows[r][first_end..second_end], sums[r][1]);
                }
            }
        }
    }
}

/// Adds the products of `ROWS` rows with a pair of a panel's vector columns.
#[inline(always)]
fn sum_rows<S: Simd, const ROWS: usize>(
    simd: S,
    (left, stride): (&[f32], usize),
    depth: usize,
    vectors: &[S::f32s],
    per_row: usize,
    pair: usize,
    mut sums: [[S::f32s; 2]; ROWS],
) -> [[S::f32s; 2]; ROWS] {
    let mut rows = [left; ROWS];
    for r in 0..ROWS {
        rows[r] = &left[r * stride..][..depth];
    }
    for p in 0..depth {
        let right = &vectors[p * per_row + pair..][..2];
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
fn sum_columns<S: Simd, const ROWS: usize>(
    simd: S,
    (left, stride): (&[f32], usize),
    depth: usize,
    vectors: &[S::f32s],
    per_row: usize,
    pair: usize,
    mut sums: [[S::f32s; 2]; ROWS],
) -> [[S::f32s; 2]; ROWS] {
    for p in 0..depth {
        let right = &vectors[p * per_row + pair..][..2];
        let factors = &left[p * stride..][..ROWS];
        for r in 0..ROWS {
            let factor = simd.splat_f32s(factors[r]);
            sums[r][0] = simd.mul_add_e_f32s(factor, right[0], sums[r][0]);
            sums[r][1] = simd.mul_add_e_f32s(factor, right[1], sums[r][1]);
        }
    }
    sums
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

    /// More than one block of everything, each with a rest, on one thread and on three.
    #[test]
    fn blocks_and_threads_change_no_bit() {
        let (rows, depth, columns) = (ROW_BLOCK + 13, DEPTH_BLOCK + 5, COLUMN_BLOCK + 3);
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
        for row in [0, ROW_BLOCK - 1, ROW_BLOCK, rows - 1] {
            let mut alone = vec![0.0; columns];
            multiply(&left[row * depth..][..depth], 1, &packed, &mut alone);
            let expected = exact(&left[row * depth..][..depth], &right, 1, depth, columns);
            assert!(alone.iter().zip(expected).all(|(found, exact)| (f64::from(*found) - exact).abs() < 1e-4));
            assert!(products.iter().all(|product| product[row * columns..][..columns] == alone));
        }
        assert!(products.iter().all(|product| *product == products[0]));
    }

    /// What a device computes, too. A processor without fused operations rounds products first.
    #[test]
    fn a_number_is_one_chain_of_fused_multiply_adds() {
        #[cfg(target_arch = "x86_64")]
        if !std::arch::is_x86_feature_detected!("fma") {
            return;
        }
        let (rows, depth, columns) = (13, DEPTH_BLOCK + 5, 33);
        let (left, right) = (numbers(7, rows * depth), numbers(8, depth * columns));
        let mut packed = PackedMatrix::default();
        packed.pack(&right, depth, columns);
        let before = numbers(9, rows * columns);
        let mut product = before.clone();
        multiply_add(&left, rows, &packed, &mut product);
        for (at, (number, start)) in product.iter().zip(before).enumerate() {
            let (row, column) = (at / columns, at % columns);
            let chain = |sum, step| f32::mul_add(left[row * depth + step], right[step * columns + column], sum);
            assert_eq!(number.to_bits(), (0..depth).fold(start, chain).to_bits());
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
