//! From the parser's tree to a [`TemplateProgram`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use minijinja::Value;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CompareOpKind, UnaryOpKind};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

use crate::python::library::filter_names::is_filter;
use crate::python::library::functions::FUNCTIONS;
use crate::python::library::tests::is_test;
use crate::python::python_attributes::{is_dict_method, is_method};
use crate::python::python_ops::truth;
use crate::templates::interpreter::escapes::in_parsers_words;
use crate::templates::interpreter::limits::check_syntax_depth;
use crate::templates::interpreter::program::{
    Arguments, Comparison, Expression, For, LoopField, Macro, Name, Operator, Statement, StatementKind, Target,
    TemplateProgram, UnknownName,
};

impl TemplateProgram {
    /// The program of a template.
    ///
    /// # Errors
    ///
    /// What is wrong with its syntax, or how it is larger or deeper than templates may be.
    pub(crate) fn compile(source: &str, syntax: SyntaxConfig) -> Result<Self, String> {
        let source = &*in_parsers_words(source, syntax.clone())?;
        check_syntax_depth(source, syntax.clone())?;
        let parsed = parse(source, "chat_template", syntax).map_err(|error| error.to_string())?;
        let ast::Stmt::Template(template) = parsed else { return Err("this is no template".to_owned()) };
        let mut compiler = Compiler::default();
        let body = compiler.statements(&template.children);
        compiler.program.body = body;
        let is_given = |name: &str| FUNCTIONS.contains(&name);
        compiler.program.reads.retain(|name| !is_given(name));
        // A macro may be called above the line that declares it.
        for (name, line) in std::mem::take(&mut compiler.called) {
            if !is_given(&name) && !compiler.ever_assigned.contains(&name) {
                compiler.line = line;
                compiler.note_unknown("function", &name);
            }
        }
        compiler.program.unknown.sort_by_key(|unknown| unknown.line);
        Ok(compiler.program)
    }
}

/// Where in a template the part stands that is being taken in.
#[derive(Default)]
struct Compiler {
    program: TemplateProgram,
    places: HashMap<Box<str>, Name>,
    /// Names that are called, each with its first line, and all that the template gives a value anywhere.
    called: BTreeMap<Box<str>, usize>,
    ever_assigned: BTreeSet<Box<str>>,
    /// Names that have a value here, by scope.
    assigned: Vec<BTreeSet<Box<str>>>,
    in_loop: bool,
    line: usize,
    nesting: usize,
    deepest: usize,
    /// Names with a meaning of their own in macros, as far as this one reads them.
    special: BTreeSet<&'static str>,
}

impl Compiler {
    fn name(&mut self, name: &str) -> Name {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.program.names.len();
        self.program.names.push(name.into());
        self.places.insert(name.into(), place);
        place
    }

    fn read(&mut self, name: &str) -> Name {
        if let Some(special) = ["varargs", "kwargs", "caller"].into_iter().find(|special| *special == name) {
            self.special.insert(special);
        }
        if !self.assigned.iter().any(|scope| scope.contains(name)) {
            self.program.reads.insert(name.into());
        }
        self.name(name)
    }

    fn assign(&mut self, name: &str) -> Name {
        if self.assigned.is_empty() {
            self.assigned.push(BTreeSet::new());
        }
        if let Some(scope) = self.assigned.last_mut() {
            scope.insert(name.into());
        }
        self.ever_assigned.insert(name.into());
        self.name(name)
    }

    fn target(&mut self, target: &ast::Expr<'_>) -> Target {
        match target {
            ast::Expr::Var(variable) => Target::Name(self.assign(variable.id)),
            ast::Expr::GetAttr(attribute) => match &attribute.expr {
                ast::Expr::Var(variable) => Target::Field(self.read(variable.id), attribute.name.into()),
                _ => Target::Unpack(Vec::new()),
            },
            ast::Expr::List(list) => Target::Unpack(list.items.iter().map(|item| self.target(item)).collect()),
            ast::Expr::Tuple(tuple) => Target::Unpack(tuple.items.iter().map(|item| self.target(item)).collect()),
            _ => Target::Unpack(Vec::new()),
        }
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.nesting += 1;
        self.deepest = self.deepest.max(self.nesting);
        let made = inner(self);
        self.nesting -= 1;
        made
    }

