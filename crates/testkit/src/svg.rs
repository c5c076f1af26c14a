//! Renders a terminal screen as SVG: text stays text, colors stay colors.

use std::fmt::Write;

/// Width and height of a cell, in hundredths of a pixel.
const CELL: (u32, u32) = (840, 1800);
/// Margin around the screen, in hundredths of a pixel.
const MARGIN: u32 = 1200;
const FOREGROUND: &str = "#d7dae0";
const BACKGROUND: &str = "#1d1f24";
const COLORS: [&str; 16] = [
    "#3b3f46", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0", "#7f848e",
    "#f0838c", "#b5e08f", "#f2d399", "#82c4ff", "#dd9af0", "#7fd4de", "#ffffff",
];

struct TextRun {
    column: u16,
    columns: u16,
    text: String,
    foreground: String,
    background: Option<String>,
    bold: bool,
    dim: bool,
    underline: bool,
}

pub fn picture(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let wide = u32::from(columns) * CELL.0 + 2 * MARGIN;
    let high = u32::from(rows) * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <rect width=\"{w}\" height=\"{h}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n",
        w = number(wide),
        h = number(high)
    );
    for row in 0..rows {
        for run in runs(screen, row, columns) {
            draw(&mut svg, row, &run);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row, split where its style changes. Blanks without a background are omitted.
fn runs(screen: &vt100::Screen, row: u16, columns: u16) -> Vec<TextRun> {
    let mut runs: Vec<TextRun> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let (mut foreground, mut background) = (css_color(cell.fgcolor()), css_color(cell.bgcolor()));
        if cell.inverse() {
            (foreground, background) = (
                background.or_else(|| Some(BACKGROUND.into())),
                foreground.or_else(|| Some(FOREGROUND.into())),
            );
        }
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let run = TextRun {
            column,
            columns: if cell.is_wide() { 2 } else { 1 },
            text: text.to_owned(),
            foreground: foreground.unwrap_or_else(|| FOREGROUND.into()),
            background,
            bold: cell.bold(),
            dim: cell.dim(),
            underline: cell.underline(),
        };
        match runs.last_mut() {
            Some(last) if last.has_same_style(&run) => {
                last.columns += run.columns;
                last.text.push_str(&run.text);
            }
            _ => runs.push(run),
        }
    }
    runs.retain(|run| run.background.is_some() || !run.text.trim().is_empty());
    runs
}

impl TextRun {
    fn has_same_style(&self, next: &Self) -> bool {
        let style =
            |run: &Self| (run.foreground.clone(), run.background.clone(), run.bold, run.dim, run.underline);
        self.column + self.columns == next.column && style(self) == style(next)
    }
}

fn draw(svg: &mut String, row: u16, run: &TextRun) {
    let x = MARGIN + u32::from(run.column) * CELL.0;
    let y = MARGIN + u32::from(row) * CELL.1;
    let wide = u32::from(run.columns) * CELL.0;
    if let Some(background) = &run.background {
        let (x, y, wide, high) = (number(x), number(y), number(wide), number(CELL.1));
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{background}\"/>"
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let mut style = format!("fill=\"{}\"", run.foreground);
    for (on, attribute) in [
        (run.bold, " font-weight=\"bold\""),
        (run.dim, " opacity=\"0.6\""),
        (run.underline, " text-decoration=\"underline\""),
    ] {
        if on {
            style.push_str(attribute);
        }
    }
    // Leading and trailing blanks only shift the text; blanks between words are kept.
    let blanks = |text: &str| u32::try_from(text.len()).unwrap_or_default() * CELL.0;
    let (left, text) = run.text.split_at(run.text.len() - run.text.trim_start_matches(' ').len());
    let (text, right) = text.split_at(text.trim_end_matches(' ').len());
    let (x, wide) = (x + blanks(left), wide - blanks(left) - blanks(right));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}");
    // The explicit length aligns columns in every font.
    let (x, baseline, wide) = (number(x), number(y + CELL.1 * 3 / 4), number(wide));
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{baseline}\" textLength=\"{wide}\" lengthAdjust=\"spacingAndGlyphs\" {style}>{text}</text>"
    );
}

fn number(hundredths: u32) -> String {
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn css_color(css_color: vt100::Color) -> Option<String> {
    match css_color {
        vt100::Color::Default => None,
        vt100::Color::Idx(index @ 0..16) => Some(COLORS[usize::from(index)].to_owned()),
        vt100::Color::Idx(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let index = index - 16;
            Some(hex(level(index / 36), level(index / 6 % 6), level(index % 6)))
        }
        vt100::Color::Idx(gray) => {
            let level = 8 + 10 * (gray - 232);
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
    fn words_keep_their_place_color_and_weight_and_cannot_leave_the_picture() {
        let size = |count| std::num::NonZeroU16::new(count).unwrap();
        let mut parser = vt100::Parser::new(size(2), size(20), 0);
        parser.process(b"\x1b[32mgreen\x1b[0m  \x1b[1m<b>&\x1b[0m\r\n\x1b[7mback\x1b[0m");
        let svg = picture(parser.screen());
        for part in [
            "x=\"12\" y=\"25.5\" textLength=\"42\"",
            "fill=\"#98c379\">green</text>",
            "font-weight=\"bold\">&lt;b&gt;&amp;</text>",
            &format!("fill=\"{FOREGROUND}\"/>"),
            &format!("fill=\"{BACKGROUND}\">back</text>"),
        ] {
            assert!(svg.contains(part), "{part}:\n{svg}");
        }
        assert_eq!(svg.matches("<text").count(), 3, "blanks are not drawn:\n{svg}");
    }
}
