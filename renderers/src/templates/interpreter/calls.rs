//! How a template calls functions, methods and its own macros.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use minijinja::Value;

use crate::python::library::arguments::CallArguments;
use crate::python::library::functions::{call_function, call_joiner};
use crate::python::library::methods::call_method;
use crate::python::python_attributes::attribute;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{
    BoundMethod, GlobalFunction, Joiner, LoopState, LoopValue, MacroValue, Namespace, as_dict, tuple,
};
use crate::python::python_ops::{equal, items};
use crate::python::python_values::type_name;
use crate::templates::interpreter::program::{Arguments, Expression, Macro};
use crate::templates::interpreter::run::{Outcome, Run};

/// How deep the syntax of macros that call each other may lie in itself.
const DEEPEST: usize = 3000;

/// How much of that the stack of any thread holds; what is deeper goes on with a stack of its own.
const ON_ANY_STACK: usize = 160;

/// The bytes of that stack: address space, of which only what is used becomes memory.
const LARGE_STACK: usize = 64 << 20;

impl<'p> Run<'p> {
    pub(super) fn arguments(&self, arguments: &'p Arguments) -> Outcome<CallArguments> {
        let mut positional = self.values(&arguments.positional)?;
        for spread in &arguments.spread {
            let spread = self.value(spread)?;
            positional.extend(items(&spread, self.budget())?.iter().cloned());
        }
        let mut named: Vec<(Box<str>, Value)> = Vec::new();
        for (name, value) in &arguments.named {
            named.push((name.clone(), self.value(value)?.into_owned()));
        }
        for spread in &arguments.spread_named {
            let Some(entries) = as_dict(&*self.value(spread)?) else { return raise("** needs a dict") };
            for (key, value) in entries {
                match key.as_str() {
                    Some(key) if named.iter().any(|(known, _)| **known == *key) => {
                        return raise(format!("multiple values for keyword argument '{key}'"));
                    }
                    Some(key) => named.push((key.into(), value)),
                    None => return raise("keywords must be strings"),
                }
            }
        }
        self.budget().make_items(positional.len() + named.len())?;
        Ok(CallArguments { positional, named })
    }

    /// A `{% call %}`: `caller` is what the macro may call back.
    pub(super) fn call_with_caller(&self, call: &'p Expression, caller: Value) -> Outcome<Value> {
        match call {
            Expression::Call(callee, arguments) => self.call(callee, arguments, Some(caller)),
            Expression::Method(base, name, arguments) => self.method(base, name, arguments, Some(caller)),
            _ => raise("a call block needs a call"),
        }
    }

    pub(super) fn call(
        &self,
        callee: &'p Expression,
        arguments: &'p Arguments,
        caller: Option<Value>,
    ) -> Outcome<Value> {
        let called = match callee {
            Expression::LoopValue => Cow::Owned(Value::from_object(LoopValue(Arc::clone(self.innermost()?)))),
            callee => self.value(callee)?,
        };
        if called.is_undefined() {
            return raise(format!("{} is undefined and cannot be called", self.described(callee)));
        }
        let mut arguments = self.arguments(arguments)?;
        arguments.named.extend(caller.map(|caller| ("caller".into(), caller)));
        self.call_value(&called, &arguments)
    }

    pub(super) fn method(
        &self,
        base: &'p Expression,
        name: &str,
        arguments: &'p Arguments,
        caller: Option<Value>,
    ) -> Outcome<Value> {
        if let Expression::LoopValue = base {
            return self.loop_method(self.innermost()?, name, &self.arguments(arguments)?);
        }
        let value = self.defined(base, || format!("method `{name}`"))?;
        let mut arguments = self.arguments(arguments)?;
        arguments.named.extend(caller.map(|caller| ("caller".into(), caller)));
        if value.as_str().is_some() {
            return call_method(&value, name, &arguments, self.budget());
        }
        if let Some(LoopValue(state)) = value.downcast_object_ref::<LoopValue>() {
            return self.loop_method(state, name, &arguments);
        }
        let callee = attribute(&value, name, self.budget())?;
        if callee.is_undefined() {
            return match value.downcast_object_ref::<Namespace>() {
                Some(_) => raise(format!("the namespace has no `{name}` to call")),
                None => raise(format!("'{}' object has no method `{name}`", type_name(&value))),
            };
        }
        self.call_value(&callee, &arguments)
    }

    fn call_value(&self, callee: &Value, arguments: &CallArguments) -> Outcome<Value> {
        self.budget().step(2)?;
        if let Some(declared) = callee.downcast_object_ref::<MacroValue>() {
            return self.call_macro(declared, arguments);
        }
        if let Some(BoundMethod { value, name }) = callee.downcast_object_ref() {
            return call_method(value, name, arguments, self.budget());
        }
        if let Some(GlobalFunction(name)) = callee.downcast_object_ref() {
            return call_function(name, arguments, self.surroundings.now, self.budget());
        }
        if let Some(joiner) = callee.downcast_object_ref::<Joiner>() {
            let [] = arguments.bind("joiner", [], 0)?;
            return Ok(call_joiner(joiner));
        }
        if let Some(LoopValue(state)) = callee.downcast_object_ref::<LoopValue>() {
            return self.call_loop(state, arguments);
        }
        raise(format!("'{}' object is not callable", type_name(callee)))
    }

