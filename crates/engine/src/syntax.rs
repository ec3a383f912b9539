//! What can be said about an expression or a text without evaluating it: which names it uses, and
//! which parts a guard is made of.

pub(crate) mod visit;

use std::collections::HashSet;
use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::{Span, Token, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;

/// A name in an expression, and where it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The name and the members read from it: `state`, `aggregation`, `status`.
    pub path: Vec<String>,
    pub range: Range<usize>,
}

impl Use {
    /// `state.aggregation.status`
    pub fn dotted(&self) -> String {
        self.path.join(".")
    }
}

/// All names that an expression or a text uses.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub variables: Vec<Use>,
    pub functions: Vec<Use>,
    pub filters: Vec<Use>,
    pub tests: Vec<Use>,
    /// Records that `json(path, 'record')` names.
    pub records: Vec<Use>,
}

impl Names {
    /// The names in an expression.
    pub fn of_expression(source: &str) -> Result<Names, SyntaxError> {
        let tree = parse_expr(source).map_err(|error| SyntaxError::new(&error))?;
        let mut walk = Walk::default();
        walk.expr(&tree);
        Ok(walk.finish())
    }

    /// The names in a text with holes.
    pub fn of_text(source: &str) -> Result<Names, SyntaxError> {
        let tree =
            parse(source, "", SyntaxConfig::default()).map_err(|error| SyntaxError::new(&error))?;
        let mut walk = Walk::default();
        walk.stmt(&tree);
        Ok(walk.finish())
    }
}

/// Why something does not parse.
#[derive(Clone, Debug)]
pub struct SyntaxError {
    pub message: String,
    pub range: Option<Range<usize>>,
}

impl SyntaxError {
    fn new(error: &minijinja::Error) -> SyntaxError {
        let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
        SyntaxError { message, range: error.range() }
    }
}

#[derive(Default)]
struct Walk {
    names: Names,
    /// Names that the text itself defines (`for`, `set`, `with`), innermost last.
    locals: Vec<HashSet<String>>,
}

fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

fn used(name: &str, span: Span) -> Use {
    Use { path: vec![name.to_string()], range: range(span) }
}

/// A text that an argument gives literally.
fn constant(arg: &CallArg) -> Option<Use> {
    match arg {
        CallArg::Pos(Expr::Const(text)) => Some(used(text.value.as_str()?, text.span())),
        _ => None,
    }
}

