//! From expressions to conditions. Facts (`let`, `choose`) are unfolded to what they are derived from.

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};
use minijinja::machinery::parse_expr;

use super::{Formula, Kind, Scalar, Subjects, Test};
use crate::json::Json;
use crate::names::{CHECK, lineage, type_of};
use crate::types::Type;
use crate::workflow::{Expression, MachineId, NewValue, Workflow};

/// How deep facts are unfolded, and into how many alternatives.
const MAX_DEPTH: usize = 24;
const MAX_WAYS: usize = 24;

/// Reads the expressions of one machine.
pub(crate) struct Reader<'w, 's> {
    pub(crate) workflow: &'w Workflow,
    pub(crate) machine: MachineId,
    pub(crate) subjects: &'s mut Subjects,
}

/// What an expression may be, and when.
enum Leaf {
    Is(Scalar),
    Subject(String, Kind),
    /// Its truth is this condition, and nothing else is known of it.
    Truth(Formula),
}

type Ways = Vec<(Formula, Leaf)>;

impl Reader<'_, '_> {
    /// When an expression counts as true.
    pub(crate) fn truth(&mut self, expression: &Expression) -> Formula {
        self.truth_of(&expression.text, 0)
    }

    /// When an expression is this text.
    pub(crate) fn is(&mut self, expression: &Expression, text: &str) -> Formula {
        let Ok(tree) = parse_expr(&expression.text) else { return Formula::Known(true) };
        self.compared(&tree, &Test::Is(Scalar::Text(text.into())), 0)
    }

    /// When a subject passes a test, whatever reads it.
    pub(crate) fn test(&mut self, path: &[&str], test: Test) -> Formula {
        let path: Vec<String> = path.iter().map(|it| (*it).to_string()).collect();
        let kind = self.kind(&path);
        self.subjects.test(path.join("."), kind, test)
    }

    fn truth_of(&mut self, text: &str, depth: usize) -> Formula {
        match parse_expr(text) {
            Ok(tree) => self.holds(&tree, depth),
            Err(_) => self.subjects.test(text.to_string(), Kind::Anything, Test::True),
        }
    }

