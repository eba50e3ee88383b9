//! The request that hosts are sent where what it asks for does not matter.

use fulgurite_backends::SampleRequest;

pub fn sample_request() -> SampleRequest {
    SampleRequest { stop_tokens: vec![9], ..SampleRequest::new(vec![5, 6], 8, 1) }
}
