use super::qwen::{nemotron3, qwen3, qwen3_5};
use crate::formats::format::Format;
use crate::formats::format_options::FormatOptions;
use crate::formats::gpt_oss::gpt_oss_format as gpt_oss;
use crate::formats::kimi::kimi_format as kimi;
use crate::formats::{deepseek, deepseek_v4, glm, llama3, role_colon};
use crate::renderer_names::UNWRITTEN;
use crate::{RenderError, Tokenizer};

/// The format of a name. A name may end in `#strip=False`, which keeps reasoning in the history, and say for which
/// tokenizer it is meant (`role_colon@llama3`), which is the caller's choice all the same.
pub(crate) fn open_format(
    name: &str,
    tokenizer: &Tokenizer,
    options: &FormatOptions,
) -> Result<Box<dyn Format>, RenderError> {
    let (family, strip_thinking) = match name.strip_suffix("#strip=False") {
        Some(family) => (family, false),
        None => (name, true),
    };
    let family = family.split_once('@').map_or(family, |(family, _)| family);
    let exact = options.cookbook_exact;
    let format: Option<Box<dyn Format>> = match family {
        // Models are known to need it (see `recommended_renderers`).
        name if UNWRITTEN.contains(&name) => return Err(RenderError::UnsupportedRenderer { name: name.to_owned() }),
        "role_colon" if strip_thinking => Some(Box::new(role_colon::RoleColon::new(tokenizer, exact))),
        "llama3" if strip_thinking => Some(Box::new(llama3::Llama3 { cookbook_exact: exact })),
        name if name.starts_with("qwen3_5") || name.starts_with("qwen3_8") => {
            qwen3_5::Qwen35::named(name, strip_thinking, exact).map(boxed)
        }
        name if name.starts_with("qwen3") => qwen3::Qwen3::named(name, strip_thinking, exact).map(boxed),
        name if name.starts_with("nemotron3") => nemotron3::Nemotron3::named(name, strip_thinking, exact).map(boxed),
        name if name.starts_with("deepseekv3") => deepseek::DeepSeek::named(name, strip_thinking, exact).map(boxed),
        name if name.starts_with("deepseekv4") => {
            deepseek_v4::DeepSeekV4::named(name, strip_thinking, exact).map(boxed)
        }
        // It has no variant that leaves reasoning out.
        name if name.starts_with("glm") && strip_thinking => glm::Glm::named(name, exact).map(boxed),
        name if name.starts_with("kimi") => kimi::Kimi::named(name, strip_thinking, exact).map(boxed),
        name if name.starts_with("gpt_oss") && strip_thinking => gpt_oss::GptOss::named(name, options).map(boxed),
        _ => None,
    };
    format.ok_or_else(|| RenderError::UnknownRenderer { name: name.to_owned() })
}

fn boxed(format: impl Format) -> Box<dyn Format> {
    Box::new(format)
}