    fn statements(&mut self, statements: &[ast::Stmt<'_>]) -> Vec<Statement> {
        self.deeper(|this| statements.iter().map(|statement| this.statement(statement)).collect())
    }

    fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.assigned.push(BTreeSet::new());
        let made = inner(self);
        self.assigned.pop();
        made
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) -> Statement {
        let line = line_of(statement);
        self.line = line;
        let kind = match statement {
            ast::Stmt::Template(template) => StatementKind::With(Vec::new(), self.statements(&template.children)),
            ast::Stmt::EmitRaw(raw) => StatementKind::Raw(raw.raw.into()),
            ast::Stmt::EmitExpr(emitted) => StatementKind::Emit(self.expression(&emitted.expr)),
            ast::Stmt::IfCond(condition) => StatementKind::If(
                self.expression(&condition.expr),
                self.statements(&condition.true_body),
                self.statements(&condition.false_body),
            ),
            ast::Stmt::ForLoop(repeated) => self.for_loop(repeated),
            ast::Stmt::WithBlock(with) => self.with_block(with),
            ast::Stmt::Set(set) => {
                let value = self.expression(&set.expr);
                StatementKind::Set(self.target(&set.target), value)
            }
            ast::Stmt::SetBlock(set) => {
                let filter = set.filter.as_ref().map(|filter| self.expression(filter));
                let body = self.scoped(|this| this.statements(&set.body));
                StatementKind::SetBlock(self.target(&set.target), filter, body)
            }
            // Nothing is escaped here, so that only a block that says so is taken.
            ast::Stmt::AutoEscape(block) if !is_constant_false(&block.enabled) => {
                self.note_unknown("statement", "autoescape");
                StatementKind::Fail("a chat template cannot turn escaping on (`autoescape`)")
            }
            ast::Stmt::AutoEscape(block) => self.block(&block.body),
            ast::Stmt::FilterBlock(block) => {
                let filter = self.expression(&block.filter);
                StatementKind::FilterBlock(filter, self.scoped(|this| this.statements(&block.body)))
            }
            ast::Stmt::Block(block) => self.block(&block.body),
            ast::Stmt::Import(_) | ast::Stmt::FromImport(_) => StatementKind::Fail("a chat template cannot import"),
            ast::Stmt::Extends(_) => StatementKind::Fail("a chat template cannot extend another"),
            ast::Stmt::Include(_) => StatementKind::Fail("a chat template cannot include another"),
            ast::Stmt::Macro(declared) => {
                let name = self.assign(declared.name);
                let index = self.declare_macro(declared);
                StatementKind::DefineMacro(name, index)
            }
            ast::Stmt::CallBlock(block) => {
                let call = self.call(&block.call);
                let index = self.declare_macro(&block.macro_decl);
                StatementKind::CallBlock(call, index)
            }
            ast::Stmt::Do(called) => StatementKind::Do(self.call(&called.call)),
            ast::Stmt::Continue(_) => StatementKind::Continue,
            ast::Stmt::Break(_) => StatementKind::Break,
        };
        Statement { line, kind }
    }

