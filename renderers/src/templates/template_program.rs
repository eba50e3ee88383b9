use minijinja::Value;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, CallType, CompareOpKind, UnaryOpKind};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

/// The part of Jinja that nearly all chat templates are written in, as a tree that [`run`](Self::run) walks without
/// counting a reference or copying a text for each name that it meets. What is not in it is left to the template
/// engine, with every case in which a template fails.
#[derive(Debug)]
pub(crate) struct TemplateProgram {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) macros: Vec<Macro>,
    pub(crate) body: Vec<Statement>,
}

/// A variable, by its place in [`TemplateProgram::names`].
pub(crate) type Name = usize;

/// A macro, which sees its parameters and the variables outside of loops.
#[derive(Debug)]
pub(crate) struct Macro {
    name: Box<str>,
    /// Parameters, and what those are that no argument is given for.
    pub(crate) parameters: Vec<(Name, Box<str>, Option<Expression>)>,
    pub(crate) body: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Raw(Box<str>),
    Emit(Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    For(Box<For>),
    Set(Vec<Name>, Expression),
    SetAttribute(Name, Box<str>, Expression),
    SetBlock(Name, Vec<Statement>),
    DefineMacro(usize),
    Do(Expression),
    Continue,
    Break,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) targets: Vec<Name>,
    pub(crate) items: Expression,
    pub(crate) filter: Option<Expression>,
    pub(crate) body: Vec<Statement>,
    pub(crate) otherwise: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) enum Expression {
    Constant(Value),
    Variable(Name),
    /// A field of the innermost `loop`.
    Loop(LoopField),
    Attribute(Box<Expression>, Box<str>),
    Item(Box<Expression>, Box<Expression>),
    /// Texts one after another: a sum in which one summand is text, so that all must be.
    Join(Vec<Expression>),
    /// An operation on values, as the template engine writes it, with `a`, `b`, `c` and `d` for the operands.
    Engine(&'static str, Vec<Expression>),
    Add(Box<Expression>, Box<Expression>),
    Difference(Box<Expression>, Box<Expression>),
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Either(Box<[Expression; 3]>),
    Filter(Box<str>, Arguments),
    Test(Box<str>, Arguments),
    Function(Name, Arguments),
    Macro(usize, Arguments),
    Method(Box<Expression>, Box<str>, Arguments),
    Namespace(Arguments),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
}

/// Arguments of a call; those of a filter or a test begin with the value that it is applied to.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expression>,
    pub(crate) named: Vec<(Box<str>, Expression)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LoopField {
    Index,
    Index0,
    First,
    Last,
    Length,
    Previous,
    Next,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

impl TemplateProgram {
    /// The program of a template; `None` where it uses more than programs can do, or is wrong.
    pub(crate) fn of(source: &str, syntax: SyntaxConfig) -> Option<Self> {
        let Ok(ast::Stmt::Template(template)) = parse(source, "", syntax) else { return None };
        let mut this = Self { names: Vec::new(), macros: Vec::new(), body: Vec::new() };
        for statement in &template.children {
            if let ast::Stmt::Macro(declared) = statement {
                this.macros.push(Macro { name: declared.name.into(), parameters: Vec::new(), body: Vec::new() });
            }
        }
        let mut scope = Scope { program: this, in_loop: false, macros_defined: 0, at_top: true };
        let body = scope.statements(&template.children)?;
        let mut program = scope.program;
        program.body = body;
        Some(program)
    }
}

/// Where in a template the statement stands that is being taken in.
struct Scope {
    program: TemplateProgram,
    in_loop: bool,
    macros_defined: usize,
    at_top: bool,
}

impl Scope {
    fn name(&mut self, name: &str) -> Name {
        let names = &mut self.program.names;
        names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            names.push(name.into());
            names.len() - 1
        })
    }

    /// A variable that is given a value.
    fn target(&mut self, target: &ast::Expr<'_>) -> Option<Name> {
        let ast::Expr::Var(variable) = target else { return None };
        let is_free = !matches!(variable.id, "loop" | "namespace" | "self" | "super" | "caller");
        (is_free && self.macro_named(variable.id).is_none()).then(|| self.name(variable.id))
    }

    fn targets(&mut self, target: &ast::Expr<'_>) -> Option<Vec<Name>> {
        match target {
            ast::Expr::List(list) => list.items.iter().map(|item| self.target(item)).collect(),
            ast::Expr::Tuple(tuple) => tuple.items.iter().map(|item| self.target(item)).collect(),
            single => Some(vec![self.target(single)?]),
        }
    }

    fn macro_named(&self, name: &str) -> Option<usize> {
        self.program.macros.iter().position(|known| *known.name == *name)
    }

    fn statements(&mut self, statements: &[ast::Stmt<'_>]) -> Option<Vec<Statement>> {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn inner(&mut self, in_loop: bool, statements: &[ast::Stmt<'_>]) -> Option<Vec<Statement>> {
        let outer = (std::mem::replace(&mut self.in_loop, in_loop), std::mem::replace(&mut self.at_top, false));
        let taken = self.statements(statements);
        (self.in_loop, self.at_top) = outer;
        taken
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) -> Option<Statement> {
        Some(match statement {
            ast::Stmt::EmitRaw(raw) => Statement::Raw(raw.raw.into()),
            ast::Stmt::EmitExpr(emitted) => Statement::Emit(self.expression(&emitted.expr)?),
            ast::Stmt::IfCond(condition) => Statement::If(
                self.expression(&condition.expr)?,
                self.inner(self.in_loop, &condition.true_body)?,
                self.inner(self.in_loop, &condition.false_body)?,
            ),
            ast::Stmt::ForLoop(repeated) if !repeated.recursive => self.for_loop(repeated)?,
            ast::Stmt::Set(set) => match &set.target {
                ast::Expr::GetAttr(attribute) => Statement::SetAttribute(
                    self.target(&attribute.expr)?,
                    attribute.name.into(),
                    self.expression(&set.expr)?,
                ),
                ast::Expr::Var(_) => Statement::Set(self.targets(&set.target)?, self.expression(&set.expr)?),
                _ => return None,
            },
            ast::Stmt::SetBlock(set) if set.filter.is_none() => {
                Statement::SetBlock(self.target(&set.target)?, self.inner(self.in_loop, &set.body)?)
            }
            ast::Stmt::Macro(declared) if self.at_top => self.define_macro(declared)?,
            ast::Stmt::Do(called) => Statement::Do(self.call(&called.call)?),
            ast::Stmt::Continue(_) => Statement::Continue,
            ast::Stmt::Break(_) => Statement::Break,
            _ => return None,
        })
    }

    fn for_loop(&mut self, repeated: &ast::ForLoop<'_>) -> Option<Statement> {
        let items = self.expression(&repeated.iter)?;
        let targets = self.targets(&repeated.target)?;
        let outer = std::mem::replace(&mut self.in_loop, false);
        let filter = repeated.filter_expr.as_ref().map(|filter| self.expression(filter));
        self.in_loop = outer;
        let body = self.inner(true, &repeated.body)?;
        let otherwise = self.inner(outer, &repeated.else_body)?;
        let filter = match filter {
            Some(filter) => Some(filter?),
            None => None,
        };
        Some(Statement::For(Box::new(For { targets, items, filter, body, otherwise })))
    }

    /// A name that two macros go by is left to the engine.
    fn define_macro(&mut self, declared: &ast::Macro<'_>) -> Option<Statement> {
        let index = self.macro_named(declared.name).filter(|index| *index == self.macros_defined)?;
        let required = declared.args.len() - declared.defaults.len();
        let mut parameters = Vec::new();
        for (place, parameter) in declared.args.iter().enumerate() {
            let ast::Expr::Var(variable) = parameter else { return None };
            let default = place.checked_sub(required).map(|place| self.expression(&declared.defaults[place]));
            let default = match default {
                Some(default) => Some(default?),
                None => None,
            };
            parameters.push((self.target(parameter)?, variable.id.into(), default));
        }
        let body = self.inner(false, &declared.body)?;
        self.macros_defined += 1;
        let defined = &mut self.program.macros[index];
        (defined.parameters, defined.body) = (parameters, body);
        Some(Statement::DefineMacro(index))
    }

    fn boxed(&mut self, expression: &ast::Expr<'_>) -> Option<Box<Expression>> {
        self.expression(expression).map(Box::new)
    }

    fn expressions(&mut self, expressions: &[ast::Expr<'_>]) -> Option<Vec<Expression>> {
        expressions.iter().map(|expression| self.expression(expression)).collect()
    }

    fn expression(&mut self, expression: &ast::Expr<'_>) -> Option<Expression> {
        if let Some(constant) = expression.as_const() {
            return Some(Expression::Constant(constant));
        }
        Some(match expression {
            ast::Expr::Const(_) => return None,
            ast::Expr::Var(variable) => match variable.id {
                "loop" | "self" | "super" | "caller" | "namespace" => return None,
                name if self.macro_named(name).is_some() => return None,
                name => Expression::Variable(self.name(name)),
            },
            ast::Expr::GetAttr(attribute) => match &attribute.expr {
                ast::Expr::Var(variable) if variable.id == "loop" => Expression::Loop(self.loop_field(attribute.name)?),
                base => Expression::Attribute(self.boxed(base)?, attribute.name.into()),
            },
            ast::Expr::GetItem(item) => Expression::Item(self.boxed(&item.expr)?, self.boxed(&item.subscript_expr)?),
            ast::Expr::Slice(slice) => {
                let none = || Some(Expression::Constant(Value::from(())));
                let mut end = |end: &Option<ast::Expr<'_>>| end.as_ref().map_or_else(none, |end| self.expression(end));
                let (start, stop, step) = (end(&slice.start)?, end(&slice.stop)?, end(&slice.step)?);
                Expression::Engine("a[b:c:d]", vec![self.expression(&slice.expr)?, start, stop, step])
            }
            ast::Expr::UnaryOp(operation) => match operation.op {
                UnaryOpKind::Not => Expression::Not(self.boxed(&operation.expr)?),
                UnaryOpKind::Neg => return None,
            },
            ast::Expr::BinOp(operation) => self.operation(operation)?,
            ast::Expr::Compare(compared) => {
                let mut operands = Vec::new();
                for operand in &compared.ops {
                    operands.push((comparison(operand.op), self.expression(&operand.expr)?));
                }
                Expression::Compare(self.boxed(&compared.expr)?, operands)
            }
            ast::Expr::IfExpr(either) => {
                let otherwise = match &either.false_expr {
                    Some(otherwise) => self.expression(otherwise)?,
                    None => Expression::Constant(Value::UNDEFINED),
                };
                let test = self.expression(&either.test_expr)?;
                Expression::Either(Box::new([test, self.expression(&either.true_expr)?, otherwise]))
            }
            ast::Expr::Filter(filter) => {
                let arguments = self.arguments(Some(filter.expr.as_ref()?), &filter.args)?;
                Expression::Filter(without_space(filter.name), arguments)
            }
            ast::Expr::Test(test) => {
                Expression::Test(without_space(test.name), self.arguments(Some(&test.expr), &test.args)?)
            }
            ast::Expr::Call(call) => self.call(call)?,
            ast::Expr::List(list) => Expression::List(self.expressions(&list.items)?),
            ast::Expr::Map(map) => {
                Expression::Map(self.expressions(&map.keys)?.into_iter().zip(self.expressions(&map.values)?).collect())
            }
            ast::Expr::Tuple(_) => return None,
        })
    }

    fn loop_field(&self, name: &str) -> Option<LoopField> {
        let field = match name {
            "index" => LoopField::Index,
            "index0" => LoopField::Index0,
            "first" => LoopField::First,
            "last" => LoopField::Last,
            "length" => LoopField::Length,
            "previtem" => LoopField::Previous,
            "nextitem" => LoopField::Next,
            _ => return None,
        };
        self.in_loop.then_some(field)
    }

    fn operation(&mut self, operation: &ast::BinOp<'_>) -> Option<Expression> {
        let (left, right) = (self.expression(&operation.left)?, self.expression(&operation.right)?);
        let engine = |written, left, right| Expression::Engine(written, vec![left, right]);
        let compare =
            |comparison, left: Expression, right| Expression::Compare(Box::new(left), vec![(comparison, right)]);
        Some(match operation.op {
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
            BinOpKind::Sub => Expression::Difference(Box::new(left), Box::new(right)),
            BinOpKind::Mul => engine("a * b", left, right),
            BinOpKind::Div => engine("a / b", left, right),
            BinOpKind::FloorDiv => engine("a // b", left, right),
            BinOpKind::Rem => engine("a % b", left, right),
            BinOpKind::Pow => engine("a ** b", left, right),
            BinOpKind::Concat => engine("a ~ b", left, right),
        })
    }

    fn call(&mut self, call: &ast::Call<'_>) -> Option<Expression> {
        let arguments = self.arguments(None, &call.args)?;
        Some(match call.identify_call() {
            CallType::Function("namespace") if arguments.positional.is_empty() => Expression::Namespace(arguments),
            CallType::Function("namespace" | "loop" | "super" | "caller") => return None,
            CallType::Function(name) => match self.macro_named(name) {
                Some(index) => Expression::Macro(index, arguments),
                None => Expression::Function(self.name(name), arguments),
            },
            CallType::Method(value, name) => Expression::Method(self.boxed(value)?, name.into(), arguments),
            CallType::Block(_) | CallType::Object(_) => return None,
        })
    }

    fn arguments(&mut self, first: Option<&ast::Expr<'_>>, given: &[CallArg<'_>]) -> Option<Arguments> {
        let mut arguments = Arguments { positional: Vec::new(), named: Vec::new() };
        if let Some(first) = first {
            arguments.positional.push(self.expression(first)?);
        }
        for argument in given {
            match argument {
                CallArg::Pos(value) => arguments.positional.push(self.expression(value)?),
                CallArg::Kwarg(name, value) => arguments.named.push(((*name).into(), self.expression(value)?)),
                CallArg::PosSplat(_) | CallArg::KwargSplat(_) => return None,
            }
        }
        Some(arguments)
    }
}

/// Adding a text takes texts: then all summands are joined at once.
fn sum(left: Expression, right: Expression) -> Expression {
    let is_text = |summand: &Expression| match summand {
        Expression::Constant(value) => value.as_str().is_some(),
        summand => matches!(summand, Expression::Join(_)),
    };
    if !is_text(&left) && !is_text(&right) {
        return Expression::Add(Box::new(left), Box::new(right));
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
        Expression::Add(left, right) => {
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

fn without_space(name: &str) -> Box<str> {
    name.chars().filter(|character| !character.is_ascii_whitespace()).collect::<String>().into()
}