    fn holds(&mut self, expr: &Expr, depth: usize) -> Formula {
        match expr {
            Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Not) => {
                self.holds(&op.expr, depth).not()
            }
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScAnd) => {
                let left = self.holds(&op.left, depth);
                left.and(self.holds(&op.right, depth))
            }
            Expr::BinOp(op) if matches!(op.op, BinOpKind::ScOr) => {
                let left = self.holds(&op.left, depth);
                left.or(self.holds(&op.right, depth))
            }
            Expr::Compare(compare) => {
                let [op] = compare.ops.as_slice() else { return self.opaque(expr) };
                self.comparison(expr, &compare.expr, op.op, &op.expr, depth)
            }
            Expr::BinOp(op) => {
                let kind = match op.op {
                    BinOpKind::Eq => CompareOpKind::Eq,
                    BinOpKind::Ne => CompareOpKind::Ne,
                    BinOpKind::Lt => CompareOpKind::Lt,
                    BinOpKind::Lte => CompareOpKind::Lte,
                    BinOpKind::Gt => CompareOpKind::Gt,
                    BinOpKind::Gte => CompareOpKind::Gte,
                    _ => return self.compared(expr, &Test::True, depth),
                };
                self.comparison(expr, &op.left, kind, &op.right, depth)
            }
            Expr::Test(test) if test.args.is_empty() => match test.name {
                "none" => self.compared(&test.expr, &Test::Is(Scalar::None), depth),
                "true" => self.compared(&test.expr, &Test::Is(Scalar::Bool(true)), depth),
                "false" => self.compared(&test.expr, &Test::Is(Scalar::Bool(false)), depth),
                _ => self.opaque(expr),
            },
            Expr::Test(_) => self.opaque(expr),
            _ => self.compared(expr, &Test::True, depth),
        }
    }

    fn comparison(
        &mut self,
        whole: &Expr,
        left: &Expr,
        op: CompareOpKind,
        right: &Expr,
        depth: usize,
    ) -> Formula {
        use CompareOpKind as Op;
        if matches!(op, Op::In | Op::NotIn) {
            let Some(values) = constants(right) else { return self.opaque(whole) };
            let mut any = Formula::Known(false);
            for value in values {
                any = any.or(self.compared(left, &Test::Is(value), depth));
            }
            return if matches!(op, Op::In) { any } else { any.not() };
        }
        // A constant on the left is the same the other way round.
        let (subject, value, op) = match (scalar(left), scalar(right)) {
            (_, Some(value)) => (left, value, op),
            (Some(value), None) => {
                let turned = match op {
                    Op::Lt => Op::Gt,
                    Op::Lte => Op::Gte,
                    Op::Gt => Op::Lt,
                    Op::Gte => Op::Lte,
                    other => other,
                };
                (right, value, turned)
            }
            (None, None) => return self.opaque(whole),
        };
        match (op, value) {
            (Op::Eq, value) => self.compared(subject, &Test::Is(value), depth),
            (Op::Ne, value) => self.compared(subject, &Test::Is(value), depth).not(),
            (Op::Lt, Scalar::Number(it)) => self.compared(subject, &Test::Below(it), depth),
            (Op::Lte, Scalar::Number(it)) => self.compared(subject, &Test::AtMost(it), depth),
            (Op::Gt, Scalar::Number(it)) => self.compared(subject, &Test::AtMost(it), depth).not(),
            (Op::Gte, Scalar::Number(it)) => self.compared(subject, &Test::Below(it), depth).not(),
            _ => self.opaque(whole),
        }
    }

    fn compared(&mut self, expr: &Expr, test: &Test, depth: usize) -> Formula {
        let ways = self.ways(expr, depth);
        if ways.len() > MAX_WAYS {
            return self.opaque_test(expr, test);
        }
        let mut any = Formula::Known(false);
        for (when, leaf) in ways {
            let holds = match leaf {
                Leaf::Is(scalar) => match super::Class::Scalar(scalar).holds(test) {
                    Some(known) => Formula::Known(known),
                    None => self.opaque_test(expr, &Test::True),
                },
                Leaf::Subject(name, kind) => self.subjects.test(name, kind, test.clone()),
                Leaf::Truth(truth) => match test {
                    Test::True | Test::Is(Scalar::Bool(true)) => truth,
                    Test::Is(Scalar::Bool(false)) => truth.not(),
                    _ => self.opaque_test(expr, test),
                },
            };
            any = any.or(when.and(holds));
        }
        any
    }

    fn opaque(&mut self, expr: &Expr) -> Formula {
        self.subjects.test(shown(expr), Kind::Flag, Test::True)
    }

    fn opaque_test(&mut self, expr: &Expr, test: &Test) -> Formula {
        self.subjects.test(shown(expr), Kind::Anything, test.clone())
    }

    /// What an expression may come to.
    fn ways(&mut self, expr: &Expr, depth: usize) -> Ways {
        let always = |leaf: Leaf| vec![(Formula::Known(true), leaf)];
        if let Some(scalar) = scalar(expr) {
            return always(Leaf::Is(scalar));
        }
        if depth < MAX_DEPTH {
            match expr {
                Expr::IfExpr(cond) => {
                    let test = self.holds(&cond.test_expr, depth + 1);
                    let mut ways = guarded(&test, self.ways(&cond.true_expr, depth + 1));
                    if let Some(other) = &cond.false_expr {
                        ways.extend(guarded(&test.not(), self.ways(other, depth + 1)));
                    }
                    return ways;
                }
                Expr::Var(var) => {
                    if let Some(ways) = self.fact(var.id, depth + 1) {
                        return ways;
                    }
                }
                Expr::Compare(_) | Expr::Test(_) | Expr::UnaryOp(_) => {
                    return always(Leaf::Truth(self.holds(expr, depth + 1)));
                }
                _ => {}
            }
        }
        let (name, kind) = match path(expr) {
            Some(path) => (path.join("."), self.kind(&path)),
            None => (shown(expr), call_kind(expr)),
        };
        always(Leaf::Subject(name, kind))
    }

    /// What a derived fact may come to.
    fn fact(&mut self, name: &str, depth: usize) -> Option<Ways> {
        let workflow = self.workflow;
        for id in lineage(workflow, self.machine) {
            let machine = workflow.machine(id);
            if let Some((_, fact)) = machine.lets.iter().find(|(known, _)| &**known == name) {
                let tree = parse_expr(&fact.text).ok()?;
                if let Expr::BinOp(op) = &tree
                    && matches!(op.op, BinOpKind::ScAnd | BinOpKind::ScOr)
                {
                    let truth = self.holds(&tree, depth);
                    return Some(vec![(Formula::Known(true), Leaf::Truth(truth))]);
                }
                return Some(self.ways(&tree, depth));
            }
            if let Some(choice) = machine.choices.iter().find(|it| &*it.name == name) {
                let mut ways = Vec::new();
                let mut before = Formula::Known(true);
                for row in &choice.rows {
                    let when = match &row.when {
                        Some(when) => self.truth_of(&when.text, depth),
                        None => Formula::Known(true),
                    };
                    let here = before.clone().and(when.clone());
                    before = before.and(when.not());
                    let own = match &row.value {
                        NewValue::Literal(value) => {
                            vec![(Formula::Known(true), Leaf::Is(of_json(value)?))]
                        }
                        NewValue::Expression(value) => {
                            self.ways(&parse_expr(&value.text).ok()?, depth)
                        }
                        NewValue::Rendered(_) => return None,
                    };
                    ways.extend(guarded(&here, own));
                }
                return Some(ways);
            }
        }
        None
    }

    fn kind(&self, path: &[String]) -> Kind {
        if path[0] == CHECK && path.get(2).is_some_and(|it| it == "ok") {
            return Kind::Flag;
        }
        let workflow = self.workflow;
        let found = lineage(workflow, self.machine)
            .into_iter()
            .find(|id| *workflow.machine(*id).name == *path[0]);
        let Some(id) = found else { return Kind::Anything };
        let mut ty = type_of(workflow, id);
        let mut optional = false;
        for member in &path[1..] {
            let Type::Record(record) = ty else { return Kind::Anything };
            let record = workflow.records.get(record);
            let Some(field) = record.field(member) else { return Kind::Anything };
            optional = field.optional;
            ty = field.ty.clone();
        }
        Kind::Typed(ty, optional)
    }
}

