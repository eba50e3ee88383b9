//! Through the tree of spans, knowing what each one is in.

use std::rc::Rc;

use fulgurite_types::Span;

use super::calls::agent_name;
use super::options::TripletOptions;
use super::report::Reason;
use super::rewards::is_reward;
use super::tree::SpanTree;

/// The agent of calls that are in no agent's span.
pub(super) const ANY_AGENT: &str = "*";

/// What a span is in.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The agent, if it is one that was requested.
    pub agent: Option<Rc<str>>,
    /// The agent, whether or not it was requested.
    named_agent: Option<Rc<str>>,
    /// Whether a reward is made here.
    pub within_reward: bool,
    /// Whether it is part of a model call.
    pub within_call: bool,
}

impl Place {
    /// Why a model call does not count here, if it does not.
    pub(super) fn reason(&self, options: &TripletOptions) -> Option<(Reason, Option<String>)> {
        if self.agent.is_none() {
            let agent = self.named_agent.as_deref().map(|name| format!("its agent is `{name}`"));
            Some((Reason::OutsideAgent, Some(agent.unwrap_or_else(|| "it is in no agent's span".to_owned()))))
        } else if self.within_reward && options.exclude_llm_call_in_reward {
            Some((Reason::InsideReward, None))
        } else {
            None
        }
    }

    fn inside(&self, span: &Span, is_call: bool, options: &TripletOptions) -> Self {
        let mut inside = self.clone();
        if let Some(name) = agent_name(span) {
            let is_wanted = options.agent_match.as_ref().is_none_or(|pattern| pattern.is_match(name));
            inside.named_agent = Some(name.into());
            inside.agent = inside.named_agent.clone().filter(|_| is_wanted);
        }
        inside.within_reward |= is_reward(span);
        inside.within_call |= is_call;
        inside
    }
}

/// Visits every span that the root reaches, parents first; `is_call` says whether what is below is part of a model call.
pub(super) fn walk<'s>(
    tree: &SpanTree<'s>,
    options: &TripletOptions,
    mut is_call: impl FnMut(usize, &'s Span, &Place) -> bool,
) {
    let agent = options.agent_match.is_none().then(|| ANY_AGENT.into());
    let top = Place { agent, named_agent: None, within_reward: false, within_call: false };
    let mut open: Vec<(usize, Rc<Place>)> = tree.root().map(|root| (root, Rc::new(top))).into_iter().collect();
    while let Some((node, place)) = open.pop() {
        let inside = match tree.span(node) {
            Some(span) => {
                let is_call = is_call(node, span, &place);
                Rc::new(place.inside(span, is_call, options))
            }
            None => place,
        };
        open.extend(tree.children(node).iter().rev().map(|child| (*child, Rc::clone(&inside))));
    }
}
