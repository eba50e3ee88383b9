//! Clients, hosts and connections that fail.

mod remote_hosts;
mod retries;
mod sampling_limits;
