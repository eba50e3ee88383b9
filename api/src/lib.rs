//! Our own HTTP routes over the store, OpenTelemetry's traces among them, and the conventions that every API over it
//! shares: reading bodies, telling mistakes, taking turns, what a route needs of a key.

mod access;
pub mod conventions;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod otlp;
mod routes;

pub use access::need::Need;
pub use access::route_needs::RouteNeeds;
pub use conventions::refused::{BodyTooSlow, Refused};
pub use conventions::serving::{DEFAULT_BODY_LIMIT, Serving};
pub use conventions::turns::{Turns, TurnsFull};
pub use otlp::{rejected_spans, spans_to_protobuf};
pub use routes::{is_grpc, refusal, routes, unknown_method};
