use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Columns of a panel: a multiple of every vector width.
const PANEL: usize = 32;

/// A matrix `[depth, columns]`, cut into panels of [`PANEL`] columns that each lie row after row, so that a product
/// reads it from end to end. The last panel is filled up with zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedMatrix {
    panels: Vec<f32>,
    depth: usize,
    columns: usize,
}

impl PackedMatrix {
    /// Takes over a row-major `[depth, columns]` matrix, keeping the memory it has.
    pub(crate) fn pack(&mut self, matrix: &[f32], depth: usize, columns: usize) {
        self.resize(depth, columns);
        for (index, panel) in self.panels.chunks_exact_mut(depth * PANEL).enumerate() {
            let start = index * PANEL;
            let width = PANEL.min(columns - start);
            for row in 0..depth {
                let from = row * columns + start;
                panel[row * PANEL..][..width].copy_from_slice(&matrix[from..from + width]);
                panel[row * PANEL + width..(row + 1) * PANEL].fill(0.0);
            }
        }
    }

    /// Takes over the transpose of a row-major `[columns, depth]` matrix, which is how Hugging Face stores a layer.
    pub(crate) fn pack_transposed(&mut self, matrix: &[f32], depth: usize, columns: usize) {
        self.resize(depth, columns);
        for (index, panel) in self.panels.chunks_exact_mut(depth * PANEL).enumerate() {
            let start = index * PANEL;
            let width = PANEL.min(columns - start);
            if width < PANEL {
                panel.fill(0.0);
            }
            for column in 0..width {
                let from = &matrix[(start + column) * depth..][..depth];
                for row in 0..depth {
                    panel[row * PANEL + column] = from[row];
                }
            }
        }
    }

    fn resize(&mut self, depth: usize, columns: usize) {
        (self.depth, self.columns) = (depth, columns);
        self.panels.resize(depth * columns.next_multiple_of(PANEL), 0.0);
    }
}

/// `product = left · right`, with `left` row-major `[rows, depth]` and `product` row-major `[rows, columns]`.
///
/// Each number of the product is summed over the depth in order, however many rows there are and however many threads
/// of a [`rayon`] pool take part: those of the pool that the call is made in, or the caller's alone.
pub(crate) fn multiply(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of_panels(right)).run(false, product);
}

/// `product += left · right`; shapes as for [`multiply`].
pub(crate) fn multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of_panels(right)).run(true, product);
}

/// `product = left · right` with `right` as it stands, row-major `[depth, columns]`; else as [`multiply`].
pub(crate) fn multiply_unpacked(left: &[f32], rows: usize, right: &[f32], columns: usize, product: &mut [f32]) {
    Product::new(Left::of_rows(left, rows), Right::of_rows(right, columns)).run(false, product);
}

/// `product += leftᵀ · right`, with `left` row-major `[depth, rows]`.
pub(crate) fn transposed_multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Product::new(Left::of_columns(left, rows), Right::of_panels(right)).run(true, product);
}

/// Depth that is summed over at a time: so much of a panel and of a tile's rows stays in the first cache.
const DEPTH_BLOCK: usize = 256;

/// Rows that are multiplied with a block of the depth at a time: so much of them stays in the second cache.
const ROW_BLOCK: usize = 43 * STRIP;

/// Rows of a tile: with two vectors each they take 24 of 32 registers.
const STRIP: usize = 12;

/// Columns from which on it is worth packing a block of the left matrix.
const WORTH_PACKING: usize = 256;

/// Multiplications from which on a product is worth another thread.
const WORTH_A_THREAD: usize = 1 << 21;

/// Numbers of the right matrix from which on it is, however few rows: they come from memory.
const WORTH_A_THREAD_TO_READ: usize = 1 << 18;

/// A matrix `[rows, depth]`.
#[derive(Clone, Copy)]
struct Left<'a> {
    numbers: &'a [f32],
    rows: usize,
    depth: usize,
    /// It is stored as `[depth, rows]`.
    by_columns: bool,
}

impl<'a> Left<'a> {
    fn of_rows(numbers: &'a [f32], rows: usize) -> Self {
        Self { numbers, rows, depth: numbers.len() / rows.max(1), by_columns: false }
    }

