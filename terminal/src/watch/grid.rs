//! A terminal's cells, which a picture is drawn into before the terminal shows it.

use std::io::{self, Write};

use crossterm::cursor::MoveTo;
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use unicode_width::UnicodeWidthChar;

/// How a cell's text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The colour; `None` is the terminal's own.
    pub colour: Option<Color>,
    /// Bold or dim, where it is one of these.
    pub weight: Option<Weight>,
}

/// Text that stands out more or less than other text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It stands out more.
    Bold,
    /// It stands out less.
    Dim,
}

/// Text of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text, on one line.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

impl Span {
    /// Text as the terminal has it.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: Style::default() }
    }

    /// Coloured text.
    pub fn coloured(text: impl Into<String>, colour: Color) -> Self {
        Self { text: text.into(), style: Style { colour: Some(colour), weight: None } }
    }

    /// Text that stands out more or less.
    pub fn weighted(text: impl Into<String>, weight: Weight) -> Self {
        Self { text: text.into(), style: Style { colour: None, weight: Some(weight) } }
    }
}

/// A part of the screen, in cells from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first column.
    pub left: usize,
    /// The first row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Area {
    /// What a border around it leaves.
    pub fn within_border(self) -> Self {
        Self {
            left: self.left + 1,
            top: self.top + 1,
            width: self.width.saturating_sub(2),
            height: self.height.saturating_sub(2),
        }
    }
}

/// A cell: its character with what is put on top of it, and its style. It is empty behind a character of two columns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    text: String,
    style: Style,
}

/// A screen's cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    width: usize,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// An empty screen.
    pub fn new(width: usize, height: usize) -> Self {
        let blank = Cell { text: " ".to_owned(), style: Style::default() };
        Self { width, rows: vec![vec![blank; width]; height] }
    }

    /// All of it.
    pub fn area(&self) -> Area {
        Area { left: 0, top: 0, width: self.width, height: self.rows.len() }
    }

    /// Writes spans one behind the other into one row, cut off after `width` columns. What is outside is not drawn.
    pub fn write(&mut self, left: usize, row: usize, width: usize, spans: &[Span]) {
        let end = (left + width).min(self.width);
        let Some(cells) = self.rows.get_mut(row) else { return };
        let mut column = left;
        for span in spans {
            // A terminal obeys the other characters.
            for character in span.text.chars().filter(|character| !character.is_control()) {
                match character.width().unwrap_or(0) {
                    // It belongs on top of the one before it.
                    0 if column > left => {
                        if let Some(before) = cells[left..column].iter_mut().rfind(|cell| !cell.text.is_empty()) {
                            before.text.push(character);
                        }
                    }
                    0 => {}
                    columns if column + columns > end => return,
                    columns => {
                        cells[column] = Cell { text: character.to_string(), style: span.style };
                        for behind in &mut cells[column + 1..column + columns] {
                            *behind = Cell { text: String::new(), style: span.style };
                        }
                        column += columns;
                    }
                }
            }
        }
    }

    /// Draws a border along the inside of an area, with a title in its upper edge.
    pub fn border(&mut self, area: Area, title: &[Span]) {
        if area.width < 2 || area.height < 2 {
            return;
        }
        let (right, bottom) = (area.left + area.width - 1, area.top + area.height - 1);
        let edge = "─".repeat(area.width - 2);
        self.write(area.left, area.top, area.width, &[Span::plain(format!("┌{edge}┐"))]);
        self.write(area.left, bottom, area.width, &[Span::plain(format!("└{edge}┘"))]);
        for row in area.top + 1..bottom {
            for column in [area.left, right] {
                self.write(column, row, 1, &[Span::plain("│")]);
            }
        }
        self.write(area.left + 1, area.top, area.width - 2, title);
    }

    /// Sends to a terminal what differs from what it shows. A terminal of another size gets all of it.
    ///
    /// # Errors
    ///
    /// What the terminal does not take.
    pub fn show(&self, shown: Option<&Self>, terminal: &mut impl Write) -> io::Result<()> {
        let shown = shown.filter(|shown| shown.area() == self.area());
        for (row, cells) in self.rows.iter().enumerate() {
            if shown.is_some_and(|shown| shown.rows[row] == *cells) {
                continue;
            }
            queue!(terminal, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            for run in cells.chunk_by(|before, after| before.style == after.style) {
                set_style(terminal, run[0].style)?;
                queue!(terminal, Print(run.iter().map(|cell| cell.text.as_str()).collect::<String>()))?;
            }
        }
        set_style(terminal, Style::default())?;
        terminal.flush()
    }

    /// The text of each row.
    #[cfg(test)]
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|cells| cells.iter().map(|cell| cell.text.as_str()).collect())
    }
}

fn set_style(terminal: &mut impl Write, style: Style) -> io::Result<()> {
    queue!(terminal, SetAttribute(Attribute::Reset))?;
    if let Some(weight) = style.weight {
        let attribute = match weight {
            Weight::Bold => Attribute::Bold,
            Weight::Dim => Attribute::Dim,
        };
        queue!(terminal, SetAttribute(attribute))?;
    }
    if let Some(colour) = style.colour {
        queue!(terminal, SetForegroundColor(colour))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_the_edge_and_wide_characters_are_not_halved() {
        let mut grid = Grid::new(5, 1);
        grid.write(0, 0, 9, &[Span::plain("ab世界")]);
        assert_eq!(grid.lines().next().unwrap(), "ab世 ");
        grid.write(0, 0, 2, &[Span::plain("e\u{301}xyz")]);
        assert_eq!(grid.lines().next().unwrap(), "e\u{301}x世 ");
        grid.write(0, 7, 2, &[Span::plain("below")]);
    }

    #[test]
    fn no_character_that_a_terminal_obeys_reaches_it() {
        let mut grid = Grid::new(6, 1);
        grid.write(0, 0, 6, &[Span::plain("a\x1b[2Jb\r\n")]);
        assert_eq!(grid.lines().next().unwrap(), "a[2Jb ");
    }

    #[test]
    fn only_rows_that_differ_are_sent() {
        let mut before = Grid::new(4, 2);
        before.write(0, 0, 4, &[Span::plain("one")]);
        let mut after = before.clone();
        after.write(0, 1, 4, &[Span::coloured("two", Color::Red)]);
        let sent = |shown: Option<&Grid>| {
            let mut terminal = Vec::new();
            after.show(shown, &mut terminal).unwrap();
            String::from_utf8(terminal).unwrap()
        };
        let all = sent(None);
        assert!(all.contains("one") && all.contains("two"), "{all:?}");
        let differing = sent(Some(&before));
        assert!(!differing.contains("one") && differing.contains("two"), "{differing:?}");
        assert_eq!(sent(Some(&Grid::new(3, 2))), all);
    }
}
