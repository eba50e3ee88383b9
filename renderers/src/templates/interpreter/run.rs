//! How a [`TemplateProgram`] runs: its statements.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::functions::FUNCTIONS;
use crate::python::python_attributes::attribute;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{GlobalFunction, LoopState, MacroValue, Namespace, check_depth};
use crate::python::python_ops::{self, truth};
use crate::python::python_repr::python_str_within;
use crate::templates::interpreter::program::{
    Expression, For, Name, Statement, StatementKind, Target, TemplateProgram,
};

/// What a text has room for from the start, in bytes: short prompts grow no more.
const CAPACITY: usize = 16 << 10;

pub(super) type Outcome<T> = Result<T, PythonError>;

/// What a template runs with.
#[derive(Debug)]
pub(crate) struct Surroundings<'s> {
    pub(crate) budget: Budget<'s>,
    /// The time that it sees, in seconds since 1970; `None` is the present.
    pub(crate) now: Option<i64>,
    /// The two characters that stand around what an assistant says; `None` writes none.
    pub(crate) marks: Option<&'s str>,
}

/// A template or a macro that runs.
pub(super) struct Run<'p> {
    pub(super) program: &'p TemplateProgram,
    pub(super) surroundings: &'p Surroundings<'p>,
    /// Variables outside of loops and macros, by name.
    pub(super) globals: Cow<'p, [Value]>,
    /// Variables of the frames, the innermost last.
    pub(super) locals: Vec<(Name, Value)>,
    /// Where the variables of the innermost frame begin; `None` outside of loops and macros.
    pub(super) frame: Option<usize>,
    pub(super) loops: Vec<Arc<LoopState>>,
    /// Texts that filter blocks have written.
    pub(super) captured: Vec<Value>,
    /// How deep the syntax is that runs, with that of the callers.
    pub(super) depth: usize,
    /// The depth at which the stack of this thread began.
    pub(super) stack_from: usize,
}

/// How a statement ended.
#[derive(PartialEq)]
pub(super) enum Flow {
    Onward,
    Continue,
    Break,
}

impl TemplateProgram {
    /// What the template writes.
    pub(crate) fn run(&self, context: &Value, surroundings: &Surroundings<'_>) -> Outcome<String> {
        let global = |name: &str| match attribute(context, name, &surroundings.budget)? {
            missing if missing.is_undefined() => {
                let function = FUNCTIONS.into_iter().find(|function| *function == name);
                Ok(function.map(|function| Value::from_object(GlobalFunction(function))).unwrap_or_default())
            }
            given => Ok(given),
        };
        let globals: Vec<Value> = self.names.iter().map(|name| global(name)).collect::<Outcome<_>>()?;
        let mut run = Run {
            program: self,
            surroundings,
            globals: globals.into(),
            locals: Vec::new(),
            frame: None,
            loops: Vec::new(),
            captured: Vec::new(),
            depth: 0,
            stack_from: 0,
        };
        let mut out = String::with_capacity(CAPACITY);
        run.statements(&self.body, &mut out)?;
        Ok(out)
    }
}

impl<'p> Run<'p> {
    pub(super) fn budget(&self) -> &'p Budget<'p> {
        &self.surroundings.budget
    }

    pub(super) fn statements(&mut self, statements: &'p [Statement], out: &mut String) -> Outcome<Flow> {
        for statement in statements {
            let flow = self.statement(statement, out).map_err(|error| error.at_line(statement.line))?;
            if flow != Flow::Onward {
                return Ok(flow);
            }
        }
        Ok(Flow::Onward)
    }

