//! The two matrices of a product, as the product takes them: parts of them, gathered where they do not stand so.

use std::ops::Range;

use super::packed_matrix::{Element, PANEL, PackedMatrix, Panels};

/// A matrix `[rows, depth]`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// It is stored as `[depth, rows]`.
    pub(super) by_columns: bool,
}

impl<'a> Left<'a> {
    pub(super) fn of_rows(numbers: &'a [f32], rows: usize) -> Self {
        Self { numbers, rows, depth: numbers.len() / rows.max(1), by_columns: false }
    }

    pub(super) fn of_columns(numbers: &'a [f32], rows: usize) -> Self {
        Self { by_columns: true, ..Self::of_rows(numbers, rows) }
    }

    /// Copies part of some rows as tiles read them: strips of `ROWS` rows, then of 4, 2 and 1, each by columns.
    #[inline(always)]
    pub(super) fn pack_block<const ROWS: usize>(&self, rows: Range<usize>, depth: &Range<usize>, block: &mut [f32]) {
        if self.by_columns {
            self.pack_columns::<ROWS>(rows, depth, block);
            return;
        }
        let whole = rows.start + rows.len() / ROWS * ROWS;
        let mut row = rows.start;
        while row < rows.end {
            let to = &mut block[(row - rows.start) * depth.len()..];
            row += match rows.end - row {
                _ if row < whole => self.pack_rows::<ROWS>(row, depth, to),
                4.. => self.pack_rows::<4>(row, depth, to),
                2.. => self.pack_rows::<2>(row, depth, to),
                _ => self.pack_rows::<1>(row, depth, to),
            };
        }
    }

    /// A strip of rows, of which this says how many.
    #[inline(always)]
    fn pack_rows<const ROWS: usize>(&self, row: usize, depth: &Range<usize>, strip: &mut [f32]) -> usize {
        let mut rows = [self.numbers; ROWS];
        for r in 0..ROWS {
            rows[r] = &self.numbers[(row + r) * self.depth..][depth.clone()];
        }
        let (places, _) = strip.as_chunks_mut::<ROWS>();
        let places = &mut places[..depth.len()];
        for p in 0..places.len() {
            for r in 0..ROWS {
                places[p][r] = rows[r][p];
            }
        }
        ROWS
    }

    #[inline(always)]
    fn pack_columns<const ROWS: usize>(&self, rows: Range<usize>, depth: &Range<usize>, block: &mut [f32]) {
        let whole = rows.len() / ROWS * ROWS;
        for (p, at) in depth.clone().enumerate() {
            let numbers = &self.numbers[at * self.rows..][rows.clone()];
            let (strips, _) = numbers.as_chunks::<ROWS>();
            for strip in 0..strips.len() {
                block[(strip * depth.len() + p) * ROWS..][..ROWS].copy_from_slice(&strips[strip]);
            }
            let mut row = whole;
            while row < numbers.len() {
                let size = match numbers.len() - row {
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                block[row * depth.len() + p * size..][..size].copy_from_slice(&numbers[row..row + size]);
                row += size;
            }
        }
    }
}

/// A matrix `[depth, columns]`: a packed one, or its transpose.
#[derive(Clone, Copy)]
pub(super) struct Right<'a> {
    matrix: &'a PackedMatrix,
    transposed: bool,
    pub(super) depth: usize,
    pub(super) columns: usize,
}

impl<'a> Right<'a> {
    pub(super) fn of(matrix: &'a PackedMatrix) -> Self {
        Self { matrix, transposed: false, depth: matrix.depth, columns: matrix.columns }
    }

    pub(super) fn of_transpose(matrix: &'a PackedMatrix) -> Self {
        Self { matrix, transposed: true, depth: matrix.columns, columns: matrix.depth }
    }

    /// Part of the depth of some columns of a window that starts at `start`, gathered in `tiles` where it does not stand so.
    #[inline(always)]
    pub(super) fn panels<'b>(
        &'b self,
        start: usize,
        columns: &Range<usize>,
        depth: &Range<usize>,
        tiles: &'b mut [f32],
    ) -> TilePanels<'b> {
        let first = (start + columns.start) / PANEL;
        if let (Panels::Single(numbers), false) = (&self.matrix.panels, self.transposed) {
            let numbers = &numbers[(first * self.depth + depth.start) * PANEL..];
            return TilePanels { numbers, stride: self.depth * PANEL };
        }
        let stride = depth.len() * PANEL;
        for (panel, tile) in (first..first + columns.len().div_ceil(PANEL)).zip(tiles.chunks_exact_mut(stride)) {
            let place = (panel * self.depth + depth.start) * PANEL..(panel * self.depth + depth.end) * PANEL;
            match (&self.matrix.panels, self.transposed) {
                (Panels::Single(numbers), false) => tile.copy_from_slice(&numbers[place]),
                (Panels::Half(numbers), false) => widen_tile(&numbers[place], tile),
                (Panels::Single(numbers), true) => self.transpose_tile(numbers, panel, depth, tile),
                (Panels::Half(numbers), true) => self.transpose_tile(numbers, panel, depth, tile),
            }
        }
        TilePanels { numbers: tiles, stride }
    }

    /// The depth begins between two of the matrix's own panels, of which a tile takes square blocks.
    #[inline(always)]
    fn transpose_tile<E: Element>(&self, numbers: &[E], panel: usize, depth: &Range<usize>, tile: &mut [f32]) {
        let start = panel * PANEL;
        let width = PANEL.min(self.columns - start);
        let first = depth.start / PANEL;
        let (blocks, rest) = tile[..depth.len() * PANEL].as_chunks_mut::<{ PANEL * PANEL }>();
        for index in 0..blocks.len() {
            let from = &numbers[((first + index) * self.columns + start) * PANEL..][..width * PANEL];
            match from.as_array() {
                Some(from) => transpose_block(from, &mut blocks[index]),
                None => transpose_part(from, &mut blocks[index]),
            }
        }
        if !rest.is_empty() {
            let from = &numbers[((first + blocks.len()) * self.columns + start) * PANEL..][..width * PANEL];
            transpose_part(from, rest);
        }
    }
}

/// A whole block, both sides of which are [`PANEL`].
#[inline(always)]
fn transpose_block<E: Element>(from: &[E; PANEL * PANEL], to: &mut [f32; PANEL * PANEL]) {
    for row in 0..PANEL {
        for column in 0..PANEL {
            to[row * PANEL + column] = from[column * PANEL + row].whole();
        }
    }
}

/// Some columns of a block, or some rows of it.
#[inline(always)]
fn transpose_part<E: Element>(from: &[E], to: &mut [f32]) {
    for (row, to) in to.chunks_exact_mut(PANEL).enumerate() {
        for column in 0..from.len() / PANEL {
            to[column] = from[column * PANEL + row].whole();
        }
    }
}

/// Part of the depth of panels that follow one another.
pub(super) struct TilePanels<'a> {
    numbers: &'a [f32],
    /// From one panel to the next.
    stride: usize,
}

impl TilePanels<'_> {
    /// So much of the depth of one of them.
    #[inline(always)]
    pub(super) fn tile(&self, index: usize, depth: usize) -> &[f32] {
        &self.numbers[index * self.stride..][..depth * PANEL]
    }
}

#[inline(always)]
fn widen_tile(halves: &[u16], tile: &mut [f32]) {
    let tile = &mut tile[..halves.len()];
    for at in 0..halves.len() {
        tile[at] = halves[at].whole();
    }
}
