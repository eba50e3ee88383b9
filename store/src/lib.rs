//! Rollouts, attempts, spans, generations and runs in SQL, and the REST API over them.
