//! The server's connections and what each may do: HTTP/1.1 and HTTP/2, limits of size and time, and their end.

pub mod connections;
pub mod door;
mod half_closed;
mod http2;
pub mod limited_stream;
mod preface;
mod timed_body;