    fn block(&mut self, body: &[ast::Stmt<'_>]) -> StatementKind {
        StatementKind::With(Vec::new(), self.scoped(|this| this.statements(body)))
    }

    fn with_block(&mut self, with: &ast::WithBlock<'_>) -> StatementKind {
        self.scoped(|this| {
            let mut assignments = Vec::new();
            for (target, value) in &with.assignments {
                let value = this.expression(value);
                assignments.push((this.target(target), value));
            }
            StatementKind::With(assignments, this.statements(&with.body))
        })
    }

    fn for_loop(&mut self, repeated: &ast::ForLoop<'_>) -> StatementKind {
        let from = self.nesting;
        let outer_deepest = std::mem::replace(&mut self.deepest, from);
        let items = self.expression(&repeated.iter);
        let outer = self.in_loop;
        let (target, filter, body) = self.scoped(|this| {
            let target = this.target(&repeated.target);
            this.in_loop = false;
            let filter = repeated.filter_expr.as_ref().map(|filter| this.expression(filter));
            this.in_loop = true;
            (target, filter, this.statements(&repeated.body))
        });
        self.in_loop = outer;
        let otherwise = self.scoped(|this| this.statements(&repeated.else_body));
        let index = self.program.loops.len();
        let depth = self.deepest - from;
        self.deepest = self.deepest.max(outer_deepest);
        let recursive = repeated.recursive.then_some(index);
        self.program.loops.push(For { target, items, filter, body, otherwise, recursive, depth });
        StatementKind::For(index)
    }

    fn declare_macro(&mut self, declared: &ast::Macro<'_>) -> usize {
        let index = self.program.macros.len();
        self.program.macros.push(Macro::default());
        let from = self.nesting;
        let outer_deepest = std::mem::replace(&mut self.deepest, from);
        let outer_special = std::mem::take(&mut self.special);
        let outer_loop = std::mem::replace(&mut self.in_loop, false);
        let required = declared.args.len().saturating_sub(declared.defaults.len());
        let (parameters, body) = self.scoped(|this| {
            let mut parameters: Vec<(Name, Box<str>, Option<Expression>)> = Vec::new();
            for (place, parameter) in declared.args.iter().enumerate() {
                let ast::Expr::Var(variable) = parameter else { continue };
                let default = place.checked_sub(required).and_then(|place| declared.defaults.get(place));
                let default = default.map(|default| this.expression(default));
                parameters.push((this.assign(variable.id), variable.id.into(), default));
            }
            for special in ["varargs", "kwargs", "caller"] {
                this.assign(special);
            }
            (parameters, this.statements(&declared.body))
        });
        let special = std::mem::replace(&mut self.special, outer_special);
        self.in_loop = outer_loop;
        let is_parameter = |name: &str| parameters.iter().any(|(_, own, _)| **own == *name);
        let mut own = |name: &'static str| (special.contains(name) && !is_parameter(name)).then(|| self.name(name));
        let (varargs, kwargs, caller) = (own("varargs"), own("kwargs"), own("caller"));
        let depth = self.deepest - from;
        self.deepest = self.deepest.max(outer_deepest);
        self.program.macros[index] =
            Macro { name: declared.name.into(), parameters, varargs, kwargs, caller, body, depth };
        index
    }

    fn boxed(&mut self, expression: &ast::Expr<'_>) -> Box<Expression> {
        Box::new(self.expression(expression))
    }

    fn expressions(&mut self, expressions: &[ast::Expr<'_>]) -> Vec<Expression> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn expression(&mut self, expression: &ast::Expr<'_>) -> Expression {
        self.deeper(|this| this.expression_here(expression))
    }

    fn expression_here(&mut self, expression: &ast::Expr<'_>) -> Expression {
        match expression {
            ast::Expr::Const(constant) => Expression::Constant(constant.value.clone()),
            ast::Expr::Var(variable) if variable.id == "loop" && self.in_loop => Expression::LoopValue,
            ast::Expr::Var(variable) => Expression::Variable(self.read(variable.id)),
            ast::Expr::GetAttr(attribute) => self.attribute(attribute),
            ast::Expr::GetItem(item) => Expression::Item(self.boxed(&item.expr), self.boxed(&item.subscript_expr)),
            ast::Expr::Slice(slice) => {
                let mut end = |end: &Option<ast::Expr<'_>>| match end {
                    Some(end) => self.expression(end),
                    None => Expression::Constant(Value::from(())),
                };
                let (start, stop, step) = (end(&slice.start), end(&slice.stop), end(&slice.step));
                Expression::Slice(Box::new([self.expression(&slice.expr), start, stop, step]))
            }
            ast::Expr::UnaryOp(operation) => match operation.op {
                UnaryOpKind::Not => Expression::Not(self.boxed(&operation.expr)),
                UnaryOpKind::Neg => Expression::Negate(self.boxed(&operation.expr)),
            },
            ast::Expr::BinOp(operation) => self.operation(operation),
            ast::Expr::Compare(compared) => {
                let first = self.boxed(&compared.expr);
                let mut operands = Vec::new();
                for operand in &compared.ops {
                    operands.push((comparison(operand.op), self.expression(&operand.expr)));
                }
                Expression::Compare(first, operands)
            }
            ast::Expr::IfExpr(either) => {
                let otherwise = match &either.false_expr {
                    Some(otherwise) => self.expression(otherwise),
                    None => Expression::Constant(Value::UNDEFINED),
                };
                let test = self.expression(&either.test_expr);
                Expression::Either(Box::new([test, self.expression(&either.true_expr), otherwise]))
            }
            ast::Expr::Filter(filter) => self.filter(filter),
            ast::Expr::Test(test) => {
                let name = self.known("test", test.name, is_test);
                let first = self.expression(&test.expr);
                Expression::Test(name, self.arguments(Some(first), &test.args))
            }
            ast::Expr::Call(call) => self.call(call),
            ast::Expr::List(list) => Expression::List(self.expressions(&list.items)),
            ast::Expr::Tuple(tuple) => Expression::Tuple(self.expressions(&tuple.items)),
            ast::Expr::Map(map) => {
                let keys = self.expressions(&map.keys);
                Expression::Map(keys.into_iter().zip(self.expressions(&map.values)).collect())
            }
        }
    }

    fn attribute(&mut self, attribute: &ast::GetAttr<'_>) -> Expression {
        if let ast::Expr::Var(variable) = &attribute.expr
            && variable.id == "loop"
            && self.in_loop
            && let Some(field) = LoopField::named(attribute.name)
        {
            return Expression::Loop(field);
        }
        let base = self.boxed(&attribute.expr);
        if is_dict_method(attribute.name) {
            Expression::Attribute(base, attribute.name.into())
        } else {
            Expression::Field(base, attribute.name.into())
        }
    }

    fn filter(&mut self, filter: &ast::Filter<'_>) -> Expression {
        let name = self.known("filter", filter.name, is_filter);
        let first = match &filter.expr {
            Some(first) => self.expression(first),
            None => Expression::Captured,
        };
        if ["map", "select", "reject", "selectattr", "rejectattr"].contains(&&*name) {
            self.check_passed_name(&name, &filter.args);
        }
        Expression::Filter(name, self.arguments(Some(first), &filter.args))
    }

    /// A name without the white space that Jinja allows in it; what does not go by it is noted.
    fn known(&mut self, kind: &'static str, name: &str, is_known: fn(&str) -> bool) -> Box<str> {
        let name: String = name.chars().filter(|character| !character.is_ascii_whitespace()).collect();
        if !is_known(&name) {
            self.note_unknown(kind, &name);
        }
        name.into()
    }

    fn note_unknown(&mut self, kind: &'static str, name: &str) {
        let unknown = UnknownName { kind, name: name.into(), line: self.line };
        if !self.program.unknown.iter().any(|known| known.kind == kind && known.name == unknown.name) {
            self.program.unknown.push(unknown);
        }
    }

    /// Looks at the filter that `map` is given, or the test that `select` is.
    fn check_passed_name(&mut self, filter: &str, arguments: &[CallArg<'_>]) {
        let mut texts = arguments.iter().filter_map(|argument| match argument {
            CallArg::Pos(ast::Expr::Const(constant)) => Some(constant.value.as_str()),
            CallArg::Pos(_) => Some(None),
            _ => None,
        });
        let passed = if filter.ends_with("attr") { texts.nth(1) } else { texts.next() };
        let Some(Some(name)) = passed else { return };
        match filter {
            "map" if !is_filter(name) => self.note_unknown("filter", name),
            "map" => {}
            _ if !is_test(name) => self.note_unknown("test", name),
            _ => {}
        }
    }

    fn operation(&mut self, operation: &ast::BinOp<'_>) -> Expression {
        let (left, right) = (self.expression(&operation.left), self.expression(&operation.right));
        let binary = |operator, left, right| Expression::Binary(operator, Box::new(left), Box::new(right));
        let compare =
            |comparison, left: Expression, right| Expression::Compare(Box::new(left), vec![(comparison, right)]);
        match operation.op {
            BinOpKind::Add => sum(left, right),
            BinOpKind::ScAnd => Expression::And(Box::new(left), Box::new(right)),
            BinOpKind::ScOr => Expression::Or(Box::new(left), Box::new(right)),
            BinOpKind::Eq => compare(Comparison::Equal, left, right),
            BinOpKind::Ne => compare(Comparison::NotEqual, left, right),
            BinOpKind::Lt => compare(Comparison::Less, left, right),
            BinOpKind::Lte => compare(Comparison::LessOrEqual, left, right),
            BinOpKind::Gt => compare(Comparison::Greater, left, right),
            BinOpKind::Gte => compare(Comparison::GreaterOrEqual, left, right),
            BinOpKind::In => compare(Comparison::In, left, right),
            BinOpKind::Sub => binary(Operator::Subtract, left, right),
            BinOpKind::Mul => binary(Operator::Multiply, left, right),
            BinOpKind::Div => binary(Operator::Divide, left, right),
            BinOpKind::FloorDiv => binary(Operator::FloorDivide, left, right),
            BinOpKind::Rem => binary(Operator::Remainder, left, right),
            BinOpKind::Pow => binary(Operator::Power, left, right),
            BinOpKind::Concat => {
                let mut parts = match left {
                    Expression::Concatenate(parts) => parts,
                    other => vec![other],
                };
                parts.push(right);
                Expression::Concatenate(parts)
            }
        }
    }

    fn call(&mut self, call: &ast::Call<'_>) -> Expression {
        match &call.expr {
            ast::Expr::GetAttr(attribute) => {
                let is_loop = matches!(&attribute.expr, ast::Expr::Var(variable) if variable.id == "loop");
                let base = self.boxed(&attribute.expr);
                if !is_method(attribute.name) && !is_loop {
                    self.note_unknown("method", attribute.name);
                }
                Expression::Method(base, attribute.name.into(), self.arguments(None, &call.args))
            }
            callee => {
                if let ast::Expr::Var(variable) = callee
                    && variable.id != "loop"
                {
                    self.called.entry(variable.id.into()).or_insert(self.line);
                }
                let callee = self.boxed(callee);
                Expression::Call(callee, self.arguments(None, &call.args))
            }
        }
    }

    fn arguments(&mut self, first: Option<Expression>, given: &[CallArg<'_>]) -> Arguments {
        let mut arguments = Arguments { positional: first.into_iter().collect(), ..Arguments::default() };
        for argument in given {
            match argument {
                CallArg::Pos(value) => arguments.positional.push(self.expression(value)),
                CallArg::Kwarg(name, value) => arguments.named.push(((*name).into(), self.expression(value))),
                CallArg::PosSplat(value) => arguments.spread.push(self.expression(value)),
                CallArg::KwargSplat(value) => arguments.spread_named.push(self.expression(value)),
            }
        }
        arguments
    }
}

fn is_constant_false(expression: &ast::Expr<'_>) -> bool {
    matches!(expression, ast::Expr::Const(constant) if !truth(&constant.value))
}

/// Adding a text takes texts: then all summands are joined at once.
fn sum(left: Expression, right: Expression) -> Expression {
    let is_text = |summand: &Expression| match summand {
        Expression::Constant(value) => value.as_str().is_some(),
        summand => matches!(summand, Expression::Join(_)),
    };
    if !is_text(&left) && !is_text(&right) {
        return Expression::Binary(Operator::Add, Box::new(left), Box::new(right));
    }
    let mut texts = Vec::new();
    for summand in [left, right] {
        add_summands(summand, &mut texts);
    }
    Expression::Join(texts)
}

fn add_summands(summand: Expression, texts: &mut Vec<Expression>) {
    match summand {
        Expression::Join(inner) => texts.extend(inner),
        Expression::Binary(Operator::Add, left, right) => {
            add_summands(*left, texts);
            add_summands(*right, texts);
        }
        other => texts.push(other),
    }
}

fn comparison(operation: CompareOpKind) -> Comparison {
    match operation {
        CompareOpKind::Eq => Comparison::Equal,
        CompareOpKind::Ne => Comparison::NotEqual,
        CompareOpKind::Lt => Comparison::Less,
        CompareOpKind::Lte => Comparison::LessOrEqual,
        CompareOpKind::Gt => Comparison::Greater,
        CompareOpKind::Gte => Comparison::GreaterOrEqual,
        CompareOpKind::In => Comparison::In,
        CompareOpKind::NotIn => Comparison::NotIn,
    }
}

fn line_of(statement: &ast::Stmt<'_>) -> usize {
    let span = match statement {
        ast::Stmt::Template(it) => it.span(),
        ast::Stmt::EmitExpr(it) => it.span(),
        ast::Stmt::EmitRaw(it) => it.span(),
        ast::Stmt::ForLoop(it) => it.span(),
        ast::Stmt::IfCond(it) => it.span(),
        ast::Stmt::WithBlock(it) => it.span(),
        ast::Stmt::Set(it) => it.span(),
        ast::Stmt::SetBlock(it) => it.span(),
        ast::Stmt::AutoEscape(it) => it.span(),
        ast::Stmt::FilterBlock(it) => it.span(),
        ast::Stmt::Block(it) => it.span(),
        ast::Stmt::Import(it) => it.span(),
        ast::Stmt::FromImport(it) => it.span(),
        ast::Stmt::Extends(it) => it.span(),
        ast::Stmt::Include(it) => it.span(),
        ast::Stmt::Macro(it) => it.span(),
        ast::Stmt::CallBlock(it) => it.span(),
        ast::Stmt::Continue(it) => it.span(),
        ast::Stmt::Break(it) => it.span(),
        ast::Stmt::Do(it) => it.span(),
    };
    span.start_line as usize
}
