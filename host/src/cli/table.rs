//! Aligned columns for people.

/// Lines of cells under headings, each column as wide as its widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, headings first.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        self.rows.iter().map(|row| aligned(row, &widths)).collect()
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
    cells.join("  ").trim_end().to_owned()
}

/// The text cut to so many characters, with a mark when something was cut.
pub fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["ID", "STATUS", "WHY"]);
        table.row(["größer".to_owned(), "Held".to_owned(), String::new()]);
        assert_eq!(table.lines(), ["ID      STATUS  WHY", "größer  Held"]);
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
    }
}
