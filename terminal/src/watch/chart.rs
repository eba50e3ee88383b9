//! Curves in a terminal's cells: each cell has eight dots of braille.

use crossterm::style::Color;

use super::grid::{Area, Grid, Span};

/// The first character of braille, without a dot.
const EMPTY: u32 = 0x2800;
/// The bit of each dot of a character, by row and column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// A curve: its name, colour and points.
pub(super) struct Curve<'a> {
    /// What it is called.
    pub(super) name: &'a str,
    /// The colour of its name and its line.
    pub(super) colour: Color,
    /// Its points, from left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws curves into an area, with axes and the numbers at their ends. Points that are not finite interrupt a curve.
pub(super) fn draw_curves(grid: &mut Grid, area: Area, curves: &[Curve<'_>]) {
    let (x, y) = (ends(curves, |point| point.0), ends(curves, |point| point.1));
    let label = |value: f64| if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let [lowest, highest] = y.map(label);
    let left = lowest.len().max(highest.len()).min(area.width / 3);
    if area.height < 3 || area.width < left + 2 {
        return;
    }
    let plot =
        Area { left: area.left + left + 1, top: area.top, width: area.width - left - 1, height: area.height - 2 };
    let axis = area.top + plot.height;
    grid.write(area.left, axis - 1, left, &[Span::plain(format!("{lowest:>left$}"))]);
    grid.write(area.left, area.top, left, &[Span::plain(format!("{highest:>left$}"))]);
    for row in area.top..axis {
        grid.write(plot.left - 1, row, 1, &[Span::plain("│")]);
    }
    grid.write(plot.left - 1, axis, plot.width + 1, &[Span::plain(format!("└{}", "─".repeat(plot.width)))]);
    let [first, last] = x.map(|value| format!("{value:.0}"));
    grid.write(plot.left - 1, axis + 1, plot.width + 1, &[Span::plain(first)]);
    let right = plot.width.saturating_sub(last.len());
    grid.write(plot.left + right, axis + 1, last.len(), &[Span::plain(last)]);

    let mut dots = Dots::new(plot.width, plot.height);
    for curve in curves {
        let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let place = |point: &(f64, f64)| dots.place(*point, x, y);
        let alone: Vec<_> = curve.points.iter().filter(finite).map(place).collect();
        let pairs = curve.points.windows(2).filter(|pair| pair.iter().all(|point| finite(&point)));
        let lines: Vec<_> = pairs.map(|pair| (place(&pair[0]), place(&pair[1]))).collect();
        alone.into_iter().for_each(|at| dots.paint(at, curve.colour));
        lines.into_iter().for_each(|(from, to)| dots.line(from, to, curve.colour));
    }
    dots.write(grid, plot);
}

/// The least and the greatest of a coordinate, with room where they are the same.
fn ends(curves: &[Curve<'_>], part: fn((f64, f64)) -> f64) -> [f64; 2] {
    let points = curves.iter().flat_map(|curve| &curve.points).filter(|(_, value)| value.is_finite());
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    let (least, greatest) =
        points.map(|point| part(*point)).fold(none, |(least, most), value| (least.min(value), most.max(value)));
    if greatest > least {
        [least, greatest]
    } else if least.is_finite() {
        [least - 0.5, least + 0.5]
    } else {
        [0.0, 1.0]
    }
}

/// The dots of an area, two in the width and four in the height of each cell.
struct Dots {
    columns: usize,
    rows: usize,
    /// The dots of each cell, and the colour that was painted last.
    cells: Vec<(u32, Option<Color>)>,
}

impl Dots {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, cells: vec![(0, None); columns * rows] }
    }

    /// Where a point is between the ends of the axes, counted in dots from the upper left.
    fn place(&self, (x, y): (f64, f64), [left, right]: [f64; 2], [bottom, top]: [f64; 2]) -> (i64, i64) {
        let (last_column, last_row) = ((self.columns * 2 - 1) as f64, (self.rows * 4 - 1) as f64);
        let column = (x - left) * last_column / (right - left);
        let row = (top - y) * last_row / (top - bottom);
        (column.round() as i64, row.round() as i64)
    }

    fn paint(&mut self, (x, y): (i64, i64), colour: Color) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.columns * 2 && y < self.rows * 4 {
            let cell = &mut self.cells[y / 4 * self.columns + x / 2];
            // A cell has one colour. The curve that comes last has it alone, or its neighbour's dots would seem its own.
            let before = if cell.1 == Some(colour) { cell.0 } else { 0 };
            *cell = (before | DOTS[y % 4][x % 2], Some(colour));
        }
    }

    /// The dots nearest to a line, one in each step along the longer direction (Bresenham).
    fn line(&mut self, from: (i64, i64), to: (i64, i64), colour: Color) {
        let (across, down) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
        let is_steep = down >= across;
        // The longer direction first, ascending.
        let turned = |(x, y): (i64, i64)| if is_steep { (y, x) } else { (x, y) };
        let (first, last) = (turned(from).min(turned(to)), turned(from).max(turned(to)));
        let (long, short) = (last.0 - first.0, (last.1 - first.1).abs());
        let step = (last.1 - first.1).signum();
        let (mut error, mut aside) = (2 * short - long, first.1);
        for along in first.0..=last.0 {
            self.paint(turned((along, aside)), colour);
            if error > 0 {
                aside += step;
                error -= 2 * long;
            }
            error += 2 * short;
        }
    }

    fn write(&self, grid: &mut Grid, area: Area) {
        for (index, (dots, colour)) in self.cells.iter().enumerate() {
            if let (Some(character), Some(colour)) = (char::from_u32(EMPTY + dots), colour) {
                let (column, row) = (index % self.columns, index / self.columns);
                grid.write(area.left + column, area.top + row, 1, &[Span::coloured(character, *colour)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: Vec<(f64, f64)>, width: usize, height: usize) -> Vec<String> {
        let mut grid = Grid::new(width, height);
        let area = grid.area();
        draw_curves(&mut grid, area, &[Curve { name: "", colour: Color::Green, points }]);
        grid.lines().collect()
    }

    #[test]
    fn a_point_that_is_not_finite_interrupts_its_curve() {
        let whole = drawn(vec![(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], 20, 6);
        let broken = drawn(vec![(0.0, 0.0), (1.0, f64::NAN), (2.0, 2.0), (3.0, 3.0)], 20, 6);
        let dots = |lines: &[String]| lines.concat().chars().filter(|c| *c > '\u{2800}').count();
        assert!(dots(&broken) < dots(&whole), "{broken:?}");
    }

    #[test]
    fn a_single_point_and_no_point_are_drawn_where_there_is_room_and_nothing_where_there_is_none() {
        assert!(drawn(vec![(3.0, 0.5)], 20, 6).concat().chars().any(|c| c > '\u{2800}'));
        assert!(drawn(Vec::new(), 20, 6)[0].contains("1.000"));
        for (width, height) in [(0, 0), (1, 9), (3, 2), (2, 3), (20, 1)] {
            drawn(vec![(0.0, 0.0), (1.0, 1.0)], width, height);
        }
    }
}
