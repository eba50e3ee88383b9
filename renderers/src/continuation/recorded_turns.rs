use std::collections::HashMap;

use fulgurite_types::{DepartureReason, Message};
use serde_json::Value;

use crate::continuation::meaning::{Digest, Meaning, meaning_of_tools, reasoning_text};
use crate::continuation::{ContinuationPolicy, Continued, Departure, Fresh, NextPrompt, VolatileRules};
use crate::{Continuation, RenderError, Renderer};

/// One model call as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordedTurn<'t> {
    /// The request's messages.
    pub messages: &'t [Message],
    /// The request's tools.
    pub tools: &'t [Value],
    /// The reply as the client got it.
    pub reply: &'t Message,
    /// The tokens that were sampled after.
    pub prompt_tokens: &'t [u32],
    /// The tokens that were sampled, the stop token included.
    pub sampled_tokens: &'t [u32],
}

/// The turns of a rollout, which know their continuation when they see it.
///
/// Conversations are kept as a tree of messages by their meaning, so that finding what a request continues costs one
/// look-up per message, however many turns and branches there are; tokens are kept once, each turn's after those that
/// it continues. All turns must be of one tokenizer.
#[derive(Clone, Debug, Default)]
pub struct RecordedTurns {
    rules: VolatileRules,
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, Digest), usize>,
    /// Replies for clients that keep only the calls of an answer with text and calls, as CrewAI does. What was said
    /// without anything beside its calls comes first.
    calls_alone: HashMap<(Option<usize>, Digest), usize>,
    turns: Vec<Turn>,
    token_count: usize,
}

/// A message after all messages before it.
#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    digest: Digest,
    role: String,
    /// Turns whose reply this is.
    replies: Vec<usize>,
    /// Turns whose request ended here.
    requests: Vec<usize>,
    /// The latest turn whose conversation this is part of.
    latest: usize,
}

#[derive(Clone, Debug)]
struct Turn {
    tools: Digest,
    /// The turn whose tokens the prompt begins with.
    continues: Option<usize>,
    /// The prompt after those, then what was sampled.
    own_tokens: Vec<u32>,
    sampled_count: usize,
    /// Length of prompt and sampled tokens.
    length: usize,
    reply_node: usize,
    /// Index of the reply in its conversation.
    reply_index: usize,
    reply_reasoning: Option<Digest>,
    reply: Message,
}

/// How far a conversation goes along what is recorded.
struct Walk {
    meanings: Vec<Meaning>,
    /// The nodes of its first messages.
    nodes: Vec<usize>,
    tools: Digest,
}

