use fulgurite_types::SamplingParameters;
use serde_json::{Map, Value, json};

use super::fields::{Fields, must};
use super::schema::json_schema;
use crate::dialects::field_checks::{refuse, sampling, stop_strings, token_limit, within};
use crate::dialects::openai::sampling_fields::MAXIMUM_TOP_LOGPROBS;
use crate::error::ProxyError;
use crate::requests::model_request::AnswerOptions;
use crate::requests::structured_output::{JsonForm, StructuredOutput};

const SCHEMA: &str = "generationConfig.responseSchema";
const JSON_SCHEMA: &str = "generationConfig.responseJsonSchema";
const MIME_TYPE: &str = "generationConfig.responseMimeType";

/// What changes an answer and cannot be honoured, with what to do instead.
const BINDING: [(&str, &str); 4] = [
    ("speechConfig", "the models here answer in text"),
    ("imageConfig", "the models here answer in text"),
    ("enableAffectiveDialog", "the models here answer in text"),
    ("routingConfig", "the model in the path answers"),
];

/// What says nothing about the answer of a model that reads and writes text.
const NEUTRAL: [&str; 3] = ["mediaResolution", "audioTimestamp", "enableEnhancedCivicAnswers"];

/// How a request's answer is sampled and written.
#[derive(Debug)]
pub(super) struct GenerationConfig {
    pub(super) options: AnswerOptions,
    pub(super) seed: Option<i64>,
    /// Whether the client is to see what the model thinks.
    pub(super) shows_thoughts: bool,
    /// The hints about thinking, which the model's template may follow.
    pub(super) thinking: Map<String, Value>,
}

/// Reads and checks a request's `generationConfig`, but for calls that it must make.
pub(super) fn read(config: Option<Fields>, unknown: &mut Vec<String>) -> Result<GenerationConfig, ProxyError> {
    let mut config = match config {
        Some(config) => config,
        None => Fields::at("generationConfig".to_owned(), json!({}))?,
    };
    refuse_unsupported(&mut config)?;
    let form = StructuredOutput { json: json_form(&mut config)?, ..StructuredOutput::default() };
    let (logprobs, top_logprobs) = logprobs(&mut config)?;
    let penalty = |config: &mut Fields, name: &str| {
        let penalty = config.number(name)?.map(|penalty| penalty as f32);
        Ok::<_, ProxyError>(within(&config.place_of(name), penalty, -2.0..=2.0)?.unwrap_or_default())
    };
    let (presence_penalty, frequency_penalty) =
        (penalty(&mut config, "presencePenalty")?, penalty(&mut config, "frequencyPenalty")?);
    let max_tokens = config.integer("maxOutputTokens")?.map(|limit| {
        u32::try_from(limit).map_err(|_| must(&config.place_of("maxOutputTokens"), "must be a number of tokens"))
    });
    let options = AnswerOptions {
        sets_temperature: config.has("temperature"),
        sampling: SamplingParameters { presence_penalty, frequency_penalty, ..distribution(&mut config)? },
        form,
        max_tokens: token_limit(&config.place_of("maxOutputTokens"), max_tokens.transpose()?)?,
        stop_strings: stop_strings(&config.place_of("stopSequences"), config.strings("stopSequences")?)?,
        logprobs,
        top_logprobs,
        choices: 1,
    };
    let seed = config.integer("seed")?;
    let (shows_thoughts, thinking) = thinking(&mut config, unknown)?;
    for neutral in NEUTRAL {
        config.take(neutral);
    }
    config.tell_left(unknown);
    Ok(GenerationConfig { options, seed, shows_thoughts, thinking })
}

fn refuse_unsupported(config: &mut Fields) -> Result<(), ProxyError> {
    if config.integer("candidateCount")?.is_some_and(|count| count != 1) {
        let why = "other than 1 is not supported; send the request again for another sample";
        refuse(&config.place_of("candidateCount"), why)?;
    }
    let modalities = config.strings("responseModalities")?;
    if modalities.iter().any(|modality| !["TEXT", "MODALITY_UNSPECIFIED"].contains(&modality.as_str())) {
        refuse(&config.place_of("responseModalities"), "may hold TEXT alone: the models here answer in text")?;
    }
    for (name, instead) in BINDING {
        if config.take(name).is_some_and(|value| value != false && value != json!({})) {
            refuse(&config.place_of(name), &format!("is not supported; {instead}"))?;
        }
    }
    Ok(())
}

