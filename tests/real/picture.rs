//! What a terminal shows, as a picture.

use std::fmt::Write as _;

use vt100::{Cell, Color, Parser, Screen};

use super::terminal::Size;

/// The size of a character, and the room around the text, in pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: u16 = 19;
const MARGIN: u16 = 16;

/// The colours of a terminal that has said nothing about them.
const PAPER: &str = "#1a1b26";
const INK: &str = "#d5d8e4";
const BASIC: [&str; 16] = [
    "#3b3f52", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5d8e4",
    "#7f849c", "#ff7a85", "#b0e08c", "#ffd68a", "#7fc4ff", "#dd92f5", "#6fd3df", "#ffffff",
];

/// What a terminal of some size shows after these bytes.
pub fn screen(Size(rows, columns): Size, bytes: &[u8]) -> Parser {
    let mut parser = Parser::new(rows, columns, 0);
    parser.process(bytes);
    parser
}

/// The rows of a screen as text.
pub fn rows(screen: &Screen) -> Vec<String> {
    let (_, columns) = screen.size();
    screen.rows(0, columns).map(|row| row.trim_end().to_string()).collect()
}

/// Some rows of a screen as a picture.
pub fn svg(screen: &Screen, rows: &[u16], title: &str) -> String {
    let (_, columns) = screen.size();
    let last = rows.iter().filter_map(|row| {
        (0..columns).rev().find(|column| {
            screen.cell(*row, *column).is_some_and(|cell| !cell.contents().trim().is_empty())
        })
    });
    let widest = last.max().unwrap_or_default() + 1;
    let width = (f64::from(widest) * WIDTH).ceil() + f64::from(2 * MARGIN);
    let height = u16::try_from(rows.len()).unwrap() * HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n",
        escaped(title)
    );
    for (index, row) in (0_u16..).zip(rows) {
        let y = MARGIN + index * HEIGHT + 14;
        let spans = spans(screen, *row, widest);
        if !spans.is_empty() {
            writeln!(svg, "<text y=\"{y}\" xml:space=\"preserve\">{spans}</text>").unwrap();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row, a piece for each change of how it is written, and for each gap: fonts differ in their widths.
fn spans(screen: &Screen, row: u16, columns: u16) -> String {
    let mut spans = String::new();
    let mut open: Option<(String, String)> = None;
    for column in 0..columns {
        let cell = screen.cell(row, column);
        let text = cell.map(Cell::contents).filter(|text| !text.trim().is_empty());
        let style = text.and_then(|_| cell.map(style));
        if open.as_ref().map(|(style, _)| style) != style.as_ref() {
            close(&mut spans, open.take());
            let x = f64::from(MARGIN) + f64::from(column) * WIDTH;
            open = style.map(|style| (style, format!("<tspan x=\"{x:.1}\"")));
            if let Some((style, start)) = &mut open {
                write!(start, "{style}>").unwrap();
            }
        }
        if let (Some((_, span)), Some(text)) = (&mut open, text) {
            span.push_str(&escaped(text));
        }
    }
    close(&mut spans, open);
    spans
}

fn close(spans: &mut String, open: Option<(String, String)>) {
    if let Some((_, span)) = open {
        spans.push_str(&span);
        spans.push_str("</tspan>");
    }
}

/// How a character is written, as attributes.
fn style(cell: &Cell) -> String {
    let mut style = format!(" fill=\"{}\"", colour(cell.fgcolor()));
    if cell.bold() {
        style.push_str(" font-weight=\"bold\"");
    }
    if cell.italic() {
        style.push_str(" font-style=\"italic\"");
    }
    if cell.dim() {
        style.push_str(" opacity=\"0.6\"");
    }
    style
}

fn colour(colour: Color) -> String {
    match colour {
        Color::Default => INK.into(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        Color::Idx(index @ 0..16) => BASIC[usize::from(index)].into(),
        Color::Idx(index @ 16..232) => {
            let part = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let cube = index - 16;
            let [red, green, blue] = [cube / 36, cube / 6 % 6, cube % 6].map(part);
            format!("#{red:02x}{green:02x}{blue:02x}")
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
