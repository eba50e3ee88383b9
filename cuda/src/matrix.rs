use std::ops::Range;

use crate::DeviceMatrix;
use crate::driver::Region;

/// A matrix as one of the two of a product.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) numbers: Numbers<'a>,
    /// Of the rows as they are stored.
    width: usize,
    height: usize,
    transposed: bool,
}

/// Where a matrix's numbers are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers<'a> {
    Sent(&'a [f32]),
    Resident(&'a DeviceMatrix),
}

impl<'a> Matrix<'a> {
    /// A row-major matrix with rows of `width` that is sent to the device.
    pub fn sent(numbers: &'a [f32], width: usize) -> Self {
        Self { numbers: Numbers::Sent(numbers), width, height: height(numbers.len(), width), transposed: false }
    }

    /// A matrix that is there already.
    pub fn resident(matrix: &'a DeviceMatrix) -> Self {
        let (width, height) = (matrix.width, height(matrix.len(), matrix.width));
        Self { numbers: Numbers::Resident(matrix), width, height, transposed: false }
    }

    /// Its transpose, without moving a number.
    pub fn transposed(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    pub(crate) fn rows(&self) -> usize {
        if self.transposed { self.width } else { self.height }
    }

    pub(crate) fn columns(&self) -> usize {
        if self.transposed { self.height } else { self.width }
    }

    /// Neighbours in memory are neighbours within a row.
    pub(crate) fn along_rows(&self) -> bool {
        !self.transposed
    }

    /// Where some rows and columns are stored.
    pub(crate) fn region(&self, rows: Range<usize>, columns: Range<usize>) -> Region {
        let (lines, within) = if self.transposed { (columns, rows) } else { (rows, columns) };
        Region {
            start: lines.start * self.width + within.start,
            stride: self.width,
            lines: lines.len(),
            width: within.len(),
        }
    }
}

/// Rows of a matrix, each of `width`.
pub(crate) fn height(numbers: usize, width: usize) -> usize {
    let height = numbers / width.max(1);
    assert_eq!(height * width, numbers, "a matrix is of whole rows");
    height
}
