use std::cmp::Reverse;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::replica::Replica;

/// The order in which several hosts are tried.
pub(crate) fn order<H>(mut hosts: Vec<Arc<Replica<H>>>, affinity: Option<&str>) -> Vec<Arc<Replica<H>>> {
    let now = Instant::now();
    match affinity {
        Some(affinity) => hosts.sort_by_cached_key(|replica| Reverse(rendezvous(affinity, &replica.name))),
        None => hosts.sort_by_cached_key(|replica| replica.load()),
    }
    hosts.sort_by_cached_key(|replica| !replica.circuit().admits(now));
    hosts
}

/// How much a host is the one for an affinity: of several, the one with the most is.
fn rendezvous(affinity: &str, name: &str) -> [u8; 32] {
    Sha256::new().chain_update(affinity).chain_update([0]).chain_update(name).finalize().into()
}
