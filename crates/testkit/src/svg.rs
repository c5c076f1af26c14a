//! Renders a terminal screen as SVG: text stays text, colors stay colors.

use std::fmt::Write;

/// Width and height of a cell, in hundredths.
const CELL: (u32, u32) = (840, 1800);
/// Margin around the screen, in hundredths.
const MARGIN: u32 = 1200;
/// The default foreground color.
const INK: &str = "#d7dae0";
/// The default background color.
const PAPER: &str = "#1d1f24";
/// The first sixteen colors.
const COLOURS: [&str; 16] = [
    "#3b3f46", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0", "#7f848e",
    "#f0838c", "#b5e08f", "#f2d399", "#82c4ff", "#dd9af0", "#7fd4de", "#ffffff",
];

/// Adjacent characters with the same style.
struct Piece {
    column: u16,
    columns: u16,
    text: String,
    ink: String,
    paper: Option<String>,
    bold: bool,
    dim: bool,
    underline: bool,
}

/// Renders the screen.
pub fn picture(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let wide = u32::from(columns) * CELL.0 + 2 * MARGIN;
    let high = u32::from(rows) * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <rect width=\"{w}\" height=\"{h}\" rx=\"8\" fill=\"{PAPER}\"/>\n",
        w = number(wide),
        h = number(high)
    );
    for row in 0..rows {
        for piece in pieces(screen, row, columns) {
            draw(&mut svg, row, &piece);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row, split where its style changes; blanks without a background are omitted.
fn pieces(screen: &vt100::Screen, row: u16, columns: u16) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let (mut ink, mut paper) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        if cell.inverse() {
            (ink, paper) = (paper.or_else(|| Some(PAPER.into())), ink.or_else(|| Some(INK.into())));
        }
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let piece = Piece {
            column,
            columns: if cell.is_wide() { 2 } else { 1 },
            text: text.to_owned(),
            ink: ink.unwrap_or_else(|| INK.into()),
            paper,
            bold: cell.bold(),
            dim: cell.dim(),
            underline: cell.underline(),
        };
        match pieces.last_mut() {
            Some(last) if last.goes_on_with(&piece) => {
                last.columns += piece.columns;
                last.text.push_str(&piece.text);
            }
            _ => pieces.push(piece),
        }
    }
    pieces.retain(|piece| piece.paper.is_some() || !piece.text.trim().is_empty());
    pieces
}

impl Piece {
    fn goes_on_with(&self, next: &Self) -> bool {
        let look =
            |piece: &Self| (piece.ink.clone(), piece.paper.clone(), piece.bold, piece.dim, piece.underline);
        self.column + self.columns == next.column && look(self) == look(next)
    }
}

fn draw(svg: &mut String, row: u16, piece: &Piece) {
    let x = MARGIN + u32::from(piece.column) * CELL.0;
    let y = MARGIN + u32::from(row) * CELL.1;
    let wide = u32::from(piece.columns) * CELL.0;
    if let Some(paper) = &piece.paper {
        let (x, y, wide, high) = (number(x), number(y), number(wide), number(CELL.1));
        let _ =
            writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{paper}\"/>");
    }
    if piece.text.trim().is_empty() {
        return;
    }
    let mut look = format!("fill=\"{}\"", piece.ink);
    for (on, attribute) in [
        (piece.bold, " font-weight=\"bold\""),
        (piece.dim, " opacity=\"0.6\""),
        (piece.underline, " text-decoration=\"underline\""),
    ] {
        if on {
            look.push_str(attribute);
        }
    }
    // Leading and trailing blanks only shift the text; blanks between words must be kept.
    let blanks = |text: &str| u32::try_from(text.len()).unwrap_or_default() * CELL.0;
    let (left, text) = piece.text.split_at(piece.text.len() - piece.text.trim_start_matches(' ').len());
    let (text, right) = text.split_at(text.trim_end_matches(' ').len());
    let (x, wide) = (x + blanks(left), wide - blanks(left) - blanks(right));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}");
    // The explicit length aligns columns in every font.
    let (x, baseline, wide) = (number(x), number(y + CELL.1 * 3 / 4), number(wide));
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{baseline}\" textLength=\"{wide}\" lengthAdjust=\"spacingAndGlyphs\" {look}>{text}</text>"
    );
}

/// Formats a number given in hundredths.
fn number(hundredths: u32) -> String {
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A color in CSS; None for the terminal's default.
fn colour(colour: vt100::Color) -> Option<String> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(index @ 0..16) => Some(COLOURS[usize::from(index)].to_owned()),
        vt100::Color::Idx(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let index = index - 16;
            Some(hex(level(index / 36), level(index / 6 % 6), level(index % 6)))
        }
        vt100::Color::Idx(grey) => {
            let level = 8 + 10 * (grey - 232);
            Some(hex(level, level, level))
        }
        vt100::Color::Rgb(red, green, blue) => Some(hex(red, green, blue)),
    }
}

fn hex(red: u8, green: u8, blue: u8) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_place_colour_and_weight_and_cannot_leave_the_picture() {
        let size = |count| std::num::NonZeroU16::new(count).unwrap();
        let mut parser = vt100::Parser::new(size(2), size(20), 0);
        parser.process(b"\x1b[32mgreen\x1b[0m  \x1b[1m<b>&\x1b[0m\r\n\x1b[7mback\x1b[0m");
        let svg = picture(parser.screen());
        for part in [
            "x=\"12\" y=\"25.5\" textLength=\"42\"",
            "fill=\"#98c379\">green</text>",
            "font-weight=\"bold\">&lt;b&gt;&amp;</text>",
            &format!("fill=\"{INK}\"/>"),
            &format!("fill=\"{PAPER}\">back</text>"),
        ] {
            assert!(svg.contains(part), "{part}:\n{svg}");
        }
        assert_eq!(svg.matches("<text").count(), 3, "blanks are not drawn:\n{svg}");
    }
}
