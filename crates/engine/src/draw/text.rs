//! A workflow drawn with the box characters of a terminal.

use std::fmt::Write as _;

use super::Walk;
use super::spine::{Arc, Column, Node, Side, columns};
use crate::workflow::Workflow;

/// Rows of a box, with the one below it; one more where a run's past is told.
const PITCH: usize = 5;
/// How many rules of every phase are listed.
const MAX_GENERAL: usize = 8;

/// Draws a workflow; `walk` is where a run has been.
pub fn text(workflow: &Workflow, walk: Option<&Walk>) -> String {
    let mut out = String::new();
    for column in columns(workflow, walk) {
        if let Some(title) = &column.title {
            let _ = writeln!(out, "\n{title}\n");
        }
        out.push_str(&drawn(&column));
        if !column.general.is_empty() {
            out.push_str("\nIn every phase:\n");
        }
        for rule in column.general.iter().take(MAX_GENERAL) {
            let _ = writeln!(out, "  {rule}");
        }
        let more = column.general.len().saturating_sub(MAX_GENERAL);
        if more > 0 {
            let _ = writeln!(out, "  and {more} more (`--format table` has them)");
        }
    }
    if let Some(reservation) = walk.and_then(Walk::reservation) {
        let _ = writeln!(out, "\n{reservation}");
    }
    out
}

fn pitch(column: &Column) -> usize {
    if column.has_past { PITCH + 1 } else { PITCH }
}

fn drawn(column: &Column) -> String {
    let left = column.lanes(Side::Left) * 2 + 1;
    let width = column.boxes.iter().map(wide).max().unwrap_or(0) + 4;
    let right = left + width - 1;
    let pitch = pitch(column);
    let mut canvas = Canvas::new(column.boxes.len() * pitch);
    // Lines first: boxes stand in front of them.
    for arc in &column.arcs {
        run(&mut canvas, column, arc, left, right);
    }
    for (index, node) in column.boxes.iter().enumerate() {
        frame(&mut canvas, node, index * pitch, left, (width, pitch));
        if !column.steps[index].is_empty() {
            let bottom = index * pitch + pitch - 2;
            let is_last = column.is_last(index, index + 1);
            canvas.put(bottom, left + width / 2, if is_last { '┳' } else { '┬' });
            canvas.put(bottom + 1, left + width / 2, '▼');
        }
    }
    for arc in &column.arcs {
        let row = enters(arc, pitch);
        match arc.side {
            Side::Left => canvas.put(row, left - 1, '▶'),
            Side::Right => canvas.put(row, right + 1, '◀'),
        }
    }
    canvas.text()
}

/// The row where an arc comes in, and where those of its side leave: apart, so that an arc that ends in a box and one
/// that begins there do not meet.
fn enters(arc: &Arc, pitch: usize) -> usize {
    arc.to * pitch + if arc.side == Side::Left { 2 } else { 1 }
}

fn leaves(side: Side, from: usize, pitch: usize) -> usize {
    from * pitch + if side == Side::Left { 1 } else { 2 }
}

fn run(canvas: &mut Canvas, column: &Column, arc: &Arc, left: usize, right: usize) {
    let lane = match arc.side {
        Side::Left => left - 2 - arc.lane * 2,
        Side::Right => right + 2 + arc.lane * 2,
    };
    let edge = if arc.side == Side::Left { left } else { right };
    let end = enters(arc, pitch(column));
    for (from, _) in &arc.from {
        let weight = if column.is_last(*from, arc.to) { HEAVY } else { 0 };
        let begin = leaves(arc.side, *from, pitch(column));
        canvas.across(end, lane, edge, weight);
        canvas.across(begin, lane, edge, weight);
        canvas.down(lane, begin, end, weight);
    }
}

fn wide(node: &Node) -> usize {
    let texts = [&name(node), &node.about, &node.past];
    texts.map(|text| text.chars().count()).into_iter().max().unwrap_or(0)
}

fn name(node: &Node) -> String {
    match (node.is_current, node.is_initial) {
        (true, _) => format!("● {}", node.name),
        (false, true) => format!("▸ {}", node.name),
        (false, false) => node.name.clone(),
    }
}

fn frame(
    canvas: &mut Canvas,
    node: &Node,
    top: usize,
    left: usize,
    (width, pitch): (usize, usize),
) {
    let [corner, line, side] = match (node.is_current, node.is_final) {
        (true, _) => ["┏┓┗┛", "━", "┃"],
        (false, true) => ["╔╗╚╝", "═", "║"],
        (false, false) => ["╭╮╰╯", "─", "│"],
    };
    let corners: Vec<char> = corner.chars().collect();
    let middle = line.repeat(width - 2);
    canvas.write(top, left, &format!("{}{middle}{}", corners[0], corners[1]));
    let bottom = top + pitch - 2;
    let texts = [name(node), node.about.clone(), node.past.clone()];
    for (row, text) in (top + 1..bottom).zip(texts) {
        let inner = width - 4;
        canvas.write(row, left, &format!("{side} {text:<inner$} {side}"));
    }
    canvas.write(bottom, left, &format!("{}{middle}{}", corners[2], corners[3]));
}

/// A cell: a character, or the sides to which lines leave it.
#[derive(Clone, Copy)]
enum Cell {
    Char(char),
    Line(u8),
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;
/// A line that is drawn heavy: the last step of a run.
const HEAVY: u8 = 16;

struct Canvas {
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    fn new(rows: usize) -> Canvas {
        Canvas { rows: vec![Vec::new(); rows] }
    }

    fn cell(&mut self, row: usize, column: usize) -> &mut Cell {
        let cells = &mut self.rows[row];
        if cells.len() <= column {
            cells.resize(column + 1, Cell::Line(0));
        }
        &mut cells[column]
    }

    fn put(&mut self, row: usize, column: usize, what: char) {
        *self.cell(row, column) = Cell::Char(what);
    }

    fn write(&mut self, row: usize, column: usize, text: &str) {
        for (offset, what) in text.chars().enumerate() {
            self.put(row, column + offset, what);
        }
    }

    fn join(&mut self, row: usize, column: usize, sides: u8) {
        if let Cell::Line(known) = self.cell(row, column) {
            *known |= sides;
        }
    }

    fn across(&mut self, row: usize, from: usize, to: usize, weight: u8) {
        let (from, to) = (from.min(to), from.max(to));
        for column in from..to {
            self.join(row, column, RIGHT | weight);
            self.join(row, column + 1, LEFT | weight);
        }
    }

    fn down(&mut self, column: usize, from: usize, to: usize, weight: u8) {
        let (from, to) = (from.min(to), from.max(to));
        for row in from..to {
            self.join(row, column, DOWN | weight);
            self.join(row + 1, column, UP | weight);
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let line: String = row.iter().map(|cell| cell.shown()).collect();
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.trim_end().to_string() + "\n"
    }
}

impl Cell {
    fn shown(self) -> char {
        const LINES: [char; 16] =
            [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];
        const HEAVY_LINES: [char; 16] =
            [' ', '┃', '┃', '┃', '━', '┛', '┓', '┫', '━', '┗', '┏', '┣', '━', '┻', '┳', '╋'];
        match self {
            Cell::Char(what) => what,
            Cell::Line(sides) if sides & HEAVY == 0 => LINES[usize::from(sides)],
            Cell::Line(sides) => HEAVY_LINES[usize::from(sides & !HEAVY)],
        }
    }
}
