//! What there is, over REST, and checkpoints' files.
//!
//! - [`runs_and_sessions`], [`session_search`]: training runs and sessions.
//! - [`checkpoints`], [`checkpoint_list`]: which checkpoints there are, who may see them, how long they stay, copies.
//! - [`downloads`], [`link_signer`], [`tar`]: their files for whoever has a link.
//! - [`page`]: a part of a list.

pub(crate) mod checkpoint_list;
pub(crate) mod checkpoints;
pub(crate) mod downloads;
pub(crate) mod link_signer;
pub(crate) mod page;
pub(crate) mod runs_and_sessions;
pub(crate) mod session_search;
pub(crate) mod tar;
