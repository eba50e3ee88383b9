use fulgurite_backends::{BackendError, PromptQuestions, PromptScores, SampleRequest, derive_seed};

use crate::server::host::HostedWeights;
use crate::wire::TensorData;
use crate::wire::protobuf::{PromptAltTokens, SampleResponse, Tensor, TopkLogprobs};

/// What to report of a prompt beside its answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PromptReportOptions {
    pub(crate) logprobs: bool,
    /// Only of so many of the last tokens.
    pub(crate) last: Option<usize>,
    pub(crate) alternatives: usize,
    pub(crate) named: Option<NamedTokens>,
    pub(crate) draws: usize,
}

/// Tokens whose logprobs are requested: a row for each place of the prompt after the first, where -1 names none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedTokens {
    shape: Vec<usize>,
    rows: Vec<Vec<i64>>,
}

impl PromptReportOptions {
    /// Writes what was requested of the prompt into the response.
    pub(crate) fn write(
        &self,
        weights: &dyn HostedWeights,
        request: &SampleRequest,
        response: &mut SampleResponse,
    ) -> Result<(), BackendError> {
        let prompt = request.prompt.as_slice();
        let rows = self.named.as_ref().map(NamedTokens::tokens).unwrap_or_default();
        let questions = PromptQuestions {
            alternatives: self.alternatives,
            named: &rows,
            draws: self.draws,
            temperature: request.sampling.temperature,
            seed: derive_seed(request.seed, &["prompt_alt_tokens"]),
        };
        let PromptScores { logprobs, likeliest, named, drawn } = weights.score_prompt(prompt, questions)?;
        let first_reported = prompt.len() - self.last.unwrap_or(prompt.len()).min(prompt.len());
        if self.logprobs {
            let reported = |place: usize| match place {
                0 => f32::NAN,
                place if place < first_reported => f32::NAN,
                place => logprobs[place - 1],
            };
            response.prompt_logprobs =
                Some((0..prompt.len()).flat_map(|place| reported(place).to_le_bytes()).collect());
        }
        if self.alternatives > 0 {
            let reported = |place: usize| match place {
                0 => Vec::new(),
                place if place < first_reported => Vec::new(),
                place => likeliest[place - 1].clone(),
            };
            let rows: Vec<_> = (0..prompt.len()).map(reported).collect();
            response.topk_prompt_logprobs = Some(TopkLogprobs::new(&rows, self.alternatives));
        }
        if let Some(tokens) = &self.named {
            response.target_prompt_logprobs = Some(tokens.tensor(&named));
        }
        if self.draws > 0 {
            response.prompt_alt_tokens = Some(self.alternative_tokens(&drawn));
        }
        Ok(())
    }
}

impl PromptReportOptions {
    /// What was drawn, a row for each place of the prompt after the first.
    fn alternative_tokens(&self, drawn: &[Vec<(u32, f32)>]) -> PromptAltTokens {
        let shape = vec![drawn.len() as i64, self.draws as i64];
        let logprobs: Vec<f32> = drawn.iter().flatten().map(|&(_, logprob)| logprob).collect();
        let tokens: Vec<i64> = drawn.iter().flatten().map(|&(token, _)| token.into()).collect();
        PromptAltTokens {
            tokens: Some(Tensor { shape: shape.clone(), ..Tensor::integers(tokens.into_iter()) }),
            logprobs: Some(Tensor { shape, ..Tensor::floats(&logprobs) }),
        }
    }
}

impl NamedTokens {
    pub(crate) fn read(tensor: &TensorData, prompt_tokens: usize, vocabulary_size: usize) -> Result<Self, String> {
        let array = tensor.decode().map_err(|error| error.to_string())?;
        let numbers = array.numbers.into_integers().map_err(|error| error.to_string())?;
        let &[places, columns] = array.shape.as_slice() else {
            return Err(format!("its shape is {:?}, but must be that of a matrix", array.shape));
        };
        if places + 1 != prompt_tokens || columns == 0 {
            return Err(format!("it has {places} rows of {columns} for a prompt of {prompt_tokens} tokens"));
        }
        let is_known = |&number: &i64| number == -1 || usize::try_from(number).is_ok_and(|id| id < vocabulary_size);
        if let Some(number) = numbers.iter().find(|number| !is_known(number)) {
            return Err(format!("there is no token {number}"));
        }
        let rows = numbers.chunks(columns).map(<[i64]>::to_vec).collect();
        Ok(Self { shape: array.shape, rows })
    }

    /// The tokens, token 0 where none is named.
    fn tokens(&self) -> Vec<Vec<u32>> {
        let row = |row: &Vec<i64>| row.iter().map(|&number| u32::try_from(number).unwrap_or_default()).collect();
        self.rows.iter().map(row).collect()
    }

    /// The logprobs in the shape that was requested, not a number where no token is named.
    fn tensor(&self, logprobs: &[Vec<f32>]) -> Tensor {
        let reported = |(&number, &logprob): (&i64, &f32)| if number == -1 { f32::NAN } else { logprob };
        let rows = self.rows.iter().zip(logprobs);
        let values: Vec<f32> = rows.flat_map(|(row, logprobs)| row.iter().zip(logprobs).map(reported)).collect();
        let list = Tensor::floats(&values);
        Tensor { shape: self.shape.iter().map(|&size| size as i64).collect(), ..list }
    }
}
