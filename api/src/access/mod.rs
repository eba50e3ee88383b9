//! What a route needs of a key: noted in the line that registers the route, asked for where requests come in.

pub(crate) mod need;
pub(crate) mod route_needs;
