use serde_json::Value;

use crate::error::ProxyError;
use crate::field_checks::refuse;

/// Checks what form an answer is to have, which `field` says: no other than text can be asked for.
pub(crate) fn check(field: &str, format: Option<&Value>) -> Result<(), ProxyError> {
    match format.filter(|format| !format.is_null()).map(|format| format.get("type").and_then(Value::as_str)) {
        None | Some(Some("text")) => Ok(()),
        Some(_) => refuse(field, "other than text is not supported by this model host"),
    }
}
