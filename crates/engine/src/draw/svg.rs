//! A workflow drawn as SVG. It has its own colours, for light and dark, asks for nothing from outside, and contains
//! no script.

use std::fmt::Write as _;

use super::spine::{Arc, Column, Node, Side, columns};
use crate::workflow::Workflow;

/// A box's height, and the room below it.
const BOX: usize = 46;
const GAP: usize = 30;
const PITCH: usize = BOX + GAP;
/// Between two lanes, and around everything.
const LANE: usize = 16;
const MARGIN: usize = 16;
/// A character's width, about; text is centred, so that a narrower font does no harm.
const CHARACTER: usize = 8;
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
.box{fill:#161b22;stroke:#8b949e}.now{fill:#5a4300;stroke:#e3b341}\
.way{stroke:#8b949e}.head{fill:#8b949e}text{fill:#e6edf3}.small{fill:#8b949e}}";

/// Draws a workflow; `current` is a run's phase, which is marked.
pub fn svg(workflow: &Workflow, current: Option<&str>) -> String {
    let mut body = String::new();
    let (mut x, mut height) = (MARGIN, 0);
    for column in columns(workflow, current) {
        let (width, tall) = draw_column(&mut body, &column, x);
        x += width + MARGIN;
        height = height.max(tall);
    }
    let height = height + MARGIN;
    let title = escape(&workflow.name);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {x} {height}\" width=\"{x}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n{body}</svg>\n"
    )
}

/// Draws a machine; its width, and how far down it reaches.
fn draw_column(out: &mut String, column: &Column, x: usize) -> (usize, usize) {
    let longest = column.boxes.iter().map(|node| node.name.len().max(node.about.len())).max();
    let width = longest.unwrap_or(0) * CHARACTER + 24;
    let left = x + column.lanes(Side::Left) * LANE + LANE;
    let right = left + width;
    let whole = right + column.lanes(Side::Right) * LANE + LANE - x;
    let mut top = MARGIN;
    if let Some(title) = &column.title {
        let at = left + width / 2;
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            top + 11,
            escape(title)
        );
    }
    top += LINE;
    for arc in &column.arcs {
        draw_arc(out, column, arc, top, left, right);
    }
    for (index, rules) in column.steps.iter().enumerate() {
        if !rules.is_empty() {
            let (at, from) = (left + width / 2, top + index * PITCH + BOX);
            let hint = hint(column, index, index + 1, rules);
            way(out, &format!("M{at} {from}V{}", from + GAP), &hint);
        }
    }
    for (index, node) in column.boxes.iter().enumerate() {
        draw_box(out, node, left, top + index * PITCH, width);
    }
    let mut bottom = top + column.boxes.len() * PITCH - GAP;
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
        widest = widest.max(line.chars().count() * 6);
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{x}\" y=\"{bottom}\">{}</text>",
            escape(&line)
        );
    }
    (whole.max(widest), bottom)
}

fn draw_box(out: &mut String, node: &Node, left: usize, top: usize, width: usize) {
    let mut class = String::from("box");
    if node.is_final {
        class.push_str(" end");
    }
    if node.is_current {
        class.push_str(" now");
    }
    let middle = left + width / 2;
    let name = if node.is_initial { format!("▸ {}", node.name) } else { node.name.clone() };
    let baseline = if node.about.is_empty() { top + 28 } else { top + 20 };
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BOX}\" rx=\"8\"/>\
         <text x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
        escape(&name)
    );
    if !node.about.is_empty() {
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            top + 36,
            escape(&node.about)
        );
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
    let end = top + arc.to * PITCH + enter;
    // The corner lies a little before the lane, on the side of the boxes.
    let near = if side == Side::Left { lane + ROUND } else { lane - ROUND };
    for (from, rules) in &arc.from {
        let begin = top + from * PITCH + leave;
        let (first, last) =
            if end < begin { (begin - ROUND, end + ROUND) } else { (begin + ROUND, end - ROUND) };
        let path = format!(
            "M{edge} {begin}H{near}Q{lane} {begin} {lane} {first}V{last}Q{lane} {end} {near} {end}H{edge}"
        );
        way(out, &path, &hint(column, *from, arc.to, rules));
    }
}

fn way(out: &mut String, path: &str, hint: &str) {
    let _ = writeln!(
        out,
        "<path class=\"way\" d=\"{path}\" marker-end=\"url(#to)\"><title>{}</title></path>",
        escape(hint)
    );
}

/// What a line says when it is pointed at: the rules behind it.
fn hint(column: &Column, from: usize, to: usize, rules: &[String]) -> String {
    let name = |index: usize| column.boxes[index].name.as_str();
    format!("{} → {}\n{}", name(from), name(to), rules.join("\n"))
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
