//! What may be shown of what may hold secrets.

use reqwest::Url;

/// A URL without user, password, query and fragment.
pub fn public_part(url: &str) -> String {
    let before_query = |url: &str| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    // A password may hold what begins a query, though then it is no URL.
    let url = if Url::parse(url).is_ok() { before_query(url) } else { url.to_owned() };
    match url.split_once("://").zip(url.rsplit_once('@')) {
        Some(((scheme, _), (_, address))) => format!("{scheme}://{}", before_query(address)),
        None => before_query(&url),
    }
}