/// Temperature, `topP` and `topK`, checked under their own names.
fn distribution(config: &mut Fields) -> Result<SamplingParameters, ProxyError> {
    let mut between = |name: &str, greatest: f32| {
        let number = config.number(name)?.map(|number| number as f32);
        within(&config.place_of(name), number, 0.0..=greatest)
    };
    let (temperature, top_p) = (between("temperature", 2.0)?, between("topP", 1.0)?);
    if top_p == Some(0.0) {
        refuse(&config.place_of("topP"), "must be above 0")?;
    }
    let top_k = config.integer("topK")?;
    if top_k.is_some_and(|top_k| top_k < -1) {
        refuse(&config.place_of("topK"), "must be positive, or 0 for all")?;
    }
    sampling(temperature, top_p, top_k)
}

/// Whether logprobs are to be told, and those of how many other tokens.
fn logprobs(config: &mut Fields) -> Result<(bool, usize), ProxyError> {
    let shows_logprobs = config.boolean("responseLogprobs")?.unwrap_or(false);
    let top = config.integer("logprobs")?.unwrap_or(0);
    let place = config.place_of("logprobs");
    let top = usize::try_from(top).ok().filter(|top| *top <= MAXIMUM_TOP_LOGPROBS);
    let top = top.ok_or_else(|| must(&place, &format!("must be from 0 to {MAXIMUM_TOP_LOGPROBS}")))?;
    if top > 0 && !shows_logprobs {
        refuse(&place, "needs responseLogprobs: true")?;
    }
    Ok((shows_logprobs, top))
}

/// The form that the answer's text is to have.
fn json_form(config: &mut Fields) -> Result<Option<JsonForm>, ProxyError> {
    let googles = config.take("responseSchema").map(|schema| json_schema(schema, SCHEMA)).transpose()?;
    let mime_type = config.string("responseMimeType")?.unwrap_or_default();
    let form = match (googles, config.take("responseJsonSchema")) {
        (Some(_), Some(_)) => {
            return Err(must(JSON_SCHEMA, "cannot stand beside responseSchema: leave one of them out"));
        }
        (Some(schema), None) => Some(JsonForm { field: SCHEMA, schema }),
        (None, Some(schema @ (Value::Object(_) | Value::Bool(_)))) => Some(JsonForm { field: JSON_SCHEMA, schema }),
        (None, Some(_)) => return Err(must(JSON_SCHEMA, "must be a JSON schema")),
        (None, None) => None,
    };
    match (mime_type.as_str(), form) {
        ("application/json", Some(form)) => Ok(Some(form)),
        ("application/json", None) => {
            Ok(Some(JsonForm { field: MIME_TYPE, schema: json!({ "type": ["object", "array"] }) }))
        }
        ("" | "text/plain", None) => Ok(None),
        ("" | "text/plain", Some(form)) => Err(must(form.field, "needs responseMimeType: application/json")),
        (other, _) => {
            Err(must(MIME_TYPE, &format!("is `{other}`, but only text/plain and application/json are supported")))
        }
    }
}

