//! Conversation to tokens and back: chat templates, stop handling, streaming decoding.
