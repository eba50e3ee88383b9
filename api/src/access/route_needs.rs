use std::collections::HashMap;

use axum::http::Method;

use crate::access::need::Need;

/// What the routes of a server need of a key, by the paths that they are registered under. A route that is not noted here
/// needs the admin key.
#[derive(Debug, Default)]
pub struct RouteNeeds(HashMap<String, RouteNeed>);

#[derive(Debug)]
struct RouteNeed {
    need: Need,
    head: Need,
}

impl RouteNeeds {
    /// Notes what a route needs, and returns its path, so that it can stand where the route is registered.
    pub fn note<'p>(&mut self, path: &'p str, need: Need) -> &'p str {
        self.insert(path, RouteNeed { need, head: need })
    }

    /// The same of a route whose `HEAD` needs no key: clients ask an agent's base URL whether somebody is there, some
    /// before they have a key.
    pub fn note_but_head<'p>(&mut self, path: &'p str, need: Need) -> &'p str {
        self.insert(path, RouteNeed { need, head: Need::Nothing })
    }

    fn insert<'p>(&mut self, path: &'p str, need: RouteNeed) -> &'p str {
        self.0.insert(path.to_owned(), need);
        path
    }

    /// What a request needs. `route` is the path that its route is registered under; what is no route needs the admin key.
    pub fn of(&self, method: &Method, route: Option<&str>) -> Need {
        match route.and_then(|path| self.0.get(path)) {
            Some(noted) if *method == Method::HEAD => noted.head,
            Some(noted) => noted.need,
            None => Need::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_noted_needs_the_admin_key() {
        let mut needs = RouteNeeds::default();
        assert_eq!(needs.note("/calls", Need::ModelCalls), "/calls");
        needs.note_but_head("/", Need::Admin);
        for (method, route, expected) in [
            (Method::POST, Some("/calls"), Need::ModelCalls),
            (Method::HEAD, Some("/calls"), Need::ModelCalls),
            (Method::HEAD, Some("/"), Need::Nothing),
            (Method::GET, Some("/"), Need::Admin),
            (Method::GET, Some("/calls/new"), Need::Admin),
            (Method::HEAD, None, Need::Admin),
        ] {
            assert_eq!(needs.of(&method, route), expected, "{method} {route:?}");
        }
    }
}
