use std::borrow::Cow;

/// Looks for stop strings in text that comes in pieces. Text that may be the beginning of a stop string is held back
/// until it is clear, so that nothing of a stop string is ever given out.
///
/// The match that begins first wins; of those that begin together, the shortest.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
    matched: Option<usize>,
}

/// What came of a piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopScan {
    /// Text that may be given out.
    pub text: String,
    /// Index of the stop string that was found; all text after it is dropped.
    pub matched: Option<usize>,
}

impl StopStrings {
    /// A matcher at the beginning of a text. Empty stop strings never match.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        Self { stops: stops.into_iter().collect(), held: String::new(), matched: None }
    }

    /// Takes the next piece of text.
    pub fn feed<'t>(&mut self, delta: impl Into<Cow<'t, str>>) -> StopScan {
        let delta = delta.into();
        if self.matched.is_some() {
            return StopScan { text: String::new(), matched: self.matched };
        }
        if self.stops.is_empty() {
            return StopScan { text: delta.into_owned(), matched: None };
        }
        self.held.push_str(&delta);
        let mut given = 0;
        while given < self.held.len() {
            let rest = &self.held[given..];
            self.matched = self.shortest_at_start_of(rest);
            if self.matched.is_some() {
                self.held.truncate(given);
                return StopScan { text: std::mem::take(&mut self.held), matched: self.matched };
            }
            if self.stops.iter().any(|stop| stop.starts_with(rest)) {
                break;
            }
            given += rest.chars().next().map_or(1, char::len_utf8);
        }
        let held = self.held.split_off(given);
        StopScan { text: std::mem::replace(&mut self.held, held), matched: None }
    }

    fn shortest_at_start_of(&self, text: &str) -> Option<usize> {
        let whole =
            self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty() && text.starts_with(stop.as_str()));
        whole.min_by_key(|(_, stop)| stop.len()).map(|(index, _)| index)
    }

    /// Gives what was held back at the end of the text. Held back text that began no stop string after all may hold a
    /// shorter one; then that is found, and the text before it is given.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let starts = held.char_indices().map(|(start, _)| start);
        let found = starts.filter_map(|start| Some((start, self.shortest_at_start_of(&held[start..])?))).next();
        match found.filter(|_| self.matched.is_none()) {
            Some((start, stop)) => {
                self.matched = Some(stop);
                held[..start].to_owned()
            }
            None => held,
        }
    }

    /// The stop string that was found.
    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.stops[index].as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let mut matcher = StopStrings::new(stops.iter().map(|stop| (*stop).to_owned()));
        let mut text: String = pieces.iter().map(|piece| matcher.feed(*piece).text).collect();
        text.push_str(&matcher.finish());
        (text, matcher.matched().map(str::to_owned))
    }

    #[test]
    fn what_may_begin_a_stop_is_held_back() {
        let mut matcher = StopStrings::new(["\n\nUser:".to_owned()]);
        assert_eq!(matcher.feed("yes\n"), StopScan { text: "yes".into(), matched: None });
        assert_eq!(matcher.feed("\n"), StopScan { text: "".into(), matched: None });
        assert_eq!(matcher.feed("\nUs"), StopScan { text: "\n".into(), matched: None });
        assert_eq!(matcher.feed("er: no"), StopScan { text: "".into(), matched: Some(0) });
        assert_eq!(matcher.feed("more"), StopScan { text: "".into(), matched: Some(0) });
        assert_eq!(matcher.finish(), "");
    }

    #[test]
    fn the_first_to_begin_wins() {
        assert_eq!(run(&["b", "abc"], &["xab", "c"]), ("x".into(), Some("abc".into())));
        assert_eq!(run(&["b", "abc"], &["xab", "d"]), ("xa".into(), Some("b".into())));
        assert_eq!(run(&["", "é"], &["caf", "é!"]), ("caf".into(), Some("é".into())));
    }

    #[test]
    fn an_unfinished_stop_is_text() {
        assert_eq!(run(&["STOP"], &["a ST"]), ("a ST".into(), None));
        assert_eq!(run(&["b", "éba"], &["ééb"]), ("éé".into(), Some("b".into())));
    }

    proptest! {
        #[test]
        fn pieces_do_not_change_the_result(
            text in "[abé]{0,30}", stops in proptest::collection::vec("[abé]{1,4}", 0..4),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let characters: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(characters.len() + 1)).collect();
            cuts.extend([0, characters.len()]);
            cuts.sort_unstable();
            let pieces: Vec<String> = cuts.windows(2).map(|pair| characters[pair[0]..pair[1]].iter().collect()).collect();
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops, &[&text]), run(&stops, &pieces.iter().map(String::as_str).collect::<Vec<_>>()));
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let (given, matched) = run(&stops, &pieces);
            match stops.iter().filter_map(|stop| text.find(stop)).min() {
                None => prop_assert_eq!((given, matched), (text, None)),
                Some(first) => {
                    prop_assert_eq!(&given, &text[..first]);
                    prop_assert!(text[first..].starts_with(&matched.unwrap()));
                }
            }
        }
    }
}