impl Walk {
    fn finish(self) -> Names {
        self.names
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|scope| scope.contains(name))
    }

    fn define(&mut self, name: &str) {
        if self.locals.is_empty() {
            self.locals.push(HashSet::new());
        }
        if let Some(scope) = self.locals.last_mut() {
            scope.insert(name.to_string());
        }
    }

    /// The path of `a.b.c`, where the expression is only that.
    fn path(expr: &Expr) -> Option<(Vec<String>, Range<usize>)> {
        match expr {
            Expr::Var(var) => Some((vec![var.id.to_string()], range(var.span()))),
            Expr::GetAttr(attr) => {
                let (mut path, start) = Walk::path(&attr.expr)?;
                path.push(attr.name.to_string());
                Some((path, start.start..range(attr.span()).end))
            }
            _ => None,
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if let Some((path, range)) = Walk::path(expr) {
            if !self.is_local(&path[0]) {
                self.names.variables.push(Use { path, range });
            }
            return;
        }
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expr(&slice.expr);
                for bound in [&slice.start, &slice.stop, &slice.step].into_iter().flatten() {
                    self.expr(bound);
                }
            }
            Expr::UnaryOp(op) => self.expr(&op.expr),
            Expr::BinOp(op) => {
                self.expr(&op.left);
                self.expr(&op.right);
            }
            Expr::Compare(compare) => {
                self.expr(&compare.expr);
                for op in &compare.ops {
                    self.expr(&op.expr);
                }
            }
            Expr::IfExpr(cond) => {
                self.expr(&cond.test_expr);
                self.expr(&cond.true_expr);
                if let Some(other) = &cond.false_expr {
                    self.expr(other);
                }
            }
            Expr::Filter(filter) => {
                self.names.filters.push(used(filter.name, filter.span()));
                // These filters name a test: `selectattr('done', 'true')`.
                let test = match filter.name {
                    "select" | "reject" => filter.args.first(),
                    "selectattr" | "rejectattr" => filter.args.get(1),
                    _ => None,
                };
                self.names.tests.extend(test.and_then(constant));
                if let Some(inner) = &filter.expr {
                    self.expr(inner);
                }
                self.args(&filter.args);
            }
            Expr::Test(test) => {
                self.names.tests.push(used(test.name, test.span()));
                self.expr(&test.expr);
                self.args(&test.args);
            }
            Expr::GetAttr(attr) => self.expr(&attr.expr),
            Expr::GetItem(item) => {
                self.expr(&item.expr);
                self.expr(&item.subscript_expr);
            }
            Expr::Call(call) => {
                match &call.expr {
                    Expr::Var(var) => {
                        self.names.functions.push(used(var.id, var.span()));
                        if var.id == "json" {
                            self.names.records.extend(call.args.get(1).and_then(constant));
                        }
                    }
                    // A method: the value it is called on is read; the method itself is not a member.
                    Expr::GetAttr(attr) => self.expr(&attr.expr),
                    other => self.expr(other),
                }
                self.args(&call.args);
            }
            Expr::List(list) => list.items.iter().for_each(|item| self.expr(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.expr(item)),
            Expr::Map(map) => {
                map.keys.iter().chain(&map.values).for_each(|item| self.expr(item));
            }
        }
    }

    fn args(&mut self, args: &[CallArg]) {
        for arg in args {
            match arg {
                CallArg::Pos(expr)
                | CallArg::Kwarg(_, expr)
                | CallArg::PosSplat(expr)
                | CallArg::KwargSplat(expr) => self.expr(expr),
            }
        }
    }

    fn local(&mut self, target: &Expr) {
        match target {
            Expr::Var(var) => self.define(var.id),
            Expr::List(list) => list.items.iter().for_each(|item| self.local(item)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.local(item)),
            _ => {}
        }
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Template(template) => self.body(&template.children),
            Stmt::EmitExpr(emit) => self.expr(&emit.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => {
                self.expr(&each.iter);
                self.locals.push(HashSet::new());
                self.define("loop");
                self.local(&each.target);
                if let Some(filter) = &each.filter_expr {
                    self.expr(filter);
                }
                self.body(&each.body);
                self.locals.pop();
                self.body(&each.else_body);
            }
            Stmt::IfCond(cond) => {
                self.expr(&cond.expr);
                self.body(&cond.true_body);
                self.body(&cond.false_body);
            }
            Stmt::WithBlock(with) => {
                self.locals.push(HashSet::new());
                for (target, value) in &with.assignments {
                    self.expr(value);
                    self.local(target);
                }
                self.body(&with.body);
                self.locals.pop();
            }
            Stmt::Set(set) => {
                self.expr(&set.expr);
                self.local(&set.target);
            }
            Stmt::SetBlock(set) => {
                self.local(&set.target);
                self.body(&set.body);
            }
            Stmt::AutoEscape(block) => self.body(&block.body),
            Stmt::FilterBlock(block) => {
                self.expr(&block.filter);
                self.body(&block.body);
            }
            Stmt::Do(call) => self.args(&call.call.args),
        }
    }
}

/// A guard, taken apart at its `and`, `or` and `not`, so that a trace can show which part failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    All(Vec<Parts>),
    Any(Vec<Parts>),
    Not(Box<Parts>),
    /// A range of the guard's source.
    Leaf(Range<usize>),
}

