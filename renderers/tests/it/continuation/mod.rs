//! What a request continues, as clients really send it, and that every format continues token by token.

mod clients;
mod departures;
mod every_format;
mod setup;
