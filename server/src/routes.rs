//! The rooms' routes, and what each needs of a key.

use axum::Router;
use fulgurite_agentlightning::Overdue;
use fulgurite_api::{Need, RouteNeeds, Serving};
use fulgurite_dashboard::{PageModel, Tokenizers};
use fulgurite_proxy::Proxy;
use fulgurite_store::{Keyring, Store};
use fulgurite_tinker::server::SIGNED_LINK;

/// The routes over a proxy and its store, and what these and the Tinker API's need of a key.
pub(crate) fn all_routes(
    proxy: Proxy,
    store: Store,
    keyring: &Keyring,
    tokenizers: Tokenizers,
    models: Vec<PageModel>,
    serving: &Serving,
    overdue: Overdue,
) -> (Router, RouteNeeds) {
    let mut needs = RouteNeeds::default();
    needs.note(SIGNED_LINK, Need::Nothing);
    needs.note("/v1/agl/queues/rollouts/dequeue", Need::Worker);
    let routes = fulgurite_proxy::routes(proxy, &mut needs)
        .merge(fulgurite_api::routes(store.clone(), serving, &mut needs))
        .merge(crate::login::routes(keyring.clone(), &mut needs))
        .merge(fulgurite_dashboard::routes(store.clone(), tokenizers, models, serving, &mut needs))
        .merge(fulgurite_agentlightning::routes(store, serving, overdue));
    (routes, needs)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::{Method, Request, StatusCode};
    use axum::middleware::from_fn_with_state;
    use fulgurite_proxy::ProxyOptions;
    use fulgurite_store::{AdminKey, Keyring, StoreOptions};
    use fulgurite_tinker::server::{TinkerServer, TinkerServerOptions};
    use regex::Regex;
    use tower::ServiceExt;

    use super::*;
    use crate::access::{self, Entrance};
    use crate::http::gate::Gate;
    use crate::web_origins::WebOrigins;
    use fulgurite_config::declarations::ServerConfig;

    const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

    /// Model calls, below each base.
    const MODEL_CALLS: [&str; 13] = [
        "chat/completions",
        "completions",
        "embeddings",
        "messages",
        "messages/count_tokens",
        "models",
        "models/{*model}",
        "responses",
        "responses/compact",
        "responses/{response_id}",
        "responses/{response_id}/cancel",
        "responses/{response_id}/input_items",
        "responses/input_tokens",
    ];

    /// What others serve there, and is refused.
    const UNSERVED: [&str; 17] = [
        "assistants",
        "audio",
        "batches",
        "containers",
        "conversations",
        "evals",
        "files",
        "fine_tuning",
        "images",
        "messages/batches",
        "moderations",
        "realtime",
        "skills",
        "threads",
        "uploads",
        "vector_stores",
        "videos",
    ];

    /// All that is open to less than the admin key, and for `HEAD` where that is different. Whoever opens a route says so
    /// here too.
    fn open_routes() -> BTreeMap<String, (Need, Need)> {
        let attempt = "/rollout/{rollout_id}/attempt/{attempt_id}";
        let mut open = BTreeMap::new();
        let mut add = |path: &str, need: Need, head: Need| open.insert(path.to_owned(), (need, head));
        for path in ["/", "/ui/{file}", "/v1/fulgurite/login", "/v1/fulgurite/logout"] {
            add(path, Need::Nothing, Need::Nothing);
        }
        for path in ["/healthz", "/health"] {
            add(path, Need::Nothing, Need::Nothing);
        }
        for base in ["", attempt] {
            for call in ["inference/v1/generate", "tokenize", "detokenize"] {
                add(&format!("{base}/{call}"), Need::ModelCalls, Need::ModelCalls);
            }
        }
        add("/api/v1/downloads/{expires}/{signature}/{run_id}/{kind}/{name}/{file}", Need::Nothing, Need::Nothing);
        for path in ["", "/", "/v1", "/v1/"] {
            add(&format!("{attempt}{path}"), Need::ModelCalls, Need::Nothing);
        }
        for base in ["/v1", attempt, &format!("{attempt}/v1"), "/oai/api/v1", "/anthropic/api/v1"] {
            for call in MODEL_CALLS {
                add(&format!("{base}/{call}"), Need::ModelCalls, Need::ModelCalls);
            }
            for unserved in UNSERVED {
                for path in [format!("{base}/{unserved}"), format!("{base}/{unserved}/{{*rest}}")] {
                    add(&path, Need::ModelCalls, Need::ModelCalls);
                }
            }
        }
        for base in ["/v1beta", &format!("{attempt}/v1beta")] {
            for call in ["models", "models/{*model}"] {
                add(&format!("{base}/{call}"), Need::ModelCalls, Need::ModelCalls);
            }
        }
        let gateway = "/proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{*endpoint}";
        add(gateway, Need::ModelCalls, Need::ModelCalls);
        add("/v1/agl/queues/rollouts/dequeue", Need::Worker, Need::Worker);
        let report = "rollouts/{rollout_id}/attempts/{attempt_id}/report";
        for path in ["workers/{worker_id}/release", report, "attempts/heartbeat", "worker"] {
            add(&format!("/v1/fulgurite/{path}"), Need::Worker, Need::Worker);
        }
        for path in ["/rollout/{rollout_id}", attempt, "/rollout/{rollout_id}/generation/{generation_id}"] {
            add(&format!("{path}/reward"), Need::Rollout, Need::Rollout);
        }
        open
    }

    /// The paths of a router's routes, which only its debug text says.
    fn paths(router: &Router) -> BTreeSet<String> {
        let text = format!("{router:?}");
        let path = Regex::new(r#"RouteId\(\d+\): "([^"]*)""#).unwrap();
        path.captures_iter(&text).map(|found| found[1].to_owned()).filter(|path| !path.contains("__private")).collect()
    }

    /// Every route of a server with an admin key, on a new store in a directory, and what each needs of a key.
    async fn served_routes(directory: &std::path::Path) -> (Router, RouteNeeds, Keyring) {
        let url = format!("sqlite://{}", directory.join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        let proxy = Proxy::new(store.clone(), Vec::new(), ProxyOptions::default()).unwrap();
        let issued = store.issued_keys().await.unwrap().clone();
        let keyring = Keyring { admin: Some(AdminKey::new("admin").unwrap()), issued };
        let (routes, needs) = all_routes(
            proxy,
            store.clone(),
            &keyring,
            Tokenizers::default(),
            Vec::new(),
            &Serving::default(),
            Overdue::ByTimer,
        );
        let tinker = TinkerServer::start(Vec::new(), TinkerServerOptions::new(directory.join("tinker"))).unwrap();
        (routes.merge(fulgurite_tinker::server::routes(tinker)), needs, keyring)
    }

    /// Documented paths whose routes other crates add.
    const ELSEWHERE: [&str; 3] =
        ["/metrics", "/v1/fulgurite/runs/{run_id}/findings", "/v1/fulgurite/runs/{run_id}/changed"];

    /// The documented methods of each path, as the router spells them but for wildcards.
    fn documented_routes() -> BTreeMap<String, BTreeSet<Method>> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/openapi.json");
        let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let mut documented: BTreeMap<String, BTreeSet<Method>> = BTreeMap::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let other = item["x-fulgurite-also-at"].as_array().cloned().unwrap_or_default();
            let methods: BTreeSet<Method> =
                METHODS.into_iter().filter(|method| item[method.as_str().to_lowercase()].is_object()).collect();
            for path in std::iter::once(path.as_str()).chain(other.iter().filter_map(|path| path.as_str())) {
                documented.entry(path.to_owned()).or_default().extend(methods.clone());
            }
        }
        documented
    }

    #[tokio::test]
    async fn the_openapi_document_has_every_route_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let (routes, _, _) = served_routes(directory.path()).await;
        let documented = documented_routes();
        let mut served = BTreeMap::new();
        for path in paths(&routes) {
            // What is not served at all is told so by any method, with whatever stands below it.
            let is_catch_all = path.ends_with("/{*rest}") || path.ends_with("/{*path}");
            if is_catch_all || paths(&routes).contains(&format!("{path}/{{*rest}}")) {
                continue;
            }
            let mut accepted = BTreeSet::new();
            for method in METHODS.into_iter().filter(|method| *method != Method::HEAD) {
                // What is posted to a model is one of Google's methods.
                let model = if method == Method::POST { "model:countTokens" } else { "model" };
                let uri = path.replace("{*model}", model).replace(['{', '}', '*'], "");
                let request = Request::builder().method(&method).uri(uri).header("host", "127.0.0.1");
                let response = routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
                let is_refused = response.status() == StatusCode::METHOD_NOT_ALLOWED
                    || path == "/" && response.status() == StatusCode::NOT_FOUND;
                if !is_refused {
                    accepted.insert(method);
                }
            }
            served.insert(path.replace("{*", "{"), accepted);
        }
        let here: BTreeMap<_, _> =
            documented.into_iter().filter(|(path, _)| !ELSEWHERE.contains(&path.as_str())).collect();
        let only = |one: &BTreeMap<String, BTreeSet<Method>>, other: &BTreeMap<String, BTreeSet<Method>>| {
            let differs = |(path, methods): &(&String, &BTreeSet<Method>)| other.get(*path) != Some(*methods);
            one.iter().filter(differs).map(|(path, methods)| format!("{path} {methods:?}")).collect::<Vec<_>>()
        };
        assert!(served.len() > 100);
        assert_eq!(
            (only(&served, &here), only(&here, &served)),
            (Vec::new(), Vec::new()),
            "served and not in docs/openapi.toml as it is; and the other way round. docs/openapi.py writes the document"
        );
    }

    #[tokio::test]
    async fn a_route_is_closed_unless_it_is_known_to_be_open() {
        let directory = tempfile::tempdir().unwrap();
        let (routes, needs, keyring) = served_routes(directory.path()).await;
        let paths = paths(&routes);
        assert!(paths.len() > 100 && paths.contains("/v1/agl/rollouts/{rollout_id}"), "{paths:?}");
        let open = open_routes();
        assert!(open.keys().all(|path| paths.contains(path)), "{paths:?}");

        let entrance = Entrance {
            gate: Gate::new(),
            keyring,
            needs,
            body_limit: 1000,
            origins: WebOrigins::new(&ServerConfig::default(), ([127, 0, 0, 1], 80).into()).unwrap(),
        };
        let entrance = Arc::new(entrance);
        let routes = routes.layer(from_fn_with_state(Arc::clone(&entrance), access::check));
        for (path, method) in paths.iter().flat_map(|path| METHODS.map(|method| (path, method))) {
            let (need, head) = open.get(path).copied().unwrap_or((Need::Admin, Need::Admin));
            let expected = if method == Method::HEAD { head } else { need };
            assert_eq!(entrance.needs.of(&method, Some(path)), expected, "{method} {path}");
            let request = Request::builder().method(&method).uri(path.replace(['{', '}', '*'], ""));
            let request = request.header("host", "127.0.0.1").body(Body::empty()).unwrap();
            let response = routes.clone().oneshot(request).await.unwrap();
            let is_refused = response.status() == StatusCode::UNAUTHORIZED;
            assert_eq!(is_refused, expected != Need::Nothing, "{method} {path}: {}", response.status());
        }
    }
}
