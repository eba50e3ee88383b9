use std::borrow::Cow;

use fulgurite_types::Message;

use crate::error::RenderError;
use crate::supervised::train_on_what::TrainOnWhat;

/// For each message that is written, whether it is trained. Messages that the format puts in count by their role, but
/// where every message is marked they are not trained.
pub(crate) fn trained_when_written(
    train_on: &TrainOnWhat,
    messages: &[Message],
    written: &[Cow<'_, Message>],
) -> Result<Vec<bool>, RenderError> {
    if !matches!(train_on, TrainOnWhat::Customized(_)) {
        return train_on.trained_messages(written);
    }
    let marks = train_on.trained_messages(messages)?;
    // What is put in or taken out stands at the beginning.
    let given = |index: usize| (index + messages.len()).checked_sub(written.len());
    Ok((0..written.len()).map(|index| given(index).is_some_and(|given| marks[given])).collect())
}

/// The weight of tokens that are trained or not.
pub(crate) fn weight(trained: bool) -> f32 {
    if trained { 1.0 } else { 0.0 }
}
