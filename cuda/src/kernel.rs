//! How a product is cut into parts that fit into the workspace, and a part into the blocks of a kernel.

use std::ffi::CStr;
use std::ops::Range;

use crate::WORKSPACE;

/// One of the kernels in `products.cu`, by the size of what a block of its threads computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: &'static CStr,
    rows: usize,
    columns: usize,
    pub(crate) threads: u32,
}

/// For many rows.
pub(crate) const LARGE: Kernel = Kernel { name: c"multiply_large", rows: 128, columns: 128, threads: 256 };

/// For as few as sequences are sampled together.
pub(crate) const FLAT: Kernel = Kernel { name: c"multiply_flat", rows: 16, columns: 64, threads: 64 };

/// Rows up to which the flat one is taken. It reads the right matrix once for every 16 of them.
const FLAT_ROWS: usize = 32;

impl Kernel {
    /// The better one for so many rows; both give the same bits.
    pub(crate) fn for_rows(rows: usize) -> Self {
        if rows <= FLAT_ROWS { FLAT } else { LARGE }
    }

    /// Blocks across the columns, and down the rows.
    pub(crate) fn grid(&self, rows: usize, columns: usize) -> (usize, usize) {
        (columns.div_ceil(self.columns), rows.div_ceil(self.rows))
    }
}

/// Columns, and rows, that a part of a product has at most. Blocks down the rows are counted in 16 bits.
const PART_COLUMNS: usize = 1 << 20;
const PART_ROWS: usize = 1 << 16;

/// A part of a product, and a part of the depth whose products are added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    pub(crate) depth: Range<usize>,
}

/// Cuts a product into parts of whose matrices each has at most [`WORKSPACE`] numbers. The parts of the depth follow each
/// other in order, so that a number's sum goes on from part to part as if it were not cut. A right matrix that is not sent
/// takes no room.
pub(crate) fn parts(rows: usize, depth: usize, columns: usize, right_is_sent: bool) -> impl Iterator<Item = Part> {
    let part_columns = columns.clamp(1, PART_COLUMNS);
    let part_rows = rows.clamp(1, PART_ROWS.min(WORKSPACE / part_columns));
    let part_depth = depth.clamp(1, WORKSPACE / if right_is_sent { part_columns.max(part_rows) } else { part_rows });
    cut(rows, part_rows).flat_map(move |rows| {
        cut(columns, part_columns).flat_map(move |columns| {
            let rows = rows.clone();
            cut(depth, part_depth).map(move |depth| Part { rows: rows.clone(), columns: columns.clone(), depth })
        })
    })
}

fn cut(length: usize, part: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(part).map(move |start| start..length.min(start + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_one_part() {
        let expected = Part { rows: 0..16, columns: 0..6144, depth: 0..1024 };
        assert_eq!(parts(16, 1024, 6144, true).collect::<Vec<_>>(), [expected]);
        assert_eq!(parts(16, 1024, 151_936, true).count(), 5);
        assert_eq!(parts(16, 1024, 151_936, false).count(), 1);
    }

    #[test]
    fn parts_fit_cover_the_product_once_and_take_the_depth_in_order() {
        for (rows, depth, columns) in [(151_936, 256, 1024), (256, 151_936, 1024), (70_000, 40_000, 3), (3, 9, 3 << 20)]
        {
            let (mut covered, mut reached) = (0, 0);
            for Part { rows: r, columns: c, depth: d } in parts(rows, depth, columns, true) {
                for numbers in [r.len() * c.len(), r.len() * d.len(), d.len() * c.len()] {
                    assert!(0 < numbers && numbers <= WORKSPACE, "{rows} {depth} {columns}");
                }
                assert!(Kernel::for_rows(r.len()).grid(r.len(), c.len()).1 <= usize::from(u16::MAX));
                assert_eq!(d.start, if d.start == 0 { 0 } else { reached });
                reached = d.end;
                if reached == depth {
                    covered += r.len() * c.len();
                }
            }
            assert_eq!(covered, rows * columns);
        }
    }

    #[test]
    fn there_is_no_part_of_nothing() {
        assert_eq!(parts(0, 5, 5, true).count() + parts(5, 5, 0, true).count() + parts(5, 0, 5, true).count(), 0);
    }
}
