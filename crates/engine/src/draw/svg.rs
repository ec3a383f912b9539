//! A workflow drawn as SVG. It has its own colours, for light and dark, asks for nothing from outside, and contains
//! no script.

use std::fmt::Write as _;

use super::Walk;
use super::spine::{Arc, Column, Node, Side, columns};
use crate::workflow::Workflow;

/// A box's height, with a line more where a run's past is told, and the room below it.
const BOX: usize = 46;
const PAST: usize = 15;
const GAP: usize = 30;
/// Between two lanes, and around everything.
const LANE: usize = 16;
const MARGIN: usize = 16;
/// A character's width, about; text is centred, so that a narrower font does no harm.
const CHARACTER: usize = 8;
const SMALL: usize = 6;
/// How round the corners of lines are.
const ROUND: usize = 6;
/// How many rules of every phase are listed.
const MAX_GENERAL: usize = 8;
/// A line of text.
const LINE: usize = 18;

const STYLE: &str = "\
svg{color-scheme:light dark;font:14px system-ui,sans-serif}\
.box{fill:#fff;stroke:#57606a}.end{stroke-width:3}.now{fill:#ffe08a;stroke:#9a6700;stroke-width:2}\
.way{fill:none;stroke:#57606a}.head{fill:#57606a}text{fill:#1f2328}.small{font-size:11px;fill:#57606a}\
@media(prefers-color-scheme:dark){\
.box{fill:#161b22;stroke:#8b949e}.now{fill:#332600;stroke:#e3b341}\
.way{stroke:#8b949e}.head{fill:#8b949e}text{fill:#e6edf3}.small{fill:#8b949e}}";

/// The last step of a run.
const LAST: &str = "\
<style>.last{stroke:#9a6700;stroke-width:3}.lasthead{fill:#9a6700}\
@media(prefers-color-scheme:dark){.last{stroke:#e3b341}.lasthead{fill:#e3b341}}</style>\
<defs><marker id=\"last\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\">\
<path class=\"lasthead\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";

/// Draws a workflow; `walk` is where a run has been.
pub fn svg(workflow: &Workflow, walk: Option<&Walk>) -> String {
    let mut body = String::new();
    let (mut x, mut height) = (MARGIN, 0);
    for column in columns(workflow, walk) {
        let (width, tall) = draw_column(&mut body, &column, x);
        x += width + MARGIN;
        height = height.max(tall);
    }
    if let Some(reservation) = walk.and_then(Walk::reservation) {
        height += LINE;
        x = x.max(MARGIN + reservation.len() * 6);
        small(&mut body, MARGIN, height, "start", &reservation);
    }
    let height = height + MARGIN;
    let title = escape(&workflow.name);
    let last = if walk.is_some() { LAST } else { "" };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {x} {height}\" width=\"{x}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n{last}{body}</svg>\n"
    )
}

/// How tall the boxes of a machine are.
fn tall(column: &Column) -> usize {
    if column.has_past { BOX + PAST } else { BOX }
}

fn small(out: &mut String, x: usize, y: usize, anchor: &str, text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"small\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>",
        escape(text)
    );
}