    fn of_columns(numbers: &'a [f32], rows: usize) -> Self {
        Self { by_columns: true, ..Self::of_rows(numbers, rows) }
    }
}

/// A matrix `[depth, columns]`, in panels or row-major.
#[derive(Clone, Copy)]
struct Right<'a> {
    numbers: &'a [f32],
    depth: usize,
    columns: usize,
    in_panels: bool,
}

impl<'a> Right<'a> {
    fn of_panels(matrix: &'a PackedMatrix) -> Self {
        Self { numbers: &matrix.panels, depth: matrix.depth, columns: matrix.columns, in_panels: true }
    }

    fn of_rows(numbers: &'a [f32], columns: usize) -> Self {
        Self { numbers, depth: numbers.len() / columns.max(1), columns, in_panels: false }
    }

    /// Part of the depth of one panel, which is gathered in `tile` where the matrix is not packed.
    #[inline(always)]
    fn tile<'b>(&'b self, panel: usize, depth: &Range<usize>, tile: &'b mut [f32]) -> &'b [f32] {
        if self.in_panels {
            return &self.numbers[(panel * self.depth + depth.start) * PANEL..][..depth.len() * PANEL];
        }
        let start = panel * PANEL;
        let width = PANEL.min(self.columns - start);
        let tile = &mut tile[..depth.len() * PANEL];
        for (row, to) in depth.clone().zip(tile.chunks_exact_mut(PANEL)) {
            // What stands behind a narrow panel's columns is never stored.
            to[..width].copy_from_slice(&self.numbers[row * self.columns + start..][..width]);
        }
        tile
    }
}

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
        match windows.len() {
            1 => windows.into_iter().for_each(run),
            _ => windows.into_par_iter().for_each(run),
        }
    }

    /// Threads that are worth taking of the pool that this is called in.
    fn threads(&self) -> usize {
        let read = self.right.depth * self.right.columns;
        let worth = read >= WORTH_A_THREAD_TO_READ || read * self.left.rows >= WORTH_A_THREAD;
        if worth && rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
    }
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
        let mut strips = vec![0.0; if pack_left { packed } else { 0 }];
        let mut gathered = vec![0.0; if right.in_panels { 0 } else { DEPTH_BLOCK * PANEL }];
        for block_start in (0..rows).step_by(ROW_BLOCK) {
            let block = block_start..rows.min(block_start + ROW_BLOCK);
            for depth_start in (0..left.depth).step_by(DEPTH_BLOCK) {
                let depth = depth_start..left.depth.min(depth_start + DEPTH_BLOCK);
                let first_row = self.window.first_row + block.start;
                if pack_left {
                    pack_block(left, first_row..first_row + block.len(), &depth, &mut strips);
                }
                let add = self.accumulate || depth.start > 0;
                for column in (0..columns).step_by(PANEL) {
                    let tile = right.tile((self.window.start + column) / PANEL, &depth, &mut gathered);
                    let factors = |row: usize| match (left.by_columns, pack_left) {
                        (false, false) => (&left.numbers[(first_row + row) * left.depth + depth.start..], left.depth),
                        (false, true) => (&strips[row * depth.len()..], depth.len()),
                        (true, false) => (&left.numbers[depth.start * left.rows + first_row + row..], left.rows),
                        (true, true) => (&strips[row / STRIP * STRIP * depth.len() + row % STRIP..], STRIP),
                    };
                    let rows = &mut self.window.rows[block.clone()];
                    let mut tiles = Tiles { by_columns: left.by_columns, tile, depth: depth.len(), column, add };
                    let mut row = 0;
                    while row + ROWS <= rows.len() {
                        tiles.block::<S, ROWS>(simd, factors(row), &mut rows[row..row + ROWS]);
                        row += ROWS;
                    }
                    while row + 4 <= rows.len() {
                        tiles.block::<S, 4>(simd, factors(row), &mut rows[row..row + 4]);
                        row += 4;
                    }
                    if row + 2 <= rows.len() {
                        tiles.block::<S, 2>(simd, factors(row), &mut rows[row..row + 2]);
                        row += 2;
                    }
                    if row < rows.len() {
                        tiles.block::<S, 1>(simd, factors(row), &mut rows[row..]);
                    }
                }
            }
        }
    }
}

