//! What is counted, measured and logged of requests.

pub(crate) mod access_log;
pub(crate) mod call_facts;
pub(crate) mod metering;
pub(crate) mod observed_body;
pub(crate) mod telemetry;
