//! The spans of an attempt as a tree.

use std::collections::HashMap;

use fulgurite_types::Span;

/// Spans by parenthood, under one root. Node `i` is the span at index `i`; nodes beyond the spans stand for parents that
/// were not recorded and, if there is more than one root, for a root above them.
#[derive(Debug)]
pub(super) struct SpanTree<'s> {
    spans: &'s [Span],
    nodes: Vec<Node>,
    root: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    start: Option<f64>,
    end: Option<f64>,
    parent: Option<usize>,
    children: Vec<usize>,
}

impl<'s> SpanTree<'s> {
    /// The tree, repaired if `repair` is set.
    pub(super) fn of(spans: &'s [Span], repair: bool) -> Self {
        let mut tree = Self::new(spans);
        if repair {
            tree.repair();
        }
        tree
    }

    /// Children stand in the order of the spans; of two spans with one id the later one counts.
    fn new(spans: &'s [Span]) -> Self {
        let by_id: HashMap<&str, usize> =
            (0..).zip(spans).map(|(index, span)| (span.span_id.as_str(), index)).collect();
        let node = |span: &Span| Node { start: span.start_time, end: span.end_time, ..Node::default() };
        let mut tree = Self { spans, nodes: spans.iter().map(node).collect(), root: None };
        let (mut roots, mut missing): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut missing_ids: HashMap<&str, usize> = HashMap::new();
        for (index, span) in spans.iter().enumerate().filter(|(index, span)| by_id[span.span_id.as_str()] == *index) {
            let Some(parent_id) = &span.parent_id else {
                roots.push(index);
                continue;
            };
            let parent = by_id.get(parent_id.as_str()).copied().unwrap_or_else(|| {
                *missing_ids.entry(parent_id).or_insert_with(|| {
                    let parent = tree.add_node();
                    missing.push(parent);
                    parent
                })
            });
            tree.adopt(parent, index);
        }
        for &parent in &missing {
            tree.span_children(parent);
        }
        roots.extend(missing);
        tree.root = tree.join(&roots);
        tree
    }

    /// What all others are in; none if there are no spans or they are all in rings.
    pub(super) fn root(&self) -> Option<usize> {
        self.root
    }