    pub(super) fn innermost(&self) -> Outcome<&Arc<LoopState>> {
        self.loops.last().ok_or_else(|| PythonError::new("`loop` is undefined"))
    }

    fn loop_method(&self, state: &LoopState, name: &str, arguments: &CallArguments) -> Outcome<Value> {
        match name {
            "cycle" => match arguments.positional.as_slice() {
                [] => raise("no items for cycling given"),
                given => Ok(given[state.index.load(Relaxed) % given.len()].clone()),
            },
            "changed" => {
                let given = &arguments.positional;
                self.budget().make_items(given.len())?;
                let mut last = state.last_seen.lock().unwrap_or_else(PoisonError::into_inner);
                let is_same = match &*last {
                    Some(last) => equal(&tuple(last.clone()), &tuple(given.clone()), self.budget())?,
                    None => false,
                };
                *last = Some(given.clone());
                Ok((!is_same).into())
            }
            other => raise(format!("`loop` has no method `{other}`")),
        }
    }

    /// A recursive loop that calls itself with other items.
    fn call_loop(&self, state: &LoopState, arguments: &CallArguments) -> Outcome<Value> {
        let [items] = arguments.bind("loop", ["iterable"], 1)?;
        let Some(repeated) = state.recursive.and_then(|index| self.program.loops.get(index)) else {
            return raise("the loop must have the `recursive` marker to be called");
        };
        let mut run = Run {
            locals: self.locals.clone(),
            frame: self.frame,
            loops: self.loops.clone(),
            ..self.inner(repeated.depth)?
        };
        self.budget().make_items(self.locals.len())?;
        let items = items.cloned().unwrap_or_default();
        on_fitting_stack(&mut run, |run| {
            let mut out = String::new();
            run.repeat(repeated, &items, state.depth + 1, &mut out)?;
            Ok(out.into())
        })
    }

    /// A run within this one, of something whose syntax is so deep.
    fn inner(&self, syntax: usize) -> Outcome<Run<'_>> {
        let depth = self.depth + syntax + 1;
        if depth > DEEPEST {
            return raise("maximum recursion depth exceeded: macros call each other too often");
        }
        Ok(Run {
            program: self.program,
            surroundings: self.surroundings,
            globals: Cow::Borrowed(&*self.globals),
            locals: Vec::new(),
            frame: Some(0),
            loops: Vec::new(),
            captured: Vec::new(),
            depth,
            stack_from: self.stack_from,
        })
    }

    fn call_macro(&self, declared: &MacroValue, arguments: &CallArguments) -> Outcome<Value> {
        let Macro { name: own, parameters, varargs, kwargs, caller, body, depth } =
            &self.program.macros[declared.index];
        let mut run = self.inner(*depth)?;
        run.locals.extend(declared.captured.iter().cloned());
        let begin = run.locals.len();
        run.frame = Some(begin);
        let extra = arguments.positional.get(parameters.len()..).unwrap_or_default();
        match varargs {
            Some(name) => run.locals.push((*name, tuple(extra.to_vec()))),
            None if !extra.is_empty() => {
                return raise(format!("macro '{own}' takes not more than {} argument(s)", parameters.len()));
            }
            None => {}
        }
        let mut others = Vec::new();
        let mut called_back = None;
        for (name, value) in &arguments.named {
            match parameters.iter().position(|(_, spelled, _)| spelled == name) {
                Some(place) if place < arguments.positional.len() => {
                    return raise(format!("macro '{own}' got multiple values for argument '{name}'"));
                }
                Some(_) => {}
                None if &**name == "caller" && caller.is_some() => called_back = Some(value.clone()),
                None => others.push((name.clone(), value.clone())),
            }
        }
        match (kwargs, others.first()) {
            (Some(name), _) => {
                let others = Value::from_pairs(others.iter().map(|(name, value)| (&**name, value.clone())));
                run.locals.push((*name, others));
            }
            (None, Some((name, _))) => {
                return raise(format!("macro '{own}' takes no keyword argument '{name}'"));
            }
            (None, None) => {}
        }
        run.locals.extend(caller.map(|name| (name, called_back.unwrap_or_default())));
        on_fitting_stack(&mut run, |run| {
            for (place, (name, spelled, default)) in parameters.iter().enumerate() {
                let given = arguments.positional.get(place).or_else(|| arguments.named(spelled));
                let value = match (given, default) {
                    (Some(given), _) => given.clone(),
                    (None, Some(default)) => run.value(default)?.into_owned(),
                    (None, None) => Value::UNDEFINED,
                };
                run.locals.push((*name, value));
            }
            let mut out = String::new();
            run.statements(body, &mut out)?;
            Ok(out.into())
        })
    }
}

/// Goes on with a stack that is large enough for how deep the run is.
fn on_fitting_stack<'r>(
    run: &mut Run<'r>,
    go_on: impl FnOnce(&mut Run<'r>) -> Outcome<Value> + Send,
) -> Outcome<Value> {
    if run.stack_from > 0 || run.depth <= ON_ANY_STACK {
        return go_on(run);
    }
    run.stack_from = run.depth;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("template".to_owned()).stack_size(LARGE_STACK);
        match thread.spawn_scoped(scope, || go_on(run)) {
            Ok(thread) => thread.join().unwrap_or_else(|_| raise("the template failed in a way that is not known")),
            Err(error) => raise(format!("the template calls itself too deep for this machine: {error}")),
        }
    })
}
