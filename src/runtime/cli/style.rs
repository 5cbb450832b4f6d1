//! Colour and tables for people.

use super::{Colour, Global};
use std::io::IsTerminal;

/// A colour that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
    Head,
}

/// Whether this output takes colour.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    on: bool,
}

impl Style {
    pub fn new(global: &Global, output: &impl IsTerminal) -> Self {
        let wanted = || std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && output.is_terminal();
        let on = match global.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => wanted(),
        };
        Self { on }
    }
    pub fn on(self) -> bool {
        self.on
    }
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31;1",
            Tone::Dim => "2",
            Tone::Head => "1",
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The tone of a decision.
pub fn decision_tone(decision: &str) -> Tone {
    match decision {
        "allow" => Tone::Good,
        "redact" => Tone::Warn,
        "block" | "dead letter" => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// One cell.
#[derive(Debug, Clone)]
pub struct Cell(pub Tone, pub String);

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell(Tone::Plain, text.into())
    }
}

/// Column widths, so that rows which come one by one stay aligned.
#[derive(Debug, Clone)]
pub struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    pub fn fixed(widths: &[usize]) -> Self {
        Self { widths: widths.to_vec() }
    }
    /// As wide as the widest cell.
    pub fn of(head: &[&str], rows: &[Vec<Cell>]) -> Self {
        let mut widths: Vec<usize> = head.iter().map(|h| h.chars().count()).collect();
        for row in rows {
            for (width, Cell(_, text)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        Self { widths }
    }
    /// One line without its end. The last column is not padded.
    pub fn line(&self, style: Style, cells: &[Cell]) -> String {
        let mut out = String::new();
        for (n, Cell(tone, text)) in cells.iter().enumerate() {
            out.push_str(&style.paint(*tone, text));
            if n + 1 < cells.len() {
                let width = self.widths.get(n).copied().unwrap_or(0);
                let pad = width.saturating_sub(text.chars().count()) + 2;
                out.extend(std::iter::repeat_n(' ', pad));
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out
    }
    pub fn head(&self, style: Style, head: &[&str]) -> String {
        let cells: Vec<Cell> = head.iter().map(|h| Cell(Tone::Head, (*h).to_owned())).collect();
        self.line(style, &cells)
    }
}

/// A whole table, one line a row.
pub fn table(style: Style, head: &[&str], rows: &[Vec<Cell>]) -> String {
    let columns = Columns::of(head, rows);
    let mut out = columns.head(style, head);
    out.push('\n');
    for row in rows {
        out.push_str(&columns.line(style, row));
        out.push('\n');
    }
    out
}
