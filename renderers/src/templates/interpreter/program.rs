//! A template as a tree that is walked: see `run`.

use minijinja::Value;
use std::collections::BTreeSet;

/// A template, taken in.
#[derive(Debug, Default)]
pub(crate) struct TemplateProgram {
    pub(crate) names: Vec<Box<str>>,
    pub(crate) macros: Vec<Macro>,
    pub(crate) loops: Vec<For>,
    pub(crate) body: Vec<Statement>,
    /// Names that are read before the template gives them a value.
    pub(crate) reads: BTreeSet<Box<str>>,
    /// What the template names that nothing here goes by.
    pub(crate) unknown: Vec<UnknownName>,
}

/// A filter, a test, a function or a method that a template names and that is not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownName {
    /// `filter`, `test`, `function`, `method` or `statement`.
    pub(crate) kind: &'static str,
    pub(crate) name: Box<str>,
    pub(crate) line: usize,
}

/// A variable, by its place in [`TemplateProgram::names`].
pub(crate) type Name = usize;

/// A macro, or the body of a `{% call %}`.
#[derive(Debug, Default)]
pub(crate) struct Macro {
    pub(crate) name: Box<str>,
    /// Parameters, and what those are that no argument is given for.
    pub(crate) parameters: Vec<(Name, Box<str>, Option<Expression>)>,
    /// The names of further arguments and of the caller, where the body reads them.
    pub(crate) varargs: Option<Name>,
    pub(crate) kwargs: Option<Name>,
    pub(crate) caller: Option<Name>,
    pub(crate) body: Vec<Statement>,
    /// How deep its syntax lies in itself.
    pub(crate) depth: usize,
}

/// A statement and the line that it stands in.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) line: usize,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    Raw(Box<str>),
    Emit(Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    For(usize),
    Set(Target, Expression),
    /// A text that is written apart, with what filters make of it.
    SetBlock(Target, Option<Expression>, Vec<Statement>),
    FilterBlock(Expression, Vec<Statement>),
    /// Variables of a scope of its own.
    With(Vec<(Target, Expression)>, Vec<Statement>),
    DefineMacro(Name, usize),
    /// A call, and the macro that it may call back.
    CallBlock(Expression, usize),
    Do(Expression),
    Continue,
    Break,
    /// What no chat template can do.
    Fail(&'static str),
}

/// What is given a value.
#[derive(Debug)]
pub(crate) enum Target {
    Name(Name),
    Field(Name, Box<str>),
    Unpack(Vec<Target>),
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) items: Expression,
    pub(crate) filter: Option<Expression>,
    pub(crate) body: Vec<Statement>,
    pub(crate) otherwise: Vec<Statement>,
    /// Its own place, where it may call itself.
    pub(crate) recursive: Option<usize>,
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) enum Expression {
    Constant(Value),
    Variable(Name),
    /// The innermost `loop`, and a field of it.
    LoopValue,
    Loop(LoopField),
    /// The text that a filter block has written.
    Captured,
    /// A field, by a name that no dict has a method of.
    Field(Box<Expression>, Box<str>),
    Attribute(Box<Expression>, Box<str>),
    Item(Box<Expression>, Box<Expression>),
    Slice(Box<[Expression; 4]>),
    /// Texts one after another: a sum in which one summand is text, so that all must be.
    Join(Vec<Expression>),
    Concatenate(Vec<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Either(Box<[Expression; 3]>),
    Filter(Box<str>, Arguments),
    Test(Box<str>, Arguments),
    Call(Box<Expression>, Arguments),
    Method(Box<Expression>, Box<str>, Arguments),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
}

/// Arguments of a call; those of a filter or a test begin with the value that it is applied to.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) positional: Vec<Expression>,
    pub(crate) named: Vec<(Box<str>, Expression)>,
    /// `*list` and `**dict`.
    pub(crate) spread: Vec<Expression>,
    pub(crate) spread_named: Vec<Expression>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LoopField {
    Index,
    Index0,
    ReverseIndex,
    ReverseIndex0,
    First,
    Last,
    Length,
    Depth,
    Depth0,
    Previous,
    Next,
}

impl LoopField {
    /// The field of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "index" => Self::Index,
            "index0" => Self::Index0,
            "revindex" => Self::ReverseIndex,
            "revindex0" => Self::ReverseIndex0,
            "first" => Self::First,
            "last" => Self::Last,
            "length" => Self::Length,
            "depth" => Self::Depth,
            "depth0" => Self::Depth0,
            "previtem" => Self::Previous,
            "nextitem" => Self::Next,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
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