/// Draws a machine; its width, and how far down it reaches.
fn draw_column(out: &mut String, column: &Column, x: usize) -> (usize, usize) {
    let length = |text: &str| text.chars().count();
    let longest = column.boxes.iter().map(|node| {
        length(&node.name).max(length(&node.about)).max(length(&node.past) * SMALL / CHARACTER)
    });
    let width = longest.max().unwrap_or(0) * CHARACTER + 24;
    let pitch = tall(column) + GAP;
    let left = x + column.lanes(Side::Left) * LANE + LANE;
    let right = left + width;
    let whole = right + column.lanes(Side::Right) * LANE + LANE - x;
    let mut top = MARGIN;
    if let Some(title) = &column.title {
        small(out, left + width / 2, top + 11, "middle", title);
    }
    top += LINE;
    for arc in &column.arcs {
        draw_arc(out, column, arc, top, left, right);
    }
    for (index, rules) in column.steps.iter().enumerate() {
        if !rules.is_empty() {
            let (at, from) = (left + width / 2, top + index * pitch + tall(column));
            way(out, column, (index, index + 1), &format!("M{at} {from}V{}", from + GAP), rules);
        }
    }
    for (index, node) in column.boxes.iter().enumerate() {
        draw_box(out, node, left, top + index * pitch, (width, tall(column)));
    }
    let mut bottom = top + column.boxes.len() * pitch - GAP;
    let mut lines: Vec<String> = Vec::new();
    if !column.general.is_empty() {
        lines.push("In every phase:".into());
        lines.extend(column.general.iter().take(MAX_GENERAL).cloned());
        let more = column.general.len().saturating_sub(MAX_GENERAL);
        lines.extend((more > 0).then(|| format!("and {more} more")));
        bottom += LINE / 2;
    }
    let mut widest = 0;
    for line in lines {
        bottom += LINE;
        widest = widest.max(length(&line) * SMALL);
        small(out, x, bottom, "start", &line);
    }
    (whole.max(widest), bottom)
}

fn draw_box(
    out: &mut String,
    node: &Node,
    left: usize,
    top: usize,
    (width, height): (usize, usize),
) {
    let mut class = String::from("box");
    if node.is_final {
        class.push_str(" end");
    }
    if node.is_current {
        class.push_str(" now");
    }
    let middle = left + width / 2;
    let name = if node.is_initial { format!("▸ {}", node.name) } else { node.name.clone() };
    // What is told stands in the middle of the box.
    let lines = [&node.about, &node.past].into_iter().filter(|text| !text.is_empty());
    let lines: Vec<&String> = lines.collect();
    let baseline = top + (height - lines.len() * PAST) / 2 + 5;
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
         <text x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
        escape(&name)
    );
    for (number, line) in lines.into_iter().enumerate() {
        small(out, middle, baseline + 16 + number * PAST, "middle", line);
    }
}

fn draw_arc(out: &mut String, column: &Column, arc: &Arc, top: usize, left: usize, right: usize) {
    let side = arc.side;
    let lane = match side {
        Side::Left => left - LANE * (arc.lane + 1),
        Side::Right => right + LANE * (arc.lane + 1),
    };
    let edge = if side == Side::Left { left } else { right };
    // Where arcs come in and where they leave are apart, as in a box of the terminal's drawing.
    let (enter, leave) = if side == Side::Left { (30, 14) } else { (14, 30) };
    let pitch = tall(column) + GAP;
    let end = top + arc.to * pitch + enter;
    // The corner lies a little before the lane, on the side of the boxes.
    let near = if side == Side::Left { lane + ROUND } else { lane - ROUND };
    for (from, rules) in &arc.from {
        let begin = top + from * pitch + leave;
        let (first, last) =
            if end < begin { (begin - ROUND, end + ROUND) } else { (begin + ROUND, end - ROUND) };
        let path = format!(
            "M{edge} {begin}H{near}Q{lane} {begin} {lane} {first}V{last}Q{lane} {end} {near} {end}H{edge}"
        );
        way(out, column, (*from, arc.to), &path, rules);
    }
}

/// A line from one box to another. When it is pointed at, it says the rules behind it.
fn way(out: &mut String, column: &Column, ends: (usize, usize), path: &str, rules: &[String]) {
    let name = |index: usize| column.boxes[index].name.as_str();
    let is_last = column.is_last(ends.0, ends.1);
    let (class, head) = if is_last { ("way last", "last") } else { ("way", "to") };
    let hint = format!("{} → {}\n{}", name(ends.0), name(ends.1), rules.join("\n"));
    let _ = writeln!(
        out,
        "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{head})\"><title>{}</title></path>",
        escape(&hint)
    );
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            // XML has no other control characters, not even escaped.
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
