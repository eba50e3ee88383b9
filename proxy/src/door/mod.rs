//! Where requests come in: the routes, whose a call is, and the reading of bodies.

pub(crate) mod caller;
pub(crate) mod incoming;
pub(crate) mod large_requests;
pub(crate) mod request_body;
pub(crate) mod request_fields;
pub(crate) mod routes;
pub(crate) mod whose_call;
