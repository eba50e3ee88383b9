//! The server's connections and what each may do: HTTP/1.1 and HTTP/2, limits of size and time, and their end.

pub(crate) mod connections;
pub(crate) mod gate;
mod half_closed;
mod http2;
pub(crate) mod limited_stream;
mod preface;
mod timed_body;
