use minijinja::Value;

use crate::python::python_error::{PythonError, raise};
use crate::python::python_ops::truth;
use crate::python::python_values::{integer, type_name};

/// The arguments of a call, evaluated.
#[derive(Debug, Default)]
pub(crate) struct CallArguments {
    pub(crate) positional: Vec<Value>,
    pub(crate) named: Vec<(Box<str>, Value)>,
}

impl CallArguments {
    /// The arguments by the names of the parameters that they are for, of which the first `required` must be there.
    pub(crate) fn bind<const N: usize>(
        &self,
        function: &str,
        parameters: [&str; N],
        required: usize,
    ) -> Result<[Option<&Value>; N], PythonError> {
        if self.positional.len() > N {
            return raise(format!(
                "{function}() takes at most {N} arguments, and {} were given",
                self.positional.len()
            ));
        }
        let mut bound = [None; N];
        for (place, value) in self.positional.iter().enumerate() {
            bound[place] = Some(value);
        }
        for (name, value) in &self.named {
            match parameters.iter().position(|parameter| **parameter == **name) {
                Some(place) if bound[place].is_none() => bound[place] = Some(value),
                Some(_) => return raise(format!("{function}() got multiple values for argument '{name}'")),
                None => return raise(format!("{function}() got an unexpected keyword argument '{name}'")),
            }
        }
        match bound[..required].iter().position(Option::is_none) {
            Some(missing) => raise(format!("{function}() needs the argument '{}'", parameters[missing])),
            None => Ok(bound),
        }
    }

    /// The value of a named argument.
    pub(crate) fn named(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }
}

/// An argument that must be text.
pub(crate) fn text(value: &Value) -> Result<&str, PythonError> {
    value.as_str().ok_or_else(|| PythonError::new(format!("a text is needed, not '{}'", type_name(value))))
}

/// An argument that must be an integer.
pub(crate) fn whole(value: &Value) -> Result<i128, PythonError> {
    integer(value)
        .ok_or_else(|| PythonError::new(format!("'{}' object cannot be interpreted as an integer", type_name(value))))
}

/// A size; what is negative counts as 0.
pub(crate) fn size(value: &Value) -> Result<usize, PythonError> {
    Ok(usize::try_from(whole(value)?.max(0)).unwrap_or(usize::MAX))
}

/// Whether a flag is given and counts as true.
pub(crate) fn flag(value: Option<&Value>, default: bool) -> bool {
    value.map_or(default, truth)
}

/// An argument that is given and not none.
pub(crate) fn given(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_none())
}
