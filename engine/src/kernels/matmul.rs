use pulp::{Arch, Simd, WithSimd};

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
/// Each number of the product is summed over the depth in order, however many rows there are.
pub(crate) fn multiply(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Arch::new().dispatch(Product { left, rows, right, product, transposed: false, accumulate: false });
}

/// `product += left · right`; shapes as for [`multiply`].
pub(crate) fn multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Arch::new().dispatch(Product { left, rows, right, product, transposed: false, accumulate: true });
}

/// `product += leftᵀ · right`, with `left` row-major `[depth, rows]`.
pub(crate) fn transposed_multiply_add(left: &[f32], rows: usize, right: &PackedMatrix, product: &mut [f32]) {
    Arch::new().dispatch(Product { left, rows, right, product, transposed: true, accumulate: true });
}

struct Product<'a> {
    left: &'a [f32],
    rows: usize,
    right: &'a PackedMatrix,
    product: &'a mut [f32],
    transposed: bool,
    accumulate: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // Eight rows by two vectors need 19 registers; processors with short vectors have 16.
        if S::F32_LANES >= 16 { self.run::<S, 8>(simd) } else { self.run::<S, 4>(simd) }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(&mut self, simd: S) {
        let depth = self.right.depth;
        assert_eq!(self.left.len(), self.rows * depth);
        assert_eq!(self.product.len(), self.rows * self.right.columns);
        if depth == 0 {
            return;
        }
        let right = self.right;
        for (index, panel) in right.panels.chunks_exact(depth * PANEL).enumerate() {
            let mut row = 0;
            while row + ROWS <= self.rows {
                self.block::<S, ROWS>(simd, panel, index * PANEL, row);
                row += ROWS;
            }
            if ROWS > 4 && row + 4 <= self.rows {
                self.block::<S, 4>(simd, panel, index * PANEL, row);
                row += 4;
            }
            if row + 2 <= self.rows {
                self.block::<S, 2>(simd, panel, index * PANEL, row);
                row += 2;
            }
            if row < self.rows {
                self.block::<S, 1>(simd, panel, index * PANEL, row);
            }
        }
    }

    /// `ROWS` rows of one panel's columns.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize>(&mut self, simd: S, panel: &[f32], column: usize, row: usize) {
        let (columns, depth) = (self.right.columns, self.right.depth);
        let (vectors, _) = S::as_simd_f32s(panel);
        let per_row = PANEL / S::F32_LANES;
        for pair in (0..per_row).step_by(2) {
            let at = column + pair * S::F32_LANES;
            let (first_end, second_end) = (columns.min(at + S::F32_LANES), columns.min(at + 2 * S::F32_LANES));
            if at >= columns {
                break;
            }
            let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
            if self.accumulate {
                for r in 0..ROWS {
                    let from = &self.product[(row + r) * columns..][..columns];
                    sums[r][0] = simd.partial_load_f32s(&from[at..first_end]);
                    sums[r][1] = simd.partial_load_f32s(&from[first_end..second_end]);
                }
            }
            let sums = if self.transposed {
                sum_columns(simd, self.left, self.rows, row, depth, vectors, per_row, pair, sums)
            } else {
                sum_rows(simd, &self.left[row * depth..][..ROWS * depth], depth, vectors, per_row, pair, sums)
            };
            for r in 0..ROWS {
                let to = &mut self.product[(row + r) * columns..][..columns];
                simd.partial_store_f32s(&mut to[at..first_end], sums[r][0]);
                simd.partial_store_f32s(&mut to[first_end..second_end], sums[r][1]);
            }
        }
    }
}

/// Adds the products of `ROWS` rows of `left` with a pair of a panel's vector columns.
#[inline(always)]
fn sum_rows<S: Simd, const ROWS: usize>(
    simd: S,
    left: &[f32],
    depth: usize,
    vectors: &[S::f32s],
    per_row: usize,
    pair: usize,
    mut sums: [[S::f32s; 2]; ROWS],
) -> [[S::f32s; 2]; ROWS] {
    let mut rows = [left; ROWS];
    for r in 0..ROWS {
        rows[r] = &left[r * depth..][..depth];
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

/// The same for `ROWS` columns of `left`, `stride` numbers to a row, from column `start` on.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // a struct for one caller would hide what the loop reads
fn sum_columns<S: Simd, const ROWS: usize>(
    simd: S,
    left: &[f32],
    stride: usize,
    start: usize,
    depth: usize,
    vectors: &[S::f32s],
    per_row: usize,
    pair: usize,
    mut sums: [[S::f32s; 2]; ROWS],
) -> [[S::f32s; 2]; ROWS] {
    for p in 0..depth {
        let right = &vectors[p * per_row + pair..][..2];
        let factors = &left[p * stride + start..][..ROWS];
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

            for at in 0..rows * columns {
                prop_assert!((f64::from(plain[at]) - expected[at]).abs() < 1e-5);
                prop_assert!((f64::from(added[at]) - expected[at] - 1.0).abs() < 1e-5);
            }
            prop_assert_eq!(&from_transposed, &plain);
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
