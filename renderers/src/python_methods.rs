use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Methods that Python's values have and templates call.
pub(crate) fn call_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    unknown_method_callback(state, value, method, args)
}