/// Whether thoughts are shown, and the hints, which are recorded.
fn thinking(config: &mut Fields, unknown: &mut Vec<String>) -> Result<(bool, Map<String, Value>), ProxyError> {
    let Some(mut thinking) = config.object("thinkingConfig")? else { return Ok((false, Map::new())) };
    let mut hints = Map::new();
    if let Some(budget) = thinking.integer("thinkingBudget")? {
        hints.insert("thinkingBudget".to_owned(), budget.into());
    }
    if let Some(level) = thinking.string("thinkingLevel")? {
        hints.insert("thinkingLevel".to_owned(), level.into());
    }
    let shows_thoughts = thinking.boolean("includeThoughts")?.unwrap_or(false);
    thinking.tell_left(unknown);
    Ok((shows_thoughts, hints))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn config(config: Value) -> Result<(GenerationConfig, Vec<String>), String> {
        let mut unknown = Vec::new();
        let fields = Fields::at("generationConfig".to_owned(), config).unwrap();
        read(Some(fields), &mut unknown).map(|read| (read, unknown)).map_err(refused_field)
    }

    #[test]
    fn every_field_reaches_the_sampler() {
        let (read, unknown) = config(json!({
            "temperature": 0.5, "top_p": 0.25, "topK": 40.0, "maxOutputTokens": 7, "stopSequences": ["STOP"], "seed": 3,
            "candidateCount": 1, "presencePenalty": 0.5, "frequency_penalty": -0.5, "responseLogprobs": true, "logprobs": 2,
            "responseModalities": ["TEXT"], "mediaResolution": "MEDIA_RESOLUTION_LOW", "speech_config": {}, "style": "bold",
            "thinkingConfig": { "thinkingBudget": 0, "thinking_level": "LOW", "includeThoughts": true },
        }))
        .unwrap();
        let GenerationConfig { options, seed, shows_thoughts, thinking } = read;
        let sampling = SamplingParameters {
            temperature: 0.5,
            top_p: 0.25,
            top_k: Some(40),
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            ..SamplingParameters::default()
        };
        assert_eq!(
            (options.sampling, options.max_tokens, options.stop_strings),
            (sampling, Some(7), vec!["STOP".to_owned()])
        );
        assert_eq!((options.logprobs, options.top_logprobs, options.choices, seed), (true, 2, 1, Some(3)));
        assert!(shows_thoughts);
        assert_eq!(json!(thinking), json!({ "thinkingBudget": 0, "thinkingLevel": "LOW" }));
        assert_eq!(unknown, ["generationConfig.style"]);
    }

    #[test]
    fn an_answer_in_json_has_its_schema() {
        let form = |value: Value| config(value).map(|(read, _)| read.options.form.json);
        let json_type = |mut value: Value| {
            value["responseMimeType"] = json!("application/json");
            value
        };
        let string = json!({ "type": "string" });
        assert_eq!(form(json!({})), Ok(None));
        assert_eq!(form(json!({ "responseMimeType": "text/plain" })), Ok(None));
        let any = JsonForm { field: MIME_TYPE, schema: json!({ "type": ["object", "array"] }) };
        assert_eq!(form(json_type(json!({}))), Ok(Some(any)));
        let googles = json_type(json!({ "responseSchema": { "type": "STRING" } }));
        assert_eq!(form(googles), Ok(Some(JsonForm { field: SCHEMA, schema: string.clone() })));
        let expected = Ok(Some(JsonForm { field: JSON_SCHEMA, schema: string.clone() }));
        assert_eq!(form(json_type(json!({ "responseJsonSchema": string }))), expected);
        assert_eq!(form(json_type(json!({ "_responseJsonSchema": string }))), expected);
    }

    #[test]
    fn every_fault_names_its_field() {
        for (name, value) in [
            ("temperature", json!(3)),
            ("temperature", json!("warm")),
            ("topP", json!(0)),
            ("topP", json!(1.5)),
            ("topK", json!(-2)),
            ("topK", json!(1.5)),
            ("maxOutputTokens", json!(0)),
            ("maxOutputTokens", json!(-1)),
            ("stopSequences", json!([""])),
            ("stopSequences", json!([1])),
            ("seed", json!("x")),
            ("candidateCount", json!(2)),
            ("presencePenalty", json!(3)),
            ("frequencyPenalty", json!([])),
            ("logprobs", json!(2)),
            ("logprobs", json!(21)),
            ("responseLogprobs", json!(1)),
            ("responseMimeType", json!("text/x.enum")),
            ("responseSchema", json!({ "type": "STRING" })),
            ("responseJsonSchema", json!("s")),
            ("responseModalities", json!(["AUDIO"])),
            ("speechConfig", json!({ "voiceConfig": {} })),
            ("thinkingConfig", json!(1)),
        ] {
            assert_eq!(config(json!({ name: value })).map(drop), Err(format!("generationConfig.{name}")), "{value}");
        }
    }
}
