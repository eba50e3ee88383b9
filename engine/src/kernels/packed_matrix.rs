/// Columns of a panel: a multiple of every vector width.
pub(super) const PANEL: usize = 32;

/// What the numbers of a matrix are held as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// 32 bits.
    Single,
    /// bfloat16: the upper halves of numbers whose lower halves are 0, so nothing is lost.
    Half,
}

impl Precision {
    /// Bytes of a number.
    fn width(self) -> usize {
        match self {
            Self::Single => size_of::<f32>(),
            Self::Half => size_of::<u16>(),
        }
    }
}

/// A matrix `[depth, columns]`, cut into panels of [`PANEL`] columns that each lie row after row, so that a product
/// reads it from end to end. What fills up the last panel reaches no product.
#[derive(Clone, Debug)]
pub(crate) struct PackedMatrix {
    pub(super) panels: Panels,
    pub(super) depth: usize,
    pub(super) columns: usize,
}

/// Their numbers.
#[derive(Clone, Debug)]
pub(super) enum Panels {
    Single(Vec<f32>),
    Half(Vec<u16>),
}

impl Default for PackedMatrix {
    fn default() -> Self {
        Self::new(0, 0, Precision::Single)
    }
}

impl PackedMatrix {
    /// One of zeros.
    pub(crate) fn new(depth: usize, columns: usize, precision: Precision) -> Self {
        let count = Self::count(depth, columns);
        let panels = match precision {
            Precision::Single => Panels::Single(vec![0.0; count]),
            Precision::Half => Panels::Half(vec![0; count]),
        };
        Self { panels, depth, columns }
    }

    /// Bytes that a matrix of this size takes.
    pub(crate) fn bytes(depth: usize, columns: usize, precision: Precision) -> usize {
        Self::count(depth, columns) * precision.width()
    }

    /// Numbers in the panels.
    fn count(depth: usize, columns: usize) -> usize {
        depth * columns.next_multiple_of(PANEL)
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Takes over a row-major `[depth, columns]` matrix, keeping the memory it has.
    pub(crate) fn pack(&mut self, matrix: &[f32], depth: usize, columns: usize) {
        let panels = self.resize(depth, columns);
        for (index, panel) in panels.chunks_exact_mut(depth * PANEL).enumerate() {
            let start = index * PANEL;
            let (rows, _) = panel.as_chunks_mut::<PANEL>();
            for (row, matrix) in rows.iter_mut().zip(matrix.chunks_exact(columns)) {
                match matrix[start..].first_chunk::<PANEL>() {
                    Some(whole) => *row = *whole,
                    None => row[..columns - start].copy_from_slice(&matrix[start..]),
                }
            }
        }
    }

    /// Takes over the transpose of a row-major `[columns, depth]` matrix, which is how Hugging Face stores a layer.
    pub(crate) fn pack_transposed(&mut self, matrix: &[f32], depth: usize, columns: usize) {
        self.resize(depth, columns);
        self.put_columns(0, matrix);
    }

    /// Numbers of 32 bits for a matrix of this size. What they are is left to the caller.
    fn resize(&mut self, depth: usize, columns: usize) -> &mut [f32] {
        (self.depth, self.columns) = (depth, columns);
        self.widen();
        let Panels::Single(numbers) = &mut self.panels else { return &mut [] };
        numbers.resize(Self::count(depth, columns), 0.0);
        numbers
    }

    /// Its panels, from the first columns on, to be changed apart from each other. From then on each number has 32 bits.
    pub(crate) fn panels(&mut self) -> impl Iterator<Item = Panel<'_>> {
        self.widen();
        let (depth, columns) = (self.depth, self.columns);
        let panels: &mut [f32] = match &mut self.panels {
            Panels::Single(panels) => panels,
            Panels::Half(_) => &mut [],
        };
        let widths = (0..columns).step_by(PANEL).map(move |first| PANEL.min(columns - first));
        panels.chunks_exact_mut(depth * PANEL).zip(widths).map(move |(numbers, width)| Panel { numbers, depth, width })
    }

    /// Makes its numbers ones of 32 bits, so that any can be put into it.
    pub(super) fn widen(&mut self) {
        if let Panels::Half(numbers) = &self.panels {
            self.panels = Panels::Single(numbers.iter().copied().map(Element::whole).collect());
        }
    }

