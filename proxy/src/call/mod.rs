//! One model call: the request, the plan of its answers, and their sampling.

pub(crate) mod answer_request;
pub(crate) mod auxiliary_rules;
pub(crate) mod call_end;
pub(crate) mod call_services;
pub(crate) mod deadlines;
pub(crate) mod interruption;
pub(crate) mod model_call;
pub(crate) mod model_request;
pub(crate) mod planning;
pub(crate) mod run_call;
pub(crate) mod sampled_answer;
pub(crate) mod sampling;
pub(crate) mod shutdown;
pub(crate) mod structured_output;
