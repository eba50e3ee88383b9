//! The agents' door: OpenAI-style calls to tokens, sampling, and the record of it.