fn guarded(when: &Formula, ways: Ways) -> Ways {
    ways.into_iter().map(|(also, leaf)| (when.clone().and(also), leaf)).collect()
}

fn of_json(value: &Json) -> Option<Scalar> {
    Some(match value {
        Json::Null => Scalar::None,
        Json::Bool(it) => Scalar::Bool(*it),
        Json::Number(it) => Scalar::Number(it.as_f64()?),
        Json::String(it) => Scalar::Text(it.to_string()),
        _ => return None,
    })
}

fn scalar(expr: &Expr) -> Option<Scalar> {
    match expr {
        Expr::Const(it) => of_value(&it.value),
        Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Neg) => match scalar(&op.expr)? {
            Scalar::Number(it) => Some(Scalar::Number(-it)),
            _ => None,
        },
        _ => None,
    }
}

fn of_value(value: &Value) -> Option<Scalar> {
    of_json(&Json::from_value(value).ok()?)
}

fn constants(expr: &Expr) -> Option<Vec<Scalar>> {
    match expr {
        Expr::List(list) => list.items.iter().map(scalar).collect(),
        Expr::Tuple(list) => list.items.iter().map(scalar).collect(),
        Expr::Const(it) => it.value.try_iter().ok()?.map(|it| of_value(&it)).collect(),
        _ => None,
    }
}

/// `a.b.c`, also where it is written as `a.get('b')`.
fn path(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::Var(var) => Some(vec![var.id.to_string()]),
        Expr::GetAttr(attr) => {
            let mut path = path(&attr.expr)?;
            path.push(attr.name.to_string());
            Some(path)
        }
        Expr::Call(call) => match (&call.expr, call.args.as_slice()) {
            (Expr::GetAttr(attr), [CallArg::Pos(Expr::Const(name))]) if attr.name == "get" => {
                let mut path = path(&attr.expr)?;
                path.push(name.value.as_str()?.to_string());
                Some(path)
            }
            _ => None,
        },
        _ => None,
    }
}

fn call_kind(expr: &Expr) -> Kind {
    match expr {
        Expr::Call(call) if matches!(&call.expr, Expr::Var(it) if it.id == "exists") => Kind::Flag,
        Expr::Filter(filter) if ["length", "count"].contains(&filter.name) => Kind::Count,
        _ => Kind::Anything,
    }
}

