use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;

use crate::error::ProxyError;

/// The parts of a forwarded answer: its head, then pieces of its body, then its end; or `Failed`, at any time before the
/// end, and nothing after it.
#[derive(Clone, Debug)]
pub(crate) enum ForwardedPart {
    Head(Arc<Head>),
    Piece(Bytes),
    /// The end. What came before is recorded.
    End,
    Failed(Arc<ProxyError>),
}

impl ForwardedPart {
    /// Bytes that it holds, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            ForwardedPart::Head(_) => 1_000,
            ForwardedPart::Piece(bytes) => bytes.len(),
            ForwardedPart::End | ForwardedPart::Failed(_) => 0,
        }
    }
}

/// How an answer begins.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Whether its body is forwarded while it comes.
    pub(crate) is_stream: bool,
}