    /// Takes over columns from `first` on, each laid out one after another. Where it holds halves, the numbers must be
    /// bfloat16's.
    pub(crate) fn put_columns(&mut self, first: usize, numbers: &[f32]) {
        match &mut self.panels {
            Panels::Single(panels) => put_columns(panels, self.depth, first, numbers),
            Panels::Half(panels) => put_columns(panels, self.depth, first, numbers),
        }
    }

    /// Writes columns from `first` on into `numbers`, one after another.
    pub(crate) fn columns_from(&self, first: usize, numbers: &mut [f32]) {
        match &self.panels {
            Panels::Single(panels) => columns_from(panels, self.depth, first, numbers),
            Panels::Half(panels) => columns_from(panels, self.depth, first, numbers),
        }
    }
}

/// Some columns of a packed matrix.
pub(crate) struct Panel<'a> {
    numbers: &'a mut [f32],
    depth: usize,
    /// How many columns.
    width: usize,
}

impl Panel<'_> {
    /// How many numbers its columns have.
    pub(crate) fn count(&self) -> usize {
        self.depth * self.width
    }

    /// Shows the columns, one after another, to be changed.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut [f32])) {
        let mut columns = vec![0.0; self.count()];
        panel_columns(self.numbers, self.depth, 0, &mut columns);
        change(&mut columns);
        put_panel(self.numbers, self.depth, 0, &columns);
    }
}

/// A number as a panel holds it.
pub(super) trait Element: Copy {
    fn of(number: f32) -> Self;
    fn whole(self) -> f32;
}

impl Element for f32 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        number
    }

    #[inline(always)]
    fn whole(self) -> f32 {
        self
    }
}

impl Element for u16 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        (number.to_bits() >> 16) as u16
    }

    #[inline(always)]
    fn whole(self) -> f32 {
        f32::from_bits(u32::from(self) << 16)
    }
}

fn put_columns<E: Element>(panels: &mut [E], depth: usize, first: usize, numbers: &[f32]) {
    let (mut first, mut numbers) = (first, numbers);
    while !numbers.is_empty() {
        let start = first % PANEL;
        let (own, later) = numbers.split_at(numbers.len().min((PANEL - start) * depth));
        put_panel(&mut panels[first / PANEL * PANEL * depth..][..PANEL * depth], depth, start, own);
        (first, numbers) = (first - start + PANEL, later);
    }
}

fn columns_from<E: Element>(panels: &[E], depth: usize, first: usize, numbers: &mut [f32]) {
    let (mut first, mut numbers) = (first, numbers);
    while !numbers.is_empty() {
        let start = first % PANEL;
        let (own, later) = numbers.split_at_mut(numbers.len().min((PANEL - start) * depth));
        panel_columns(&panels[first / PANEL * PANEL * depth..][..PANEL * depth], depth, start, own);
        (first, numbers) = (first - start + PANEL, later);
    }
}

/// Rows of a panel that are gone through with all columns before the next ones: a cache line of each column.
const LINE_ROWS: usize = 16;

/// Writes columns of one panel, from the one at `start` on.
fn put_panel<E: Element>(panel: &mut [E], depth: usize, start: usize, numbers: &[f32]) {
    for (block, panel) in panel.chunks_mut(LINE_ROWS * PANEL).enumerate() {
        for (column, numbers) in (start..).zip(numbers.chunks_exact(depth)) {
            for (row, number) in panel.chunks_exact_mut(PANEL).zip(&numbers[block * LINE_ROWS..]) {
                row[column] = E::of(*number);
            }
        }
    }
}

/// Reads columns of one panel, from the one at `start` on.
fn panel_columns<E: Element>(panel: &[E], depth: usize, start: usize, numbers: &mut [f32]) {
    for (block, panel) in panel.chunks(LINE_ROWS * PANEL).enumerate() {
        for (column, numbers) in (start..).zip(numbers.chunks_exact_mut(depth)) {
            for (row, number) in panel.chunks_exact(PANEL).zip(&mut numbers[block * LINE_ROWS..]) {
                *number = row[column].whole();
            }
        }
    }
}