/// An expression in one way of writing it.
fn shown(expr: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(shown).collect::<Vec<_>>().join(", ");
    let args = |args: &[CallArg]| {
        let args = args.iter().map(|arg| match arg {
            CallArg::Pos(it) => shown(it),
            CallArg::Kwarg(name, it) => format!("{name}={}", shown(it)),
            CallArg::PosSplat(it) => format!("*{}", shown(it)),
            CallArg::KwargSplat(it) => format!("**{}", shown(it)),
        });
        args.collect::<Vec<_>>().join(", ")
    };
    if let Some(path) = path(expr) {
        return path.join(".");
    }
    match expr {
        Expr::Var(var) => var.id.to_string(),
        Expr::Const(it) => Json::from_value(&it.value).map_or_else(
            |_| it.value.to_string(),
            |it| it.to_text(None).trim_end().replace('"', "'"),
        ),
        Expr::Slice(it) => {
            let bound = |it: &Option<Expr>| it.as_ref().map(shown).unwrap_or_default();
            format!(
                "{}[{}:{}:{}]",
                shown(&it.expr),
                bound(&it.start),
                bound(&it.stop),
                bound(&it.step)
            )
        }
        Expr::UnaryOp(it) => match it.op {
            UnaryOpKind::Not => format!("not {}", shown(&it.expr)),
            UnaryOpKind::Neg => format!("-{}", shown(&it.expr)),
        },
        Expr::BinOp(it) => {
            format!("({} {} {})", shown(&it.left), operator(it.op), shown(&it.right))
        }
        Expr::Compare(it) => {
            let ops = it.ops.iter().map(|op| format!(" {} {}", comparison(op.op), shown(&op.expr)));
            format!("{}{}", shown(&it.expr), ops.collect::<String>())
        }
        Expr::IfExpr(it) => format!(
            "({} if {} else {})",
            shown(&it.true_expr),
            shown(&it.test_expr),
            it.false_expr.as_ref().map(shown).unwrap_or_default()
        ),
        Expr::Filter(it) => {
            let of = it.expr.as_ref().map(shown).unwrap_or_default();
            let args =
                if it.args.is_empty() { String::new() } else { format!("({})", args(&it.args)) };
            format!("{of} | {}{args}", it.name)
        }
        Expr::Test(it) if it.args.is_empty() => format!("{} is {}", shown(&it.expr), it.name),
        Expr::Test(it) => format!("{} is {}({})", shown(&it.expr), it.name, args(&it.args)),
        Expr::GetAttr(it) => format!("{}.{}", shown(&it.expr), it.name),
        Expr::GetItem(it) => format!("{}[{}]", shown(&it.expr), shown(&it.subscript_expr)),
        Expr::Call(it) => format!("{}({})", shown(&it.expr), args(&it.args)),
        Expr::List(it) => format!("[{}]", list(&it.items)),
        Expr::Tuple(it) => format!("({})", list(&it.items)),
        Expr::Map(it) => format!("{{{} : {}}}", list(&it.keys), list(&it.values)),
    }
}

fn comparison(op: CompareOpKind) -> &'static str {
    match op {
        CompareOpKind::Eq => "==",
        CompareOpKind::Ne => "!=",
        CompareOpKind::Lt => "<",
        CompareOpKind::Lte => "<=",
        CompareOpKind::Gt => ">",
        CompareOpKind::Gte => ">=",
        CompareOpKind::In => "in",
        CompareOpKind::NotIn => "not in",
    }
}

fn operator(op: BinOpKind) -> &'static str {
    match op {
        BinOpKind::Eq => "==",
        BinOpKind::Ne => "!=",
        BinOpKind::Lt => "<",
        BinOpKind::Lte => "<=",
        BinOpKind::Gt => ">",
        BinOpKind::Gte => ">=",
        BinOpKind::ScAnd => "and",
        BinOpKind::ScOr => "or",
        BinOpKind::Add => "+",
        BinOpKind::Sub => "-",
        BinOpKind::Mul => "*",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Rem => "%",
        BinOpKind::Pow => "**",
        BinOpKind::Concat => "~",
        BinOpKind::In => "in",
    }
}