/// Copies part of some rows: row after row, or, if the matrix is stored by columns, in strips of [`STRIP`] rows that are
/// stored by columns.
#[inline(always)]
fn pack_block(left: &Left<'_>, rows: Range<usize>, depth: &Range<usize>, block: &mut [f32]) {
    if !left.by_columns {
        for (row, to) in rows.zip(block.chunks_exact_mut(depth.len())) {
            to.copy_from_slice(&left.numbers[row * left.depth..][depth.clone()]);
        }
        return;
    }
    for (p, at) in depth.clone().enumerate() {
        let from = &left.numbers[at * left.rows..][rows.clone()];
        for (strip, from) in from.chunks(STRIP).enumerate() {
            block[(strip * depth.len() + p) * STRIP..][..from.len()].copy_from_slice(from);
        }
    }
}

/// What all blocks of one panel and one part of the depth share.
struct Tiles<'a> {
    by_columns: bool,
    tile: &'a [f32],
    depth: usize,
    /// Where the panel begins in the rows of the window.
    column: usize,
    /// The sums go on from what is there.
    add: bool,
}

impl Tiles<'_> {
    /// `ROWS` rows of the panel's columns. `left` is where the first of them begins, and how far it is to the next row or,
    /// by columns, to the next place of the depth.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize>(&mut self, simd: S, left: (&[f32], usize), rows: &mut [&mut [f32]]) {
        let (vectors, _) = S::as_simd_f32s(self.tile);
        let per_row = PANEL / S::F32_LANES;
        let columns = rows[0].len();
        for pair in (0..per_row).step_by(2) {
            let at = self.column + pair * S::F32_LANES;
            let (first_end, second_end) = (columns.min(at + S::F32_LANES), columns.min(at + 2 * S::F32_LANES));
            if at >= columns {
                break;
            }
            let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
            if self.add {
                for r in 0..ROWS {
                    sums[r][0] = simd.partial_load_f32s(&rows[r][at..first_end]);
                    sums[r][1] = simd.partial_load_f32s(&rows[r][first_end..second_end]);
                }
            }
            let sums = if self.by_columns {
                sum_columns(simd, left, self.depth, vectors, per_row, pair, sums)
            } else {
                sum_rows(simd, left, self.depth, vectors, per_row, pair, sums)
            };
            for r in 0..ROWS {
                simd.partial_store_f32s(&mut rows[r][at..first_end], sums[r][0]);
                simd.partial_store_f32s(&mut rows[r][first_end..second_end], sums[r][1]);
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
        let (rows, depth, columns) = (ROW_BLOCK + 13, DEPTH_BLOCK + 5, WORTH_PACKING + 3);
        let (left, right) = (numbers(5, rows * depth), numbers(6, depth * columns));
        let mut packed = PackedMatrix::default();
        packed.pack(&right, depth, columns);
        let products = || {
            let mut products = [(); 4].map(|()| vec![0.0; rows * columns]);
            let [plain, unpacked, added, transposed] = &mut products;
            multiply(&left, rows, &packed, plain);
            multiply_unpacked(&left, rows, &right, columns, unpacked);
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
            let mut unpacked = vec![f32::NAN; rows * columns];
            multiply_unpacked(&left, rows, &right, columns, &mut unpacked);
            let mut added = vec![1.0; rows * columns];
            multiply_add(&left, rows, &packed, &mut added);
            let mut added_transposed = vec![1.0; rows * columns];
            transposed_multiply_add(&transpose(&left, rows, depth), rows, &packed, &mut added_transposed);

            for at in 0..rows * columns {
                prop_assert!((f64::from(plain[at]) - expected[at]).abs() < 1e-5);
                prop_assert!((f64::from(added[at]) - expected[at] - 1.0).abs() < 1e-5);
            }
            prop_assert_eq!(&from_transposed, &plain);
            prop_assert_eq!(&unpacked, &plain);
            prop_assert_eq!(&added_transposed, &added);
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