    fn statement(&mut self, statement: &'p Statement, out: &mut String) -> Outcome<Flow> {
        self.budget().step(1)?;
        match &statement.kind {
            StatementKind::Raw(text) => self.write(text, out)?,
            StatementKind::Emit(expression) => self.emit(expression, out)?,
            StatementKind::If(condition, then, otherwise) => {
                let branch = if self.truth(condition)? { then } else { otherwise };
                return self.statements(branch, out);
            }
            StatementKind::For(index) => return self.for_loop(&self.program.loops[*index], out),
            StatementKind::Set(target, expression) => {
                let value = self.value(expression)?.into_owned();
                self.bind(target, value)?;
            }
            StatementKind::SetBlock(target, filter, body) => {
                let mut text = String::new();
                let flow = self.scoped(|run| run.statements(body, &mut text))?;
                let value = self.filtered(filter.as_ref(), text)?;
                self.bind(target, value)?;
                return Ok(flow);
            }
            StatementKind::FilterBlock(filter, body) => {
                let mut text = String::new();
                let flow = self.scoped(|run| run.statements(body, &mut text))?;
                let value = self.filtered(Some(filter), text)?;
                self.write(&python_str_within(&value, self.budget())?, out)?;
                return Ok(flow);
            }
            StatementKind::With(assignments, body) => {
                let values: Vec<Value> =
                    assignments.iter().map(|(_, value)| Ok(self.value(value)?.into_owned())).collect::<Outcome<_>>()?;
                return self.scoped(|run| {
                    for ((target, _), value) in assignments.iter().zip(values) {
                        run.bind(target, value)?;
                    }
                    run.statements(body, out)
                });
            }
            StatementKind::DefineMacro(name, index) => {
                let declared = self.macro_value(*index)?;
                self.set(*name, declared);
            }
            StatementKind::CallBlock(call, index) => {
                let caller = self.macro_value(*index)?;
                let value = self.call_with_caller(call, caller)?;
                self.write(&python_str_within(&value, self.budget())?, out)?;
            }
            StatementKind::Do(call) => drop(self.value(call)?),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Fail(message) => return raise(*message),
        }
        Ok(Flow::Onward)
    }

    /// The macro as a value, with the variables of loops and macros around it.
    fn macro_value(&self, index: usize) -> Outcome<Value> {
        let mut captured: Vec<(Name, Value)> = Vec::new();
        for (name, value) in self.locals.iter().rev() {
            if !captured.iter().any(|(known, _)| known == name) {
                captured.push((*name, value.clone()));
            }
        }
        self.budget().make_items(captured.len())?;
        let is_closed = captured.is_empty();
        let declared = Value::from_object(MacroValue { index, captured });
        if !is_closed {
            check_depth(&declared, self.budget())?;
        }
        Ok(declared)
    }

    fn filtered(&mut self, filter: Option<&'p Expression>, text: String) -> Outcome<Value> {
        let Some(filter) = filter else { return Ok(text.into()) };
        self.captured.push(text.into());
        let value = self.value(filter).map(Cow::into_owned);
        self.captured.pop();
        value
    }

