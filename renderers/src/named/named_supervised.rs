use fulgurite_types::Message;
use serde_json::Value;

use crate::formats::chunk::chunks_after;
use crate::formats::format::{Conversation, RenderedMessage};
use crate::named::prompt_writer::PromptWriter;
use crate::named::trained_messages::{trained_when_written, weight};
use crate::supervised::train_on_what::{examples_as_sampled, sampled_messages};
use crate::{RenderError, TrainOnWhat, WeightedTokens};

impl PromptWriter {
    /// Sequences that train what the model would sample: one where every prompt extends what came before it, else
    /// several. Whether it does is seen from the tokens of this very conversation.
    pub(crate) fn examples(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<Vec<WeightedTokens>, RenderError> {
        let trained = train_on.trained_messages(messages)?;
        match sampled_messages(messages, &trained) {
            Some(trained) if !train_on.trains_headers() => {
                examples_as_sampled(&trained, |index| self.sample(&messages[..=index], tools))
            }
            _ => Ok(vec![self.whole_example(messages, tools, train_on)?]),
        }
    }

    /// The prompt that the last message answers, and what the model would have sampled after it.
    fn sample(&self, messages: &[Message], tools: &[Value]) -> Result<(Vec<u32>, Vec<u32>), RenderError> {
        let message_index = messages.len() - 1;
        let before = self.written(&messages[..message_index], tools)?;
        let generation_prompt = self.format.generation_prompt(&Conversation::read(&before)?)?;
        let given: String = generation_prompt.iter().map(|chunk| chunk.text()).collect();

        let written = self.written(messages, tools)?;
        let conversation = Conversation::read_sampled(&written)?.with_tools(tools)?;
        if self.format.disables_thinking() && !conversation.at(written.len() - 1).reasoning().is_empty() {
            return Err(self.not_sampled_after_prompt(message_index));
        }
        let RenderedMessage { header, output, stop_overlap } = self.format.message(&conversation, written.len() - 1)?;
        let chunks = std::iter::once(header).chain(output).chain([stop_overlap]).collect();
        let chunks = chunks_after(chunks, &given).ok_or_else(|| self.not_sampled_after_prompt(message_index))?;

        let mut sampled = Vec::new();
        for chunk in chunks {
            sampled.extend(self.encode(&chunk)?);
        }
        Ok((self.prompt_tokens(&messages[..message_index], tools)?, sampled))
    }

    fn not_sampled_after_prompt(&self, message_index: usize) -> RenderError {
        match self.format.disables_thinking() {
            true => RenderError::ReasoningDisabled { renderer: self.name().to_owned(), message_index },
            false => RenderError::NotAppendOnly { message_index },
        }
    }

    /// The whole conversation, of which messages of others are trained too. Fails unless it holds every turn of the
    /// assistant as it would be sampled.
    fn whole_example(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<WeightedTokens, RenderError> {
        let trained = trained_when_written(train_on, messages, &self.written(messages, tools)?)?;
        let header_weight = weight(train_on.trains_headers());
        let history = match messages.split_last() {
            Some((last, before)) if last.is_assistant() => before,
            _ => messages,
        };
        let written = self.written(history, tools)?;
        let conversation = Conversation::read(&written)?.with_tools(tools)?;

        let mut example = WeightedTokens::default();
        example.extend(&self.encode(&self.format.beginning())?, 0.0);
        for (index, trained) in trained[..written.len()].iter().enumerate() {
            let rendered = self.format.message(&conversation, index)?;
            example.extend(&self.encode(&rendered.header)?, header_weight);
            for chunk in &rendered.output {
                example.extend(&self.encode(chunk)?, weight(*trained));
            }
        }
        for index in (0..messages.len()).filter(|index| messages[*index].is_assistant()) {
            let trained = weight(trained[index + trained.len() - messages.len()]);
            let (prompt, sampled) = self.sample(&messages[..=index], tools)?;
            if index == history.len() {
                let generation_prompt = &prompt[example.tokens.len()..];
                example.extend(generation_prompt, header_weight);
                example.extend(&sampled, trained);
            }
            let turn = prompt.len()..prompt.len() + sampled.len();
            if !example.tokens.starts_with(&prompt) || example.tokens.get(turn.clone()) != Some(&sampled[..]) {
                return Err(RenderError::TrainsMoreThanAssistant { renderer: self.name().to_owned() });
            }
            let before = self.written(&messages[..index], tools)?;
            let generation_prompt = self.generation_prompt(&Conversation::read(&before)?)?;
            example.weights[turn.start - generation_prompt.len()..turn.start].fill(header_weight);
            example.weights[turn].fill(trained);
        }
        Ok(example)
    }
}
