use std::time::Duration;

use reqwest::Url;

use crate::BackendError;

/// How long a host may take to accept a connection.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a host may take to answer a health check.
pub const HEALTH_LIMIT: Duration = Duration::from_secs(5);

/// Where a server is, its path ending in a slash and without `version`, which people may write there.
pub fn base_url(url: &str, version: &str) -> Result<Url, BackendError> {
    let mut base = read_url(url)?;
    let path = base.path().trim_end_matches('/');
    let path = format!("{}/", path.strip_suffix(version).unwrap_or(path));
    base.set_path(&path);
    base.set_query(None);
    Ok(base)
}

/// The URL of a server, which tells no secret.
pub(crate) fn read_url(url: &str) -> Result<Url, BackendError> {
    let refuse = |message: String| BackendError::Configuration { message };
    let base = Url::parse(url).map_err(|error| refuse(format!("`{url}` is no URL: {error}")))?;
    if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
        return Err(refuse(format!("`{url}` is no URL of a model host: it must begin with http:// or https://")));
    }
    if !base.username().is_empty() || base.password().is_some() {
        let message = "the URL of a model host holds a user or a password, which errors would show: give the key by \
                       api_key_env";
        return Err(refuse(message.to_owned()));
    }
    Ok(base)
}