    /// Does something in a frame of its own.
    fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let begin = self.locals.len();
        let outer = self.frame.replace(begin);
        let done = inner(self);
        self.locals.truncate(begin);
        self.frame = outer;
        done
    }

    fn for_loop(&mut self, repeated: &'p For, out: &mut String) -> Outcome<Flow> {
        let items = self.value(&repeated.items)?.into_owned();
        self.repeat(repeated, &items, 0, out)
    }

    /// Runs a loop over items.
    pub(super) fn repeat(&mut self, repeated: &'p For, items: &Value, depth: usize, out: &mut String) -> Outcome<Flow> {
        let mut items: Vec<Value> = python_ops::items(items, self.budget())?.into_owned();
        self.budget().make_items(items.len())?;
        let outer = self.frame.replace(self.locals.len());
        let frame = self.locals.len();
        if let Some(filter) = &repeated.filter {
            let mut kept = Vec::new();
            for item in items {
                self.locals.truncate(frame);
                self.bind(&repeated.target, item.clone())?;
                if self.truth(filter)? {
                    kept.push(item);
                }
            }
            items = kept;
        }
        let count = items.len();
        let state = Arc::new(LoopState {
            items,
            index: AtomicUsize::new(0),
            depth,
            recursive: repeated.recursive,
            last_seen: Mutex::new(None),
        });
        self.loops.push(Arc::clone(&state));
        for (index, item) in state.items.iter().enumerate() {
            self.budget().step(1)?;
            self.locals.truncate(frame);
            state.index.store(index, Ordering::Relaxed);
            self.bind(&repeated.target, item.clone())?;
            if self.statements(&repeated.body, out)? == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        self.locals.truncate(frame);
        self.frame = outer;
        if count > 0 {
            return Ok(Flow::Onward);
        }
        self.scoped(|run| run.statements(&repeated.otherwise, out))
    }

    pub(super) fn bind(&mut self, target: &'p Target, value: Value) -> Outcome<()> {
        match target {
            Target::Name(name) => self.set(*name, value),
            Target::Field(name, field) => {
                let holder = self.variable(*name).clone();
                let Some(namespace) = holder.downcast_object_ref::<Namespace>() else {
                    return raise("cannot assign attribute on non-namespace object");
                };
                let is_plain = value.as_object().is_none();
                namespace.set(field, value);
                if !is_plain && let Err(error) = check_depth(&holder, self.budget()) {
                    // A namespace that holds itself would never be freed.
                    namespace.set(field, Value::UNDEFINED);
                    return Err(error.into());
                }
            }
            Target::Unpack(targets) => {
                let values = python_ops::items(&value, self.budget())?;
                if value.is_undefined() {
                    return raise("an undefined value cannot be unpacked");
                }
                if values.len() != targets.len() {
                    return raise(format!("{} values cannot be unpacked into {}", values.len(), targets.len()));
                }
                for (target, value) in targets.iter().zip(values.iter()) {
                    self.bind(target, value.clone())?;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: Name, value: Value) {
        match self.frame {
            None => self.globals.to_mut()[name] = value,
            Some(frame) => match self.locals[frame..].iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => self.locals.push((name, value)),
            },
        }
    }

    pub(super) fn variable(&self, name: Name) -> &Value {
        let local = self.locals.iter().rev().find(|(known, _)| *known == name);
        local.map_or(&self.globals[name], |(_, value)| value)
    }

    pub(super) fn write(&self, text: &str, out: &mut String) -> Outcome<()> {
        self.budget().make(text.len())?;
        self.budget().hold(out.len() + text.len())?;
        out.push_str(text);
        Ok(())
    }

    fn emit(&self, expression: &'p Expression, out: &mut String) -> Outcome<()> {
        if let Expression::Join(texts) = expression
            && let Some(parts) = self.places(texts)
        {
            return parts.iter().try_for_each(|text| self.write(text, out));
        }
        if let Some(text) = self.place(expression).and_then(Value::as_str) {
            return self.write(text, out);
        }
        let value = self.value(expression)?;
        self.write(&python_str_within(&value, self.budget())?, out)
    }

    /// The texts of a sum all of whose summands stand somewhere already.
    fn places(&self, texts: &'p [Expression]) -> Option<Vec<&str>> {
        texts.iter().map(|text| self.place(text)?.as_str()).collect()
    }

    /// Whether an expression is true, without making a value of it where it is a condition.
    pub(super) fn truth(&self, expression: &'p Expression) -> Outcome<bool> {
        match expression {
            Expression::Compare(first, others) => self.compare(first, others),
            Expression::Not(operand) => Ok(!self.truth(operand)?),
            Expression::And(left, right) => Ok(self.truth(left)? && self.truth(right)?),
            Expression::Or(left, right) => Ok(self.truth(left)? || self.truth(right)?),
            Expression::Test(name, arguments) => self.test(name, arguments),
            other => match self.place(other) {
                Some(value) => Ok(truth(value)),
                None => Ok(truth(&*self.value(other)?)),
            },
        }
    }
}
