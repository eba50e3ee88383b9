//! A report: the page in one file, with the data that it would fetch from a server.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::page::{SCRIPT, STYLE};

/// What a report's page reads in place of a server's answers.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// A server's answers, by the paths that the page requests, which are not percent-encoded.
    pub answers: BTreeMap<String, Value>,
    /// What is said of each run besides, by its id.
    pub summaries: BTreeMap<String, Value>,
}

/// The page with a report's data in it.
///
/// # Errors
///
/// If the data cannot be written as JSON.
pub fn report_page(report: &Report) -> serde_json::Result<String> {
    // Nothing that a model wrote can end the element: without `<` there is no tag.
    let data = serde_json::to_string(report)?.replace('<', "\\u003c");
    let (script, style) = (digest(SCRIPT), digest(STYLE));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{script}'; \
         style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Fulgurite</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<div id=\"page\"></div>\n\
         <script id=\"report\" type=\"application/json\">{data}</script>\n\
         <script type=\"module\">{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

/// A source of a content security policy that allows this text alone.
fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EVIL: &str = "</script><script>alert(1)</script><!--<img src=x onerror='y()'>";

    #[test]
    fn what_a_model_wrote_cannot_leave_the_data_of_a_report() {
        let report = Report {
            answers: BTreeMap::from([(EVIL.to_owned(), json!([EVIL]))]),
            summaries: BTreeMap::from([(EVIL.to_owned(), json!({ EVIL: EVIL }))]),
        };
        let page = report_page(&report).unwrap();
        assert!(!page.contains(EVIL) && page.matches("</script>").count() == 2, "an end for each of our own scripts");
        let (_, rest) = page.split_once("<script id=\"report\" type=\"application/json\">").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        let read: Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["answers"][EVIL], json!([EVIL]), "it is read as it was written");
    }

    #[test]
    fn the_files_of_the_page_can_stand_inside_a_page() {
        for end in ["</script", "<!--"] {
            assert!(!SCRIPT.contains(end), "{end}");
        }
        assert!(!STYLE.contains("</style") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
