//! Calls that are passed on as they come, to whoever speaks the client's own dialect: `passing` decides whether a
//! request came before, and sends it on if not. `route` is what is passed on, by path, and `request` what becomes of
//! its headers and body; `relay` hands the answer over, whole or event by event (`events`), once it is recorded
//! (`record`). What a stream says is put together again by `assembly`, and `answer` reads a whole answer of any dialect;
//! `kept_replies` are those that somebody may ask for again, and `responding` is the response.

mod answer;
mod assembly;
mod events;
mod kept_replies;
mod passing;
mod record;
mod relay;
mod request;
mod responding;
mod route;

pub(crate) use kept_replies::KeptReplies;
pub(crate) use passing::{pass_on, retrieve};
pub(crate) use relay::Passed;
pub(crate) use route::Route;
