//! What a server speaks besides HTTP/1.1.

mod grpc;
mod http2;
