//! Sequences on their way through the model: rows without padding, of which those that several sequences begin with stand
//! there once.

use std::ops::Range;

/// Rows that follow one another in every sequence that has one of them, and those that come before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its own.
    pub(crate) rows: Range<usize>,
    /// Of the sequences' positions before it, in order; none of a segment that begins sequences.
    before: Vec<Range<usize>>,
}

impl Segment {
    /// The position of its first row.
    pub(crate) fn start(&self) -> usize {
        self.before.iter().map(Range::len).sum()
    }

    /// Positions from the beginning of its sequences to its last row.
    pub(crate) fn length(&self) -> usize {
        self.start() + self.rows.len()
    }

    /// Whether sequences begin with it.
    pub(crate) fn is_first(&self) -> bool {
        self.before.is_empty()
    }

    /// The row of each position up to its last.
    pub(crate) fn path(&self) -> impl Iterator<Item = usize> {
        self.before.iter().cloned().chain([self.rows.clone()]).flatten()
    }
}

/// Sequences in a tree of segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedRows {
    pub(crate) tokens: Vec<u32>,
    /// Position of each row's token within its sequences.
    pub(crate) positions: Vec<usize>,
    /// What comes before a segment stands in front of it.
    pub(crate) segments: Vec<Segment>,
}

impl PackedRows {
    /// Adds one sequence, which shares nothing.
    pub(crate) fn push(&mut self, tokens: impl Iterator<Item = u32>) {
        self.add(tokens, &[]);
    }

    /// Adds sequences; what some of them begin with becomes rows once. Gives the row of each sequence's each position.
    pub(crate) fn push_shared(&mut self, sequences: &[&[u32]]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|&index| sequences[index]);
        let mut paths = vec![Vec::new(); sequences.len()];
        self.branch(sequences, &order, &mut Vec::new(), &mut paths);
        paths
    }

    /// Adds the rest of some sequences in their order, all of which begin with the rows `before`.
    fn branch(
        &mut self,
        sequences: &[&[u32]],
        order: &[usize],
        before: &mut Vec<Range<usize>>,
        paths: &mut [Vec<usize>],
    ) {
        let (Some(first), Some(last)) = (order.first(), order.last()) else { return };
        let depth: usize = before.iter().map(Range::len).sum();
        // In order, what the first and the last have in common all of them have.
        let common = common_start(&sequences[*first][depth..], &sequences[*last][depth..]);
        if common > 0 {
            let rows = self.add(sequences[*first][depth..depth + common].iter().copied(), before);
            before.push(rows);
        }
        let depth = depth + common;
        let ended = order.iter().take_while(|&&index| sequences[index].len() == depth).count();
        for &index in &order[..ended] {
            paths[index] = before.iter().cloned().flatten().collect();
        }
        for later in order[ended..].chunk_by(|&one, &other| sequences[one][depth] == sequences[other][depth]) {
            self.branch(sequences, later, before, paths);
        }
        if common > 0 {
            before.pop();
        }
    }

    fn add(&mut self, tokens: impl Iterator<Item = u32>, before: &[Range<usize>]) -> Range<usize> {
        let start = self.tokens.len();
        self.tokens.extend(tokens);
        let rows = start..self.tokens.len();
        let segment = Segment { rows: rows.clone(), before: before.to_vec() };
        self.positions.extend(segment.start()..segment.length());
        self.segments.push(segment);
        rows
    }

    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.segments.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// How many tokens two sequences begin with in common.
pub(crate) fn common_start(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_sequences_begin_with_stands_there_once() {
        let sequences: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 2, 5], &[7], &[1, 2], &[1, 2, 3, 6]];
        let mut rows = PackedRows::default();
        let paths = rows.push_shared(&sequences);
        assert_eq!(rows.tokens, [1, 2, 3, 4, 6, 5, 7]);
        assert_eq!(rows.positions, [0, 1, 2, 3, 3, 2, 0]);
        assert_eq!(paths, [vec![0, 1, 2, 3], vec![0, 1, 5], vec![6], vec![0, 1], vec![0, 1, 2, 4]]);
        let last = &rows.segments[3];
        assert_eq!((last.start(), last.length(), last.path().collect::<Vec<_>>()), (3, 4, vec![0, 1, 2, 4]));
    }

    proptest! {
        #[test]
        fn every_sequence_is_read_along_its_rows(
            sequences in prop::collection::vec(prop::collection::vec(0_u32..3, 1..8), 0..12),
        ) {
            let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
            let mut rows = PackedRows::default();
            let paths = rows.push_shared(&sequences);
            for (sequence, path) in sequences.iter().zip(&paths) {
                let read: Vec<u32> = path.iter().map(|&row| rows.tokens[row]).collect();
                prop_assert_eq!(&read[..], *sequence);
                let positions: Vec<usize> = path.iter().map(|&row| rows.positions[row]).collect();
                prop_assert_eq!(positions, (0..sequence.len()).collect::<Vec<_>>());
            }
            let different: std::collections::BTreeSet<&[u32]> =
                sequences.iter().flat_map(|sequence| (1..=sequence.len()).map(|end| &sequence[..end])).collect();
            prop_assert_eq!(rows.len(), different.len());
            for segment in &rows.segments {
                prop_assert!(segment.path().take(segment.start()).all(|row| row < segment.rows.start));
            }
        }
    }
}
