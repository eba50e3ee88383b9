use fulgurite_backends::{Chunk, Datum, LossInputs};

use crate::{AdapterError, Trajectory, Transition};

/// Turns a trajectory into datums: consecutive turns share one as long as each observation begins with everything so
/// far, element for element (tokens by id, images by identity); where it does not, a new datum begins.
///
/// In a datum of `n + 1` elements position `i` predicts element `i + 1`. A sampled token's target carries the
/// sampler's logprob, `advantage` and mask 1; every other target carries zeros, and so do sampled tokens of a masked
/// turn but for their logprob. A turn without observation and action adds nothing. Nothing predicts the first token of
/// a datum: if that was sampled (an empty prompt) it is not trained.
///
/// # Errors
/// [`AdapterError::LogprobCount`], [`AdapterError::TooShort`], [`AdapterError::EndsWithImage`], and
/// [`AdapterError::Datum`] for numbers that are not finite.
pub fn trajectory_to_data(trajectory: &Trajectory, advantage: f32) -> Result<Vec<Datum>, AdapterError> {
    let mut data = Vec::new();
    let mut sequence = Sequence::default();
    for (turn, transition) in trajectory.transitions.iter().enumerate() {
        let (sampled, logprobs) = (transition.action.tokens.len(), transition.action.logprobs.len());
        if sampled != logprobs {
            return Err(AdapterError::LogprobCount { turn, sampled, logprobs });
        }
        let observation = elements(&transition.observation);
        if !observation.starts_with(&sequence.elements) {
            data.push(std::mem::take(&mut sequence).into_datum()?);
        }
        sequence.observe(&observation[sequence.elements.len()..]);
        sequence.act(transition, advantage);
    }
    if !sequence.elements.is_empty() {
        data.push(sequence.into_datum()?);
    }
    Ok(data)
}

/// What a sequence is compared by: an image is one element, whatever positions it takes.
#[derive(Clone, Copy, PartialEq)]
enum Element<'a> {
    Token(u32),
    Image { digest: &'a str, expected_tokens: usize },
}

impl Element<'_> {
    fn positions(self) -> usize {
        match self {
            Element::Token(_) => 1,
            Element::Image { expected_tokens, .. } => expected_tokens,
        }
    }
}

fn elements(chunks: &[Chunk]) -> Vec<Element<'_>> {
    let mut elements = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Tokens(tokens) => elements.extend(tokens.iter().map(|token| Element::Token(*token))),
            Chunk::Image { digest, expected_tokens } => {
                elements.push(Element::Image { digest, expected_tokens: *expected_tokens });
            }
        }
    }
    elements
}

fn chunks(elements: &[Element<'_>]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for element in elements {
        match (*element, chunks.last_mut()) {
            (Element::Token(token), Some(Chunk::Tokens(tokens))) => tokens.push(token),
            (Element::Token(token), _) => chunks.push(Chunk::Tokens(vec![token])),
            (Element::Image { digest, expected_tokens }, _) => {
                chunks.push(Chunk::Image { digest: digest.into(), expected_tokens });
            }
        }
    }
    chunks
}

/// A datum as it grows: the three lists have one entry per position, the first of which is never a target.
#[derive(Default)]
struct Sequence<'a> {
    elements: Vec<Element<'a>>,
    logprobs: Vec<f32>,
    advantages: Vec<f32>,
    mask: Vec<f32>,
    trained_targets: usize,
}

impl<'a> Sequence<'a> {
    fn observe(&mut self, elements: &[Element<'a>]) {
        self.elements.extend_from_slice(elements);
        let length = self.mask.len() + elements.iter().map(|element| element.positions()).sum::<usize>();
        for list in [&mut self.logprobs, &mut self.advantages, &mut self.mask] {
            list.resize(length, 0.0);
        }
    }

    fn act(&mut self, transition: &Transition, advantage: f32) {
        let (mask, advantage) = if transition.masked { (0.0, 0.0) } else { (1.0, advantage) };
        let tokens = &transition.action.tokens;
        if !transition.masked {
            let without_context = usize::from(self.elements.is_empty());
            self.trained_targets += tokens.len().saturating_sub(without_context);
        }
        self.elements.extend(tokens.iter().map(|token| Element::Token(*token)));
        self.logprobs.extend_from_slice(&transition.action.logprobs);
        self.advantages.resize(self.logprobs.len(), advantage);
        self.mask.resize(self.logprobs.len(), mask);
    }

    fn into_datum(self) -> Result<Datum, AdapterError> {
        if self.mask.len() < 2 {
            return Err(AdapterError::TooShort { positions: self.mask.len() });
        }
        if let Some(Element::Image { digest, .. }) = self.elements.last() {
            return Err(AdapterError::EndsWithImage { digest: (*digest).into() });
        }
        let datum = Datum {
            model_input: chunks(&self.elements[..self.elements.len() - 1]),
            target_tokens: labels(&self.elements)[1..].to_vec(),
            loss_inputs: LossInputs::Policy {
                logprobs: self.logprobs[1..].to_vec(),
                advantages: self.advantages[1..].to_vec(),
                mask: self.mask[1..].to_vec(),
            },
        };
        let marked = self.mask[1..].iter().filter(|mask| **mask != 0.0).count();
        if marked != self.trained_targets {
            return Err(AdapterError::MaskCount { expected: self.trained_targets, actual: marked });
        }
        datum.validate()?;
        Ok(datum)
    }
}

fn labels(elements: &[Element<'_>]) -> Vec<u32> {
    let mut labels = Vec::new();
    for element in elements {
        match element {
            Element::Token(token) => labels.push(*token),
            Element::Image { expected_tokens, .. } => labels.resize(labels.len() + expected_tokens, 0),
        }
    }
    labels
}
