use super::cookbook_message::CookbookMessage;
use super::draft::Draft;
use super::{dsml, glm, harmony, qwen, role_colon, sections};
use crate::parsing::Termination;
use crate::{RenderError, Tokenizer};

/// The token of GLM's that ends a text; the others that end a turn are roles.
const GLM_EOS: &str = "<|endoftext|>";

/// How the cookbook reads what a family says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    RoleColon,
    Text,
    Qwen(qwen::Variant),
    Glm,
    DeepSeek { prefilled: bool },
    Dsml { prefilled: bool },
    Kimi { prefilled: bool },
    Harmony,
}

impl Family {
    /// The family of a renderer by the cookbook's name for it.
    fn of(renderer: &str) -> Option<Self> {
        let name = renderer.split('#').next().unwrap_or_default();
        Some(match name {
            "role_colon" => Self::RoleColon,
            "llama3" => Self::Text,
            "qwen3" | "qwen3_disable_thinking" | "qwen3_vl" => Self::Qwen(qwen::Variant::Framed),
            "qwen3_instruct" | "qwen3_vl_instruct" => Self::Qwen(qwen::Variant::Unframed),
            "kimi_k2" => Self::Kimi { prefilled: false },
            "deepseekv3_thinking" => Self::DeepSeek { prefilled: true },
            _ if name.starts_with("qwen3_") || name.starts_with("nemotron3") => Self::Qwen(qwen::Variant::Xml),
            _ if name.starts_with("glm5_3") => Self::Glm,
            "deepseekv4_1_disable_thinking" => Self::Dsml { prefilled: false },
            _ if name.starts_with("deepseekv4_1") => Self::Dsml { prefilled: true },
            _ if name.starts_with("deepseekv3") => Self::DeepSeek { prefilled: false },
            _ if name.starts_with("kimi_k2") => Self::Kimi { prefilled: true },
            _ if name.starts_with("gpt_oss") => Self::Harmony,
            _ => return None,
        })
    }
}

/// Reads what was sampled as tinker-cookbook's renderer of that name does, faults included. Fails where it fails: a
/// token that ends a turn stands there twice; and where it has no renderer of that name.
pub fn parse_as_cookbook(
    renderer: &str,
    tokenizer: &Tokenizer,
    sampled: &[u32],
) -> Result<CookbookMessage, RenderError> {
    let family = Family::of(renderer).ok_or_else(|| RenderError::UnknownRenderer { name: renderer.to_owned() })?;
    if family == Family::RoleColon {
        return Ok(role_colon::parse(tokenizer, sampled));
    }
    let sampled = with_prefill(family, tokenizer, sampled)?;
    let Some(stop) = stop_position(tokenizer, family, &sampled)? else {
        let message = Draft::of_text(tokenizer.decode(&sampled)).into_message();
        return Ok(CookbookMessage { message, termination: Termination::Malformed });
    };
    let text = tokenizer.decode(&sampled[..stop]);
    let draft = match family {
        Family::RoleColon | Family::Text => Draft::of_text(text),
        Family::Qwen(variant) => qwen::parse(&text, variant),
        Family::Glm => glm::parse(&text),
        Family::DeepSeek { .. } => sections::parse_deepseek(&text),
        Family::Dsml { .. } => dsml::parse(&text),
        Family::Kimi { .. } => sections::parse_kimi(&text),
        Family::Harmony => harmony::parse(&text),
    };
    let is_eos = family == Family::Glm && tokenizer.token_to_id(GLM_EOS) == Some(sampled[stop]);
    let termination = if is_eos { Termination::Eos } else { Termination::StopSequence };
    Ok(CookbookMessage { message: draft.into_message(), termination })
}

/// The tokens with the `<think>` before them that the prompt is taken to have ended with: the cookbook does not look
/// at the prompt, it goes by a `</think>` that stands in what was sampled.
fn with_prefill(family: Family, tokenizer: &Tokenizer, sampled: &[u32]) -> Result<Vec<u32>, RenderError> {
    let prefill = match family {
        Family::Qwen(qwen::Variant::Xml) => "<think>\n",
        Family::DeepSeek { prefilled: true }
        | Family::Dsml { prefilled: true }
        | Family::Kimi { prefilled: true }
        | Family::Glm => "<think>",
        _ => return Ok(sampled.to_vec()),
    };
    let prefill = tokenizer.encode_with_specials(prefill)?;
    let closes = tokenizer.token_to_id("</think>").is_some_and(|close| sampled.contains(&close));
    let prefilled = closes && !sampled.starts_with(&prefill);
    Ok(if prefilled { [prefill, sampled.to_vec()].concat() } else { sampled.to_vec() })
}

/// Where the turn ends. Fails where a token that ends it stands twice.
fn stop_position(tokenizer: &Tokenizer, family: Family, sampled: &[u32]) -> Result<Option<usize>, RenderError> {
    let mut first = None;
    if family == Family::Glm {
        let stops = stop_tokens(tokenizer, family);
        let is_stop = |place: &usize| stops.iter().any(|(_, stop)| *stop == sampled[*place]);
        let places: Vec<usize> = (0..sampled.len()).filter(is_stop).collect();
        return match places[..] {
            [] => Ok(None),
            [place] => Ok(Some(place)),
            _ => Err(RenderError::StopTokensRepeated { count: places.len() }),
        };
    }
    for (name, token) in stop_tokens(tokenizer, family) {
        let places = sampled.iter().enumerate().filter(|(_, sampled)| **sampled == token);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        match (&*places, family) {
            ([], _) => {}
            ([place], _) => first = Some(first.map_or(*place, |first: usize| first.min(*place))),
            (_, Family::Harmony) => return Err(RenderError::StopTokenRepeated { token: name, count: places.len() }),
            _ => return Err(RenderError::StopTokensRepeated { count: places.len() }),
        }
    }
    Ok(first)
}

/// The tokens that end a turn; of Harmony's, the cookbook looks at `<|call|>` first.
fn stop_tokens(tokenizer: &Tokenizer, family: Family) -> Vec<(&'static str, u32)> {
    let names: &[&str] = match family {
        Family::RoleColon => &[],
        Family::Text => &["<|eot_id|>"],
        Family::Qwen(_) | Family::Kimi { .. } => &["<|im_end|>"],
        Family::DeepSeek { .. } | Family::Dsml { .. } => &["<｜end▁of▁sentence｜>"],
        Family::Harmony => &["<|call|>", "<|return|>"],
        Family::Glm => &["<|user|>", "<|observation|>", GLM_EOS],
    };
    let token = |name: &&'static str| Some((*name, tokenizer.token_to_id(name)?));
    names.iter().filter_map(token).collect()
}
