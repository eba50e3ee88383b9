/// The known name that is most like an unknown one, if any is much like it.
pub fn nearest_name<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(unknown, known), *known))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
