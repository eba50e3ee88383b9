//! From a URL and the environment to an object store.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::error::ArchiveError;

const SCHEME: &str = "s3://";

/// How long a host may take to be reached, and how long a request may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// A connection that breaks and a host that is busy are tried again so often, and for so long.
const RETRIES: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// The store of `s3://BUCKET[/PREFIX]`, and the prefix. Nothing is sent yet.
pub(super) fn open(url: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath), ArchiveError> {
    let wrong = |message: String| ArchiveError::Url { url: url.to_owned(), message };
    let (bucket, prefix) = split(url).map_err(&wrong)?;
    let mut builder = AmazonS3Builder::from_env();
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let retries = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let client = ClientOptions::new().with_connect_timeout(CONNECT_TIMEOUT).with_timeout(REQUEST_TIMEOUT);
    builder = builder.with_client_options(client).with_retry(retries).with_bucket_name(bucket);
    // Whoever names such an endpoint means it: MinIO on this machine, most often.
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let store = builder.build().map_err(|error| wrong(format!("it cannot be opened: {error}")))?;
    Ok((Arc::new(store), prefix))
}

fn split(url: &str) -> Result<(&str, ObjectPath), String> {
    let looks_like = || "must look like s3://BUCKET/PREFIX".to_owned();
    let rest = url.strip_prefix(SCHEME).ok_or_else(looks_like)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) || prefix.contains(['?', '#']) {
        return Err(format!("{}, without keys or options: credentials are taken from the environment", looks_like()));
    }
    let prefix = ObjectPath::parse(prefix.trim_end_matches('/')).map_err(|error| error.to_string())?;
    Ok((bucket, prefix))
}

/// Looks at a URL.
pub(crate) fn check_url(url: &str) -> Result<(), ArchiveError> {
    let wrong = |message: String| ArchiveError::Url { url: url.to_owned(), message };
    split(url).map(drop).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_bucket_and_what_its_objects_begin_with() {
        let split = |url| split(url).map(|(bucket, prefix)| (bucket.to_owned(), prefix.to_string()));
        let of = |bucket: &str, prefix: &str| Ok((bucket.to_owned(), prefix.to_owned()));
        assert_eq!(split("s3://b"), of("b", ""));
        assert_eq!(split("s3://b/"), of("b", ""));
        assert_eq!(split("s3://b/runs/of mine/"), of("b", "runs/of mine"));
        for wrong in ["b/p", "s3://", "s3:///p", "https://b/p", "s3://key:secret@b/p", "s3://b/p?x=1"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
