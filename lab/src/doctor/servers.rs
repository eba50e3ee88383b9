//! Servers that do not sample from the weights that are published.

use fulgurite_types::{Publication, ServedWeights, ServingState};

/// Seconds without a word from a server while others report, after which it is missed.
const SILENCE: f64 = 60.0;

/// What the servers of a run's store sample its models from.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// What is published.
    pub published: Vec<Publication>,
    /// What each server reported last.
    pub served: Vec<ServedWeights>,
}

impl ServerFacts {
    /// Servers that do not have the published weights, each with what shows it.
    pub fn behind(&self) -> Vec<(&ServedWeights, String)> {
        let newest = self.newest();
        let of_server = |served| Some((served, self.shortfall(served, newest)?));
        self.current().filter_map(of_server).collect()
    }

    /// What servers reported last, but for silent processes whose URL another one has now.
    pub fn current(&self) -> impl Iterator<Item = &ServedWeights> {
        let newest = self.newest();
        let is_silent = move |served: &ServedWeights| newest - served.time > SILENCE;
        let is_replaced = move |served: &ServedWeights| {
            let is_next = |other: &ServedWeights| other.url == served.url && other.server_id != served.server_id;
            is_silent(served) && self.served.iter().any(|other| is_next(other) && !is_silent(other))
        };
        self.served.iter().filter(move |served| !is_replaced(served))
    }

    fn newest(&self) -> f64 {
        self.served.iter().map(|served| served.time).fold(f64::NEG_INFINITY, f64::max)
    }

    fn shortfall(&self, served: &ServedWeights, newest: f64) -> Option<String> {
        let ServedWeights { url, model, version, state, message, time, .. } = served;
        let published = self.published.iter().find(|published| published.weights.model == *model)?.weights.version;
        let has =
            version.map_or_else(|| "weights of no known version".to_owned(), |version| format!("version {version}"));
        let cause = message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
        if newest - time > SILENCE {
            return Some(format!("{url} has not been seen for {:.0} seconds, with {has} of {model}", newest - time));
        }
        match state {
            ServingState::Behind => Some(format!("{url} answers with {has} of {model}{cause}")),
            ServingState::Refusing => Some(format!("{url} takes no calls of {model}{cause}")),
            ServingState::Loading if message.is_none() => None,
            ServingState::Loading => Some(format!("{url} holds calls of {model}{cause}")),
            ServingState::Serving if *version == Some(published) || version.is_none() => None,
            ServingState::Serving => Some(format!("{url} has {has} of {model}, and version {published} is published")),
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NamedWeights, PublicationCause, WeightsId};

    use serde_json::json;

    use super::*;

    fn served(url: &str, version: Option<u64>, state: ServingState, time: f64) -> ServedWeights {
        let message = (state == ServingState::Behind).then(|| "version 4: no such file".to_owned());
        ServedWeights { server_id: url.into(), url: url.into(), model: "m".into(), version, state, message, time }
    }

    fn facts(served: Vec<ServedWeights>) -> ServerFacts {
        let weights = NamedWeights {
            model: "m".into(),
            version: 4,
            weights_id: WeightsId::of_digest([4; 32]),
            parent_id: None,
            run_id: None,
            step: None,
            time: 0.0,
        };
        let (source, cause) = (json!({}), PublicationCause::Update);
        let published = vec![Publication {
            position: 1,
            weights,
            source,
            files_id: None,
            base_id: None,
            cause,
            published_time: 0.0,
        }];
        ServerFacts { published, served }
    }

    #[test]
    fn servers_that_differ_are_found_and_those_on_their_way_are_not() {
        use ServingState::{Behind, Loading, Refusing, Serving};
        let well = || served("http://a", Some(4), Serving, 100.0);
        let unknown = served("http://b", None, Serving, 100.0);
        assert_eq!(facts(vec![well(), unknown, served("http://c", Some(3), Loading, 100.0)]).behind(), []);
        for (other, expected) in [
            (
                served("http://b", Some(3), Behind, 99.0),
                "http://b answers with version 3 of m: version 4: no such file",
            ),
            (served("http://b", Some(3), Refusing, 99.0), "http://b takes no calls of m"),
            (
                served("http://b", Some(4), Serving, 30.0),
                "http://b has not been seen for 70 seconds, with version 4 of m",
            ),
            (served("http://b", Some(5), Serving, 99.0), "http://b has version 5 of m, and version 4 is published"),
        ] {
            let facts = facts(vec![well(), other]);
            let behind = facts.behind();
            assert_eq!((behind.len(), behind[0].1.as_str()), (1, expected));
        }
    }
    #[test]
    fn a_killed_server_whose_url_is_back_is_not_missed() {
        let killed =
            ServedWeights { server_id: "killed".into(), ..served("http://a", Some(3), ServingState::Serving, 30.0) };
        let started = served("http://a", Some(4), ServingState::Serving, 100.0);
        let facts = facts(vec![killed, started]);
        assert_eq!((facts.behind(), facts.current().count()), (vec![], 1));
    }
}