impl RecordedTurns {
    /// Nothing recorded; `rules` name what does not count when messages are compared.
    pub fn new(rules: VolatileRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// How many turns are recorded.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether no turn is recorded.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many tokens are kept.
    pub fn token_count(&self) -> usize {
        self.token_count
    }

    /// Records a turn and gives its number, which counts from 0.
    pub fn record(&mut self, turn: &RecordedTurn<'_>) -> usize {
        let number = self.turns.len();
        let walk = self.walk(turn.messages, turn.tools);
        let continues =
            self.continued_turn(&walk).filter(|candidate| self.prompt_begins_with(turn.prompt_tokens, *candidate));
        let inherited = continues.map_or(0, |parent| self.turns[parent].length);

        self.rules.remember(turn.messages);
        let reply = Meaning::of(turn.reply, &self.rules);
        let digests = walk.meanings.iter().zip(turn.messages).chain([(&reply, turn.reply)]);
        let mut place = None;
        for (index, (meaning, message)) in digests.enumerate() {
            if index == turn.messages.len()
                && let Some(place) = place
            {
                let request: &mut Node = &mut self.nodes[place];
                request.requests.push(number);
            }
            // A reply is its own, even if another's calls alone are the same.
            place = Some(match walk.nodes.get(index) {
                Some(node) => self.part_of(*node, number),
                None => self.node(place, meaning.digest, &message.role, number),
            });
        }
        let reply_node = place.unwrap_or_default();
        if let Some(calls_alone) = Meaning::of_calls_alone(turn.reply, &self.rules) {
            self.calls_alone.entry((self.nodes[reply_node].parent, calls_alone)).or_insert(reply_node);
        }
        self.nodes[reply_node].replies.push(number);
        let own_tokens = [&turn.prompt_tokens[inherited..], turn.sampled_tokens].concat();
        self.token_count += own_tokens.len();
        self.turns.push(Turn {
            tools: walk.tools,
            continues,
            own_tokens,
            sampled_count: turn.sampled_tokens.len(),
            length: turn.prompt_tokens.len() + turn.sampled_tokens.len(),
            reply_node,
            reply_index: turn.messages.len(),
            reply_reasoning: reply.reasoning,
            reply: turn.reply.clone(),
        });
        number
    }

    /// The prompt and sampled tokens of a recorded turn.
    pub fn tokens(&self, turn: usize) -> Vec<u32> {
        let lineage = self.lineage(turn);
        lineage.iter().rev().flat_map(|turn| &self.turns[*turn].own_tokens).copied().collect()
    }

    /// All tokens of a prompt that [`next_prompt`](Self::next_prompt) gave.
    pub fn prompt_tokens(&self, next: &NextPrompt) -> Vec<u32> {
        match next {
            NextPrompt::Continued(continued) => [self.tokens(continued.turn), continued.appended.clone()].concat(),
            NextPrompt::Fresh(fresh) => fresh.tokens.clone(),
        }
    }

    /// The next prompt for a request. Fails where the renderer cannot write the conversation at all.
    ///
    /// It continues the recorded turn after which the fewest messages are new. Of turns with the same reply the latest
    /// counts.
    pub fn next_prompt(
        &self,
        renderer: &dyn Renderer,
        messages: &[Message],
        tools: &[Value],
        policy: ContinuationPolicy,
    ) -> Result<NextPrompt, RenderError> {
        let walk = self.walk(messages, tools);
        let messages = &*self.rules.steady(messages);
        let Some(turn) = self.continued_turn(&walk) else {
            let tokens = renderer.render_prompt(messages, tools)?.tokens;
            return Ok(self.fresh(tokens, self.departure(&walk, messages, None)));
        };
        match policy {
            ContinuationPolicy::Exact => self.exact(renderer, messages, tools, &walk, turn),
            ContinuationPolicy::TemplateFaithful => self.template_faithful(renderer, messages, tools, &walk, turn),
        }
    }

    fn exact(
        &self,
        renderer: &dyn Renderer,
        messages: &[Message],
        tools: &[Value],
        walk: &Walk,
        turn: usize,
    ) -> Result<NextPrompt, RenderError> {
        let recorded = &self.turns[turn];
        let new_from = recorded.reply_index + 1;
        let sampled = &recorded.own_tokens[recorded.own_tokens.len() - recorded.sampled_count..];
        match renderer.render_continuation(&Continuation { messages, new_from, sampled, tools }) {
            Ok(appended) => Ok(NextPrompt::Continued(Continued {
                turn,
                new_from,
                tokens_kept: recorded.length,
                appended,
                departure: self.left_behind(walk, messages, turn),
            })),
            Err(error) => {
                let tokens = renderer.render_prompt(messages, tools)?.tokens;
                let reason = DepartureReason::RendererCannotContinue;
                let detail = Some(error.to_string());
                Ok(self.fresh(tokens, Departure { detail, ..departure(reason, Some(turn), Some(new_from - 1)) }))
            }
        }
    }

    fn template_faithful(
        &self,
        renderer: &dyn Renderer,
        messages: &[Message],
        tools: &[Value],
        walk: &Walk,
        turn: usize,
    ) -> Result<NextPrompt, RenderError> {
        let mut tokens = renderer.render_prompt(messages, tools)?.tokens;
        let recorded = self.tokens(turn);
        let common = common_prefix(&tokens, &recorded);
        if common == recorded.len() {
            return Ok(NextPrompt::Continued(Continued {
                turn,
                new_from: self.turns[turn].reply_index + 1,
                tokens_kept: common,
                appended: tokens.split_off(common),
                departure: self.left_behind(walk, messages, turn),
            }));
        }
        let (reason, message_index) = self.rendered_otherwise(renderer, &tokens, &recorded, common, turn);
        Ok(self.fresh(tokens, departure(reason, Some(turn), message_index)))
    }

    /// Why a rendering differs from what was sampled, and the message in which it does.
    fn rendered_otherwise(
        &self,
        renderer: &dyn Renderer,
        tokens: &[u32],
        recorded: &[u32],
        common: usize,
        turn: usize,
    ) -> (DepartureReason, Option<usize>) {
        let sampled_from = |turn: &Turn| turn.length - turn.sampled_count;
        let holds = |turn: &Turn| (sampled_from(turn)..turn.length).contains(&common);
        let Some(differing) = self.lineage(turn).into_iter().map(|turn| &self.turns[turn]).find(|turn| holds(turn))
        else {
            return (DepartureReason::RenderedOtherwise, None);
        };
        let decode = |tokens: &[u32]| renderer.tokenizer().decode(tokens);
        let rendered = decode(&tokens[sampled_from(differing).min(common)..]);
        let reasoning = reasoning_text(&differing.reply);
        let reason = if rendered.starts_with(&decode(&recorded[sampled_from(differing)..differing.length])) {
            DepartureReason::Retokenised
        } else if !reasoning.is_empty() && !rendered.contains(&reasoning) {
            DepartureReason::ReasoningDropped
        } else if !differing.reply.tool_calls.is_empty() {
            DepartureReason::CallsRespelled
        } else {
            DepartureReason::RenderedOtherwise
        };
        (reason, Some(differing.reply_index))
    }

    fn fresh(&self, tokens: Vec<u32>, mut departure: Departure) -> NextPrompt {
        departure.token_index = departure.turn.map(|turn| common_prefix(&tokens, &self.tokens(turn)));
        NextPrompt::Fresh(Fresh { departure, tokens })
    }

    fn walk(&self, messages: &[Message], tools: &[Value]) -> Walk {
        let meanings: Vec<Meaning> = messages.iter().map(|message| Meaning::of(message, &self.rules)).collect();
        let mut nodes: Vec<usize> = Vec::new();
        for meaning in &meanings {
            let Some(node) = self.child(nodes.last().copied(), meaning.digest) else { break };
            nodes.push(node);
        }
        Walk { meanings, nodes, tools: meaning_of_tools(tools) }
    }

    /// The turn that a conversation continues: of the turns whose reply it holds, the one that it holds last.
    fn continued_turn(&self, walk: &Walk) -> Option<usize> {
        self.replies(walk).find(|turn| self.turns[*turn].tools == walk.tools && self.reasons_alike(walk, *turn))
    }

    /// Turns whose reply a conversation holds, the last reply first.
    fn replies(&self, walk: &Walk) -> impl Iterator<Item = usize> {
        walk.nodes.iter().rev().flat_map(|node| self.nodes[*node].replies.iter().rev().copied())
    }

    /// Whether what a conversation holds of the reasoning of a turn and of those before it is what was sampled. A
    /// client may leave reasoning out.
    fn reasons_alike(&self, walk: &Walk, turn: usize) -> bool {
        self.lineage(turn).into_iter().map(|turn| &self.turns[turn]).all(|turn| {
            let given = walk.meanings[turn.reply_index].reasoning;
            given.is_none() || given == turn.reply_reasoning
        })
    }

    /// A turn, the turn that it continues, and so on.
    fn lineage(&self, turn: usize) -> Vec<usize> {
        std::iter::successors(Some(turn), |turn| self.turns[*turn].continues).collect()
    }

    fn prompt_begins_with(&self, mut prompt: &[u32], turn: usize) -> bool {
        self.lineage(turn)
            .iter()
            .rev()
            .all(|turn| prompt.strip_prefix(&*self.turns[*turn].own_tokens).map(|rest| prompt = rest).is_some())
    }

    /// The node of a message after those of `parent`.
    fn child(&self, parent: Option<usize>, digest: Digest) -> Option<usize> {
        let key = (parent, digest);
        self.children.get(&key).or_else(|| self.calls_alone.get(&key)).copied()
    }

    /// Notes that a turn's conversation goes through a node.
    fn part_of(&mut self, node: usize, turn: usize) -> usize {
        self.nodes[node].latest = turn;
        node
    }

    fn node(&mut self, parent: Option<usize>, digest: Digest, role: &str, turn: usize) -> usize {
        let new = self.nodes.len();
        let node = *self.children.entry((parent, digest)).or_insert(new);
        if node == new {
            let (replies, requests) = (Vec::new(), Vec::new());
            self.nodes.push(Node { parent, digest, role: role.to_owned(), replies, requests, latest: turn });
        }
        self.part_of(node, turn)
    }

    /// Why a conversation continues `turn` and not the latest; `None` where that is the latest.
    fn left_behind(&self, walk: &Walk, messages: &[Message], turn: usize) -> Option<Departure> {
        (turn + 1 != self.turns.len()).then(|| self.departure(walk, messages, Some(turn)))
    }

    /// Where a conversation that continues `turn`, or nothing, leaves what is recorded.
    fn departure(&self, walk: &Walk, messages: &[Message], turn: Option<usize>) -> Departure {
        let depth = walk.nodes.len();
        let Some(nearest) = walk.nodes.last().map(|node| self.nodes[*node].latest).or(self.turns.len().checked_sub(1))
        else {
            return departure(DepartureReason::FirstTurn, None, None);
        };
        let message_index = (depth < messages.len()).then_some(depth);
        let with = |reason| departure(reason, Some(nearest), message_index);
        if turn.is_none()
            && let Some(refused) = self.replies(walk).next()
        {
            // A reply was recognised, but tools or reasoning are not what they were.
            return match self.turns[refused].tools == walk.tools {
                true => departure(
                    DepartureReason::HistoryRewritten,
                    Some(refused),
                    Some(self.rewritten_reasoning(walk, refused)),
                ),
                false => departure(DepartureReason::ToolsChanged, Some(refused), None),
            };
        }
        if message_index.is_none() {
            let repeated = walk.nodes.last().is_some_and(|node| !self.nodes[*node].requests.is_empty());
            return with(if repeated { DepartureReason::RequestRepeated } else { DepartureReason::Truncated });
        }
        if turn.is_some_and(|turn| self.turns[turn].reply_index + 1 == depth) {
            return with(DepartureReason::OtherBranch);
        }
        if turn.is_none() && !messages.iter().any(Message::is_assistant) {
            return with(DepartureReason::FirstTurn);
        }
        let line = self.line(nearest);
        if line.len() <= depth {
            return with(DepartureReason::OtherBranch);
        }
        let is_system = |role: &str| matches!(role, "system" | "developer");
        if is_system(&messages[depth].role) || is_system(&self.nodes[line[depth]].role) {
            return with(DepartureReason::SystemChanged);
        }
        let is_shorter = messages.len() < line.len() && !self.goes_on_behind_a_change(walk, &line);
        match self.is_shifted(walk, &line) || is_shorter {
            true => with(DepartureReason::Truncated),
            false => with(DepartureReason::HistoryRewritten),
        }
    }

    /// Whether messages stand where they are recorded, after one that does not.
    fn goes_on_behind_a_change(&self, walk: &Walk, line: &[usize]) -> bool {
        let later = walk.meanings.iter().zip(line).skip(walk.nodes.len() + 1);
        later.into_iter().any(|(meaning, node)| self.nodes[*node].digest == meaning.digest)
    }

    /// Whether a message that is no longer recorded where it stands is recorded further on: what was between is gone.
    fn is_shifted(&self, walk: &Walk, line: &[usize]) -> bool {
        let depth = walk.nodes.len();
        (depth..walk.meanings.len()).any(|index| {
            let is_it = |node: &usize| self.nodes[*node].digest == walk.meanings[index].digest;
            line.get(index + 1..).is_some_and(|later| later.iter().any(is_it)) && !line.get(index).is_some_and(is_it)
        })
    }

    /// The message whose reasoning is not what was sampled.
    fn rewritten_reasoning(&self, walk: &Walk, turn: usize) -> usize {
        let rewritten = |turn: &&Turn| {
            let given = walk.meanings[turn.reply_index].reasoning;
            given.is_some() && given != turn.reply_reasoning
        };
        let lineage = self.lineage(turn);
        let turns = lineage.iter().rev().map(|turn| &self.turns[*turn]);
        turns.into_iter().find(rewritten).map_or(0, |turn| turn.reply_index)
    }

    /// The nodes of a turn's conversation, its reply included.
    fn line(&self, turn: usize) -> Vec<usize> {
        let reply = self.turns[turn].reply_node;
        let mut line: Vec<usize> = std::iter::successors(Some(reply), |node| self.nodes[*node].parent).collect();
        line.reverse();
        line
    }
}

fn departure(reason: DepartureReason, turn: Option<usize>, message_index: Option<usize>) -> Departure {
    Departure { reason, turn, message_index, token_index: None, detail: None }
}

fn common_prefix(left: &[u32], right: &[u32]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}
