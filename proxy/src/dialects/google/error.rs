use axum::response::Response;
use serde_json::{Value, json};

use crate::error::ProxyError;
use crate::error::wire_error::{self, Dialect, WireError};

/// The error as Google's JSON: its status by number and by name, and among the details the field at fault and a reason for
/// programs.
pub(super) fn body(error: &ProxyError) -> Value {
    json_of(error.in_dialect(Dialect::Google))
}

fn json_of(error: WireError) -> Value {
    let WireError { status, kind, message, parameter, code } = error;
    let field = parameter.map(|field| {
        let violation = json!({ "field": field, "description": message });
        json!({ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation] })
    });
    let reason = code.map(|code| {
        let reason = code.to_ascii_uppercase();
        json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "fulgurite" })
    });
    let details: Vec<Value> = field.into_iter().chain(reason).collect();
    let mut written = json!({ "error": { "code": status.as_u16(), "message": message, "status": kind } });
    if !details.is_empty() {
        written["error"]["details"] = details.into();
    }
    written
}

/// The response to a call that failed, or to what never became one.
pub(crate) fn response(error: &ProxyError) -> Response {
    let written = error.in_dialect(Dialect::Google);
    wire_error::response(error, written.status, json_of(written))
}

#[cfg(test)]
mod tests {
    use fulgurite_api::Refused;
    use fulgurite_backends::BackendError;
    use fulgurite_store::KeyRefused;

    use super::*;

    #[test]
    fn every_error_has_googles_shape_and_the_name_of_its_status() {
        for (error, status, kind) in [
            (ProxyError::invalid("contents", "no"), 400, "INVALID_ARGUMENT"),
            (ProxyError::BodyTooLarge { limit: 1 }, 413, "INVALID_ARGUMENT"),
            (ProxyError::UnknownModel { model: "m".into(), served: "none".into() }, 404, "NOT_FOUND"),
            (Refused::ShuttingDown.into(), 503, "UNAVAILABLE"),
            (Refused::from(KeyRefused::Unknown).into(), 401, "UNAUTHENTICATED"),
            (Refused::from(KeyRefused::AdminOnly { of: "an agent" }).into(), 403, "PERMISSION_DENIED"),
            (ProxyError::MethodNotAllowed { method: "PUT".into() }, 405, "UNIMPLEMENTED"),
            (ProxyError::SamplerTimeout { awaited: "it", seconds: 1.0, key: "k" }, 504, "DEADLINE_EXCEEDED"),
            (BackendError::Overloaded { limit: 1 }.into(), 503, "UNAVAILABLE"),
            (BackendError::Internal { message: "m".into() }.into(), 500, "INTERNAL"),
        ] {
            let written = &body(&error)["error"];
            assert_eq!((&written["code"], &written["status"]), (&json!(status), &json!(kind)), "{error}");
            assert_eq!(written["message"], error.to_string());
        }
    }

    #[test]
    fn the_field_and_the_reason_are_among_the_details() {
        let error = ProxyError::PromptTooLong { parameter: "contents", prompt_tokens: 70, context_length: 64 };
        let words = "The input token count (70) exceeds the maximum number of tokens allowed (63).";
        let details = json!([
            { "@type": "type.googleapis.com/google.rpc.BadRequest",
              "fieldViolations": [{ "field": "contents", "description": words }] },
            { "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "CONTEXT_LENGTH_EXCEEDED",
              "domain": "fulgurite" },
        ]);
        let expected = json!({ "code": 400, "message": words, "status": "INVALID_ARGUMENT", "details": details });
        assert_eq!(body(&error), json!({ "error": expected }));
        let internal = body(&BackendError::Internal { message: "m".into() }.into());
        assert_eq!(internal["error"].get("details"), None);
    }
}