    /// The span of a node, if it is one's.
    pub(super) fn span(&self, node: usize) -> Option<&'s Span> {
        self.spans.get(node)
    }

    /// The direct children of a node.
    pub(super) fn children(&self, node: usize) -> &[usize] {
        &self.nodes[node].children
    }

    /// The node itself and all that it is in, from the inside out.
    pub(super) fn lineage(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent)
    }

    /// Every node that the root reaches, parents first, children in order.
    pub(super) fn preorder(&self) -> Vec<usize> {
        self.root.map(|root| self.below(root)).unwrap_or_default()
    }

    /// A node and all below it, parents first, children in order.
    fn below(&self, node: usize) -> Vec<usize> {
        let (mut order, mut open) = (Vec::new(), vec![node]);
        while let Some(node) = open.pop() {
            order.push(node);
            open.extend(self.nodes[node].children.iter().rev());
        }
        order
    }

    /// When the span of a node began; before everything if not recorded.
    pub(super) fn start(&self, node: usize) -> f64 {
        self.nodes[node].start.unwrap_or(f64::NEG_INFINITY)
    }

    /// When the span of a node ended; its begin if not recorded.
    pub(super) fn end(&self, node: usize) -> f64 {
        self.nodes[node].end.unwrap_or(self.start(node))
    }

    /// When something without duration happened; after everything if not recorded.
    pub(super) fn moment(&self, node: usize) -> f64 {
        self.nodes[node].start.or(self.nodes[node].end).unwrap_or(f64::INFINITY)
    }

    /// Puts spans that a tracer has left at the top where they belong by their times: each child of the first node with
    /// more than one child moves under the span that encloses it most closely, if one does; one child is left in any
    /// case.
    ///
    /// A child never moves under what is in it, which would cut both off from the root; in Agent-lightning it does, and
    /// the calls in it are lost.
    fn repair(&mut self) {
        let Some(mut top) = self.root else { return };
        while let [only] = self.nodes[top].children[..] {
            top = only;
        }
        let mut candidates = self.below(top);
        for child in self.nodes[top].children.clone() {
            if self.nodes[top].children.len() == 1 {
                return;
            }
            if let Some(parent) = self.closest_around(child, &candidates[1..]) {
                self.nodes[top].children.retain(|other| *other != child);
                self.adopt(parent, child);
                candidates = self.below(top);
            }
        }
    }

    /// Of some spans the one that encloses a child most closely.
    fn closest_around(&self, child: usize, candidates: &[usize]) -> Option<usize> {
        let (start, end) = (self.nodes[child].start?, self.nodes[child].end?);
        let slack = |node: usize| {
            let (other_start, other_end) = (self.nodes[node].start?, self.nodes[node].end?);
            let slack = (other_end - end) + (start - other_start);
            (other_start <= start && other_end >= end && slack > 0.0).then_some(slack)
        };
        candidates
            .iter()
            .filter_map(|node| Some((*node, slack(*node)?)))
            .filter(|(node, _)| self.lineage(*node).all(|above| above != child))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
            .map(|(node, _)| node)
    }

    fn add_node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    fn adopt(&mut self, parent: usize, child: usize) {
        self.nodes[parent].children.push(child);
        self.nodes[child].parent = Some(parent);
    }

    /// Gives a node the time from its first child's beginning to its last one's end.
    fn span_children(&mut self, parent: usize) {
        let children = self.nodes[parent].children.iter().map(|child| &self.nodes[*child]);
        let start = children.clone().filter_map(|child| child.start).min_by(f64::total_cmp);
        let end = children.filter_map(|child| child.end).max_by(f64::total_cmp);
        (self.nodes[parent].start, self.nodes[parent].end) = (start, end);
    }

    /// The one root, or a new one above several.
    fn join(&mut self, roots: &[usize]) -> Option<usize> {
        let (&first, &last) = (roots.first()?, roots.last()?);
        if first == last {
            return Some(first);
        }
        let above = self.add_node();
        for &root in roots {
            self.adopt(above, root);
        }
        (self.nodes[above].start, self.nodes[above].end) = (self.nodes[first].start, self.nodes[last].end);
        Some(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triplets::tests::span;

    fn between(id: &str, parent: Option<&str>, start: f64, end: f64) -> Span {
        Span { start_time: Some(start), end_time: Some(end), ..span(id, parent, "x", serde_json::json!({})) }
    }

    /// The ids in preorder, each with how deep it is.
    fn outline(tree: &SpanTree<'_>) -> Vec<String> {
        let name = |node: usize| tree.span(node).map_or("virtual", |span| &span.span_id);
        tree.preorder()
            .into_iter()
            .map(|node| format!("{}{}", "-".repeat(tree.lineage(node).count() - 1), name(node)))
            .collect()
    }

    #[test]
    fn parents_that_nobody_recorded_hold_their_children_together() {
        let spans = [
            between("c", Some("gone"), 2.0, 3.0),
            between("a", None, 0.0, 9.0),
            between("d", Some("gone"), 1.0, 2.5),
            between("b", Some("a"), 4.0, 5.0),
        ];
        let tree = SpanTree::new(&spans);
        assert_eq!(outline(&tree), ["virtual", "-a", "--b", "-virtual", "--c", "--d"]);
        assert_eq!((tree.start(4), tree.end(4)), (1.0, 3.0));
    }

    #[test]
    fn a_span_at_the_top_moves_under_the_span_around_it() {
        let spans = [
            between("session", None, 0.0, 20.0),
            between("outer", Some("session"), 1.0, 9.0),
            between("inner", Some("outer"), 2.0, 5.0),
            between("call", Some("session"), 3.0, 4.0),
            between("later", Some("session"), 10.0, 11.0),
        ];
        let mut tree = SpanTree::new(&spans);
        tree.repair();
        assert_eq!(outline(&tree), ["session", "-outer", "--inner", "---call", "-later"]);
    }

    #[test]
    fn nothing_moves_under_what_is_in_it() {
        let spans = [
            between("session", None, 0.0, 20.0),
            between("short", Some("session"), 1.0, 2.0),
            between("outlives it", Some("short"), 1.0, 3.0),
            between("later", Some("session"), 10.0, 11.0),
        ];
        let mut tree = SpanTree::new(&spans);
        tree.repair();
        assert_eq!(outline(&tree), ["session", "-short", "--outlives it", "-later"]);
    }

    #[test]
    fn spans_in_a_ring_are_not_reached() {
        let ring = [between("a", Some("b"), 0.0, 1.0), between("b", Some("a"), 0.0, 1.0)];
        assert!(SpanTree::new(&ring).preorder().is_empty());
        let itself = [between("a", Some("a"), 0.0, 1.0), between("b", None, 0.0, 1.0)];
        assert_eq!(outline(&SpanTree::new(&itself)), ["b"]);
        assert!(SpanTree::new(&[]).preorder().is_empty());
    }

    #[test]
    fn a_chain_of_any_length_is_walked() {
        let id = |index: usize| format!("{index:08}");
        let spans: Vec<Span> = (0..100_000)
            .map(|index: usize| between(&id(index), index.checked_sub(1).map(id).as_deref(), 0.0, 1.0))
            .collect();
        let mut tree = SpanTree::new(&spans);
        tree.repair();
        assert_eq!(tree.preorder().len(), spans.len());
    }
}