impl Parts {
    /// Takes a guard apart. A guard that is not a plain combination is one leaf.
    pub fn of(guard: &str) -> Parts {
        let mut tokens = Vec::new();
        for (token, span) in tokenize(guard, true, SyntaxConfig::default()).map_while(Result::ok) {
            let kind = match token {
                Token::Ident("and") => Kind::And,
                Token::Ident("or") => Kind::Or,
                Token::Ident("not") => Kind::Not,
                Token::Ident("if") => Kind::If,
                Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => Kind::Open,
                Token::ParenClose | Token::BracketClose | Token::BraceClose => Kind::Close,
                _ => Kind::Other,
            };
            tokens.push((kind, range(span)));
        }
        parts(&tokens, guard).unwrap_or(Parts::Leaf(0..guard.len()))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    And,
    Or,
    Not,
    If,
    Open,
    Close,
    Other,
}

type Tokens<'t> = &'t [(Kind, Range<usize>)];

fn parts(tokens: Tokens, guard: &str) -> Option<Parts> {
    let whole = tokens.first()?.1.start..tokens.last()?.1.end;
    let split = |at: Kind| -> Vec<Tokens> {
        let mut depth = 0;
        let mut pieces = Vec::new();
        let mut start = 0;
        for (index, (kind, _)) in tokens.iter().enumerate() {
            match kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                kind if *kind == at && depth == 0 => {
                    pieces.push(&tokens[start..index]);
                    start = index + 1;
                }
                _ => {}
            }
        }
        pieces.push(&tokens[start..]);
        pieces
    };
    let all_of = |pieces: Vec<Tokens>| -> Option<Vec<Parts>> {
        pieces.into_iter().map(|piece| parts(piece, guard)).collect()
    };
    if split(Kind::If).len() > 1 {
        return Some(Parts::Leaf(whole));
    }
    let alternatives = split(Kind::Or);
    if alternatives.len() > 1 {
        return all_of(alternatives).map(Parts::Any);
    }
    let conditions = split(Kind::And);
    if conditions.len() > 1 {
        return all_of(conditions).map(Parts::All);
    }
    if tokens[0].0 == Kind::Not {
        return parts(&tokens[1..], guard).map(|inner| Parts::Not(Box::new(inner)));
    }
    let last = tokens.len() - 1;
    if last > 1 && &guard[tokens[0].1.clone()] == "(" && closes_at(tokens) == last {
        return parts(&tokens[1..last], guard);
    }
    Some(Parts::Leaf(whole))
}

/// Where the bracket that the first token opens is closed.
fn closes_at(tokens: Tokens) -> usize {
    let mut depth = 0;
    for (index, (kind, _)) in tokens.iter().enumerate() {
        match kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &Parts, guard: &str) -> String {
        let list = |items: &[Parts]| {
            items.iter().map(|item| shown(item, guard)).collect::<Vec<_>>().join("; ")
        };
        match parts {
            Parts::All(items) => format!("all({})", list(items)),
            Parts::Any(items) => format!("any({})", list(items)),
            Parts::Not(inner) => format!("not({})", shown(inner, guard)),
            Parts::Leaf(range) => guard[range.clone()].to_string(),
        }
    }

    #[test]
    fn guards_come_apart_at_their_connectives() {
        for (guard, expected) in [
            ("a", "a"),
            ("a and b or c", "any(all(a; b); c)"),
            ("not a and b", "all(not(a); b)"),
            ("not (a or b.c == 'x and y')", "not(any(a; b.c == 'x and y'))"),
            ("a not in b and (c)", "all(a not in b; c)"),
            ("(a) + (b) > 2", "(a) + (b) > 2"),
            ("x if a and b else y", "x if a and b else y"),
            ("f(a or b) and [c or d]", "all(f(a or b); [c or d])"),
            ("a is not none", "a is not none"),
        ] {
            assert_eq!(shown(&Parts::of(guard), guard), expected, "{guard}");
        }
    }

    #[test]
    fn names_are_found_with_their_places() {
        let source = "state.a.b == X and (entries | selectattr('s') | list) is not none and f(y)";
        let names = Names::of_expression(source).unwrap();
        let variables: Vec<String> = names.variables.iter().map(Use::dotted).collect();
        assert_eq!(variables, ["state.a.b", "X", "entries", "y"]);
        assert_eq!(&source[names.variables[0].range.clone()], "state.a.b");
        assert_eq!(names.functions[0].dotted(), "f");
        assert_eq!(names.filters.len(), 2);
        assert_eq!(names.tests.len(), 1);
    }

    #[test]
    fn what_a_text_defines_itself_is_no_outside_name() {
        let names = Names::of_text("{% for x in xs %}{{ x.y }}{{ loop.index }}{{ z }}{% endfor %}")
            .unwrap();
        let variables: Vec<String> = names.variables.iter().map(Use::dotted).collect();
        assert_eq!(variables, ["xs", "z"]);
    }
}
