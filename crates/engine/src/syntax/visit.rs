//! Looks at every part of an expression or a text, for what can be told without evaluating it.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

use super::range;

/// Calls `look` with an expression and every part of it, outermost first. What does not parse has no parts.
pub(crate) fn expression(source: &str, look: &mut dyn FnMut(&Expr)) {
    if let Ok(tree) = parse_expr(source) {
        expr(&tree, look);
    }
}

/// The same for every expression in a text with holes.
pub(crate) fn text(source: &str, look: &mut dyn FnMut(&Expr)) {
    if let Ok(tree) = parse(source, "", SyntaxConfig::default()) {
        stmt(&tree, look);
    }
}

/// Where an expression stands in its source.
pub(crate) fn place(expr: &Expr) -> Range<usize> {
    let span = |of: &Expr| {
        range(match of {
            Expr::Var(it) => it.span(),
            Expr::Const(it) => it.span(),
            Expr::Slice(it) => it.span(),
            Expr::UnaryOp(it) => it.span(),
            Expr::BinOp(it) => it.span(),
            Expr::Compare(it) => it.span(),
            Expr::IfExpr(it) => it.span(),
            Expr::Filter(it) => it.span(),
            Expr::Test(it) => it.span(),
            Expr::GetAttr(it) => it.span(),
            Expr::GetItem(it) => it.span(),
            Expr::Call(it) => it.span(),
            Expr::List(it) => it.span(),
            Expr::Tuple(it) => it.span(),
            Expr::Map(it) => it.span(),
        })
    };
    // Members and calls are placed where their last part is; they begin where the first does.
    let mut own = span(expr);
    for part in parts(expr) {
        let inner = place(part);
        own = own.start.min(inner.start)..own.end.max(inner.end);
    }
    own
}

/// The literal text of an expression, if it is one.
pub(crate) fn literal<'e>(expr: &'e Expr) -> Option<&'e str> {
    match expr {
        Expr::Const(text) => text.value.as_str(),
        _ => None,
    }
}

/// What an argument gives by its position.
pub(crate) fn positional<'e, 's>(arg: &'e CallArg<'s>) -> Option<&'e Expr<'s>> {
    match arg {
        CallArg::Pos(expr) => Some(expr),
        _ => None,
    }
}

fn values<'e, 's>(args: &'e [CallArg<'s>]) -> impl Iterator<Item = &'e Expr<'s>> {
    args.iter().map(|arg| match arg {
        CallArg::Pos(it)
        | CallArg::Kwarg(_, it)
        | CallArg::PosSplat(it)
        | CallArg::KwargSplat(it) => it,
    })
}

/// The expressions of which one is made.
fn parts<'e, 's>(expr: &'e Expr<'s>) -> Vec<&'e Expr<'s>> {
    match expr {
        Expr::Var(_) | Expr::Const(_) => Vec::new(),
        Expr::Slice(it) => {
            let bounds = [&it.start, &it.stop, &it.step].into_iter().flatten();
            std::iter::once(&it.expr).chain(bounds).collect()
        }
        Expr::UnaryOp(it) => vec![&it.expr],
        Expr::BinOp(it) => vec![&it.left, &it.right],
        Expr::Compare(it) => {
            std::iter::once(&it.expr).chain(it.ops.iter().map(|op| &op.expr)).collect()
        }
        Expr::IfExpr(it) => {
            [&it.true_expr, &it.test_expr].into_iter().chain(&it.false_expr).collect()
        }
        Expr::Filter(it) => it.expr.iter().chain(values(&it.args)).collect(),
        Expr::Test(it) => std::iter::once(&it.expr).chain(values(&it.args)).collect(),
        Expr::GetAttr(it) => vec![&it.expr],
        Expr::GetItem(it) => vec![&it.expr, &it.subscript_expr],
        Expr::Call(it) => std::iter::once(&it.expr).chain(values(&it.args)).collect(),
        Expr::List(it) => it.items.iter().collect(),
        Expr::Tuple(it) => it.items.iter().collect(),
        Expr::Map(it) => it.keys.iter().chain(&it.values).collect(),
    }
}

fn expr(tree: &Expr, look: &mut dyn FnMut(&Expr)) {
    look(tree);
    for part in parts(tree) {
        expr(part, look);
    }
}

fn body(all: &[Stmt], look: &mut dyn FnMut(&Expr)) {
    for one in all {
        stmt(one, look);
    }
}

fn stmt(tree: &Stmt, look: &mut dyn FnMut(&Expr)) {
    match tree {
        Stmt::Template(it) => body(&it.children, look),
        Stmt::EmitExpr(it) => expr(&it.expr, look),
        Stmt::EmitRaw(_) => {}
        Stmt::ForLoop(it) => {
            expr(&it.iter, look);
            it.filter_expr.iter().for_each(|filter| expr(filter, look));
            body(&it.body, look);
            body(&it.else_body, look);
        }
        Stmt::IfCond(it) => {
            expr(&it.expr, look);
            body(&it.true_body, look);
            body(&it.false_body, look);
        }
        Stmt::WithBlock(it) => {
            it.assignments.iter().for_each(|(_, value)| expr(value, look));
            body(&it.body, look);
        }
        Stmt::Set(it) => expr(&it.expr, look),
        Stmt::SetBlock(it) => body(&it.body, look),
        Stmt::AutoEscape(it) => body(&it.body, look),
        Stmt::FilterBlock(it) => body(&it.body, look),
        Stmt::Do(it) => values(&it.call.args).for_each(|value| expr(value, look)),
    }
}
