//! What a teacher sees and the policy does not: a system message before the conversation.

use std::sync::Arc;

use fulgurite_renderers::Renderer;
use fulgurite_types::{Message, TaskPlaceholder, fill_placeholders};
use serde_json::Value;

use crate::TrainError;

/// Two requests that no policy is asked; what is written around them is the model's format.
const PROBES: [&str; 2] = ["a", "Say 7."];

/// The beginning of a prompt, as the policy gets it and as its teacher does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TeacherPrompt {
    /// What every prompt without a system message begins with.
    of_policy: Vec<u32>,
    /// What stands there for the teacher.
    of_teacher: Vec<u32>,
    /// What every prompt with a system message begins with.
    of_system: Vec<u32>,
}

/// A sequence as a teacher reads it.
pub(crate) struct TeacherSequence {
    pub(crate) tokens: Vec<u32>,
    /// Tokens at the beginning that the policy's sequence has not, and those of its own that this one has not.
    added: usize,
    removed: usize,
}

impl TeacherSequence {
    /// One that is the policy's own.
    pub(crate) fn unchanged(tokens: Vec<u32>) -> Self {
        Self { tokens, added: 0, removed: 0 }
    }

    /// What was made of each token after the first, in the places of the policy's sequence; 0 where it has others.
    pub(crate) fn in_places_of_policy<T: Clone + Default>(&self, made: Vec<T>) -> Vec<T> {
        let count = (made.len() + self.removed).saturating_sub(self.added);
        let place = |place: usize| (place + self.added).checked_sub(self.removed).filter(|_| place + 1 >= self.removed);
        (0..count).map(|own| place(own).and_then(|at| made.get(at).cloned()).unwrap_or_default()).collect()
    }
}

impl TeacherPrompt {
    /// With this text in the system message.
    pub(crate) fn new(renderer: &Arc<dyn Renderer>, system: &str) -> Result<Self, TrainError> {
        let render = |system: Option<&str>, user: &str| {
            let system = system.map(|text| Message::text("system", text));
            let messages: Vec<Message> = system.into_iter().chain([Message::text("user", user)]).collect();
            Ok::<_, TrainError>(renderer.render_prompt(&messages, &[])?.tokens)
        };
        let beginnings = |user: &str| {
            let (policy, teacher) = (render(None, user)?, render(Some(system), user)?);
            let shared = policy.iter().rev().zip(teacher.iter().rev()).take_while(|(one, other)| one == other).count();
            Ok::<_, TrainError>((policy[..policy.len() - shared].to_vec(), teacher[..teacher.len() - shared].to_vec()))
        };
        let ((of_policy, of_teacher), again) = (beginnings(PROBES[0])?, beginnings(PROBES[1])?);
        if (&of_policy, &of_teacher) != (&again.0, &again.1) || of_teacher.is_empty() {
            let message = "cannot be put before a conversation in this model's format";
            return Err(wrong(message.to_owned()));
        }
        let (one, other) = (render(Some("a"), PROBES[0])?, render(Some("7"), PROBES[0])?);
        let of_system = one.iter().zip(&other).take_while(|(one, other)| one == other).map(|(one, _)| *one).collect();
        Ok(Self { of_policy, of_teacher, of_system })
    }

    /// A sequence of the policy as the teacher reads it.
    ///
    /// # Errors
    /// If its conversation has a system message of its own.
    pub(crate) fn sequence(&self, tokens: &[u32]) -> Result<TeacherSequence, TrainError> {
        let has_system = !self.of_policy.starts_with(&self.of_system) && tokens.starts_with(&self.of_system);
        match tokens.strip_prefix(self.of_policy.as_slice()).filter(|_| !has_system) {
            Some(rest) => Ok(TeacherSequence {
                tokens: [&self.of_teacher, rest].concat(),
                added: self.of_teacher.len(),
                removed: self.of_policy.len(),
            }),
            None => Err(wrong(
                "is put before conversations that have no system message, and the agent writes one".to_owned(),
            )),
        }
    }
}

/// A text with `{task}` and `{task.FIELD}` filled in.
pub(crate) fn filled(text: &str, task: &Value) -> Result<String, TrainError> {
    fill_placeholders(text, |opening| {
        let Some(placeholder) = TaskPlaceholder::at_start(opening) else { return Ok(None) };
        let unknown = |field| wrong(format!("asks for the field `{field}`, which the task {task} has not"));
        Ok(Some((placeholder.value(task).map_err(unknown)?, placeholder.after)))
    })
}

fn wrong(message: String) -> TrainError {
    TrainError::Option { key: "[trainer] distillation.teacher_system".to_owned(), message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn renderer(name: &str) -> Arc<dyn Renderer> {
        let directory = tempfile::tempdir().unwrap();
        let texts = ["be kind one two three four"; 2];
        let tokenizer = fulgurite_renderers::train_byte_level_tokenizer(texts, 280, &[]).unwrap();
        fulgurite_renderers::write_tokenizer_directory(directory.path(), &tokenizer).unwrap();
        fulgurite_renderers::open_renderer(directory.path(), name).unwrap()
    }

    #[test]
    fn a_teachers_sequence_is_the_policys_behind_a_system_message() {
        for name in ["qwen3_instruct", "chatml"] {
            let renderer = renderer(name);
            let render = |messages: &[Message]| renderer.render_prompt(messages, &[]).unwrap().tokens;
            let prompt = TeacherPrompt::new(&renderer, "be kind").unwrap();
            let (system, user) = (Message::text("system", "be kind"), Message::text("user", "one two"));
            let (own, expected) = (render(std::slice::from_ref(&user)), render(&[system.clone(), user.clone()]));
            let sequence = prompt.sequence(&own).unwrap();
            assert_eq!(sequence.tokens, expected, "{name}");
            // Of each token after the first, in the places of the policy's.
            let places: Vec<usize> = (1..expected.len()).collect();
            let placed = sequence.in_places_of_policy(places);
            assert_eq!(placed.len(), own.len() - 1);
            let last = *placed.last().unwrap();
            assert_eq!((expected[last], last), (*own.last().unwrap(), expected.len() - 1));
            let error = prompt.sequence(&render(&[system, user])).err().unwrap().to_string();
            assert!(error.contains("the agent writes one"), "{error}");
        }
    }

    #[test]
    fn a_task_fills_in_what_the_text_asks_for() {
        let task = json!({ "q": "2+2", "a": { "b": 4 } });
        assert_eq!(filled("{task.q} = {task.a.b}, {taskforce}", &task).unwrap(), "2+2 = 4, {taskforce}");
        assert_eq!(filled("say {task}", &json!(7)).unwrap(), "say 7");
        let error = filled("{task.c}", &task).unwrap_err().to_string();
        assert!(error.starts_with("[trainer] distillation.teacher_system asks for the field `c`"), "{error}");
    }
}
