/// Every name under which a renderer is opened: `auto`, the model directory's own `template`, `chatml`, and the formats
/// that are written by hand, which have tinker-cookbook's names.
///
/// Where the cookbook can keep reasoning in the history, a name may end in `#strip=False`.
pub fn renderer_names() -> &'static [&'static str] {
    &[
        "auto",
        "template",
        "chatml",
        "role_colon",
        "llama3",
        "qwen3",
        "qwen3_disable_thinking",
        "qwen3_instruct",
        "qwen3_vl",
        "qwen3_vl_instruct",
        "qwen3_5",
        "qwen3_5_disable_thinking",
        "qwen3_5_preserve_thinking",
        "qwen3_8_xhigh_reasoning",
        "qwen3_8_medium_reasoning",
        "qwen3_8_low_reasoning",
        "qwen3_8_disable_thinking",
        "nemotron3",
        "nemotron3_disable_thinking",
        "nemotron3_low_thinking",
        "nemotron3_preserve_thinking",
        "nemotron3_ultra",
        "nemotron3_ultra_disable_thinking",
        "nemotron3_ultra_medium_thinking",
        "nemotron3_ultra_preserve_thinking",
        "deepseekv3",
        "deepseekv3_disable_thinking",
        "deepseekv3_thinking",
        "deepseekv4_1",
        "deepseekv4_1_low_reasoning",
        "deepseekv4_1_max_reasoning",
        "deepseekv4_1_disable_thinking",
        "deepseekv4_1_preserve_thinking",
        "glm5_3_max_reasoning",
        "glm5_3_high_reasoning",
        "glm5_3_low_reasoning",
        "kimi_k2",
        "kimi_k25",
        "kimi_k25_disable_thinking",
        "kimi_k26",
        "kimi_k26_disable_thinking",
        "kimi_k26_preserve_thinking",
        "gpt_oss_no_sysprompt",
        "gpt_oss_low_reasoning",
        "gpt_oss_medium_reasoning",
        "gpt_oss_high_reasoning",
    ]
}

/// Renderers of tinker-cookbook's that models are known to need and that are not written here.
pub(crate) const UNWRITTEN: &[&str] = &[
    "tml_v0",
    "kimi_k31_pro_max_reasoning",
    "kimi_k31_pro_high_reasoning",
    "kimi_k31_pro_low_reasoning",
    "kimi_k31_pro_disable_thinking",
    "kimi_k31_pro_no_reasoning_effort",
];

/// The renderers that suit a model of the hub, the usual one first; none for a model without a recommendation. What
/// follows a `:` in the name is a checkpoint's and does not matter.
///
/// This is tinker-cookbook's table. A name in it need not have a renderer here, as those of [`UNWRITTEN`] have none.
pub fn recommended_renderers(model_name: &str) -> &'static [&'static str] {
    let name = model_name.split(':').next().unwrap_or(model_name);
    match name {
        "Qwen/Qwen3-8B" | "Qwen/Qwen3-32B" | "Qwen/Qwen3-30B-A3B" => &["qwen3", "qwen3_disable_thinking"],
        "Qwen/Qwen3-4B-Instruct-2507" | "Qwen/Qwen3-30B-A3B-Instruct-2507" | "Qwen/Qwen3-235B-A22B-Instruct-2507" => {
            &["qwen3_instruct"]
        }
        "Qwen/Qwen3-VL-30B-A3B-Instruct" | "Qwen/Qwen3-VL-235B-A22B-Instruct" => &["qwen3_vl_instruct"],
        "Qwen/Qwen3.5-4B"
        | "Qwen/Qwen3.5-9B"
        | "Qwen/Qwen3.5-27B"
        | "Qwen/Qwen3.5-35B-A3B"
        | "Qwen/Qwen3.5-397B-A17B"
        | "Qwen/Qwen3.6-27B"
        | "Qwen/Qwen3.6-35B-A3B" => &["qwen3_5", "qwen3_5_disable_thinking", "qwen3_5_preserve_thinking"],
        "Qwen/Qwen3.8-27B" => &[
            "qwen3_8_xhigh_reasoning",
            "qwen3_8_disable_thinking",
            "qwen3_8_medium_reasoning",
            "qwen3_8_low_reasoning",
        ],
        "meta-llama/Llama-3.1-8B-Instruct" | "meta-llama/Llama-3.3-70B-Instruct" => &["llama3"],
        "deepseek-ai/DeepSeek-V4.1-Flash" | "deepseek-ai/DeepSeek-V4.1-Flash-1017" => &[
            "deepseekv4_1",
            "deepseekv4_1_low_reasoning",
            "deepseekv4_1_max_reasoning",
            "deepseekv4_1_disable_thinking",
            "deepseekv4_1_preserve_thinking",
        ],
        "deepseek-ai/DeepSeek-V3.1" => &["deepseekv3", "deepseekv3_thinking"],
        "openai/gpt-oss-20b" | "openai/gpt-oss-120b" => &["gpt_oss_no_sysprompt", "gpt_oss_medium_reasoning"],
        "moonshotai/Kimi-K2-Thinking" => &["kimi_k2"],
        "moonshotai/Kimi-K2.5" => &["kimi_k25", "kimi_k25_disable_thinking"],
        "moonshotai/Kimi-K2.6" => &["kimi_k26", "kimi_k26_disable_thinking", "kimi_k26_preserve_thinking"],
        "moonshotai/Kimi-K3.1-Pro" => &[
            "kimi_k31_pro_max_reasoning",
            "kimi_k31_pro_high_reasoning",
            "kimi_k31_pro_low_reasoning",
            "kimi_k31_pro_disable_thinking",
            "kimi_k31_pro_no_reasoning_effort",
        ],
        "zai-org/GLM-5.3" | "zai-org/GLM-5.3-Flash" => {
            &["glm5_3_max_reasoning", "glm5_3_low_reasoning", "glm5_3_high_reasoning"]
        }
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16" => {
            &["nemotron3", "nemotron3_disable_thinking", "nemotron3_preserve_thinking"]
        }
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16" => {
            &["nemotron3", "nemotron3_disable_thinking", "nemotron3_preserve_thinking", "nemotron3_low_thinking"]
        }
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16" | "nvidia/NVIDIA-Nemotron-3.5-Super-VL-120B-A12B-BF16" => &[
            "nemotron3_ultra",
            "nemotron3_ultra_disable_thinking",
            "nemotron3_ultra_medium_thinking",
            "nemotron3_ultra_preserve_thinking",
        ],
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16" => {
            &["nemotron3_ultra", "nemotron3_ultra_disable_thinking", "nemotron3_ultra_preserve_thinking"]
        }
        "Qwen/Qwen3-8B-Base"
        | "Qwen/Qwen3-30B-A3B-Base"
        | "Qwen/Qwen3.5-9B-Base"
        | "Qwen/Qwen3.5-35B-A3B-Base"
        | "deepseek-ai/DeepSeek-V3.1-Base"
        | "meta-llama/Llama-3.1-8B"
        | "meta-llama/Llama-3.1-70B"
        | "meta-llama/Llama-3.2-1B"
        | "meta-llama/Llama-3.2-3B" => &["role_colon"],
        name if name.starts_with("thinkingmachines/Inkling") => &["tml_v0"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::vector_dir;
    use crate::{RenderError, open_renderer};

    #[test]
    fn models_have_the_cookbooks_renderers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/recommended_renderers.json");
        let expected: BTreeMap<String, Vec<String>> =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(expected.len() > 30);
        for (model, renderers) in expected {
            assert_eq!(recommended_renderers(&model), renderers, "{model}");
            assert_eq!(recommended_renderers(&format!("{model}:peft:262144")), renderers, "{model}");
            let is_known =
                |name: &String| renderer_names().contains(&name.as_str()) || UNWRITTEN.contains(&name.as_str());
            assert!(renderers.iter().all(is_known), "{renderers:?}");
        }
        assert_eq!(recommended_renderers("thinkingmachines/Inkling-9"), ["tml_v0"]);
        assert!(recommended_renderers("Qwen/Qwen3-8B-Chat").is_empty());
    }

    /// The directory of a tokenizer that has the tokens of a renderer's family.
    fn tokenizer_of(name: &str) -> &'static str {
        let families = ["llama3", "deepseek", "glm", "kimi", "gpt_oss"];
        families.into_iter().find(|family| name.starts_with(family)).unwrap_or("qwen3")
    }

    #[test]
    fn every_name_opens_and_no_other() {
        for name in renderer_names().iter().filter(|name| **name != "template") {
            let opened = open_renderer(&vector_dir(tokenizer_of(name)), *name);
            assert_eq!(opened.unwrap().name(), if *name == "auto" { "chatml" } else { name });
        }
        for name in [
            "",
            "qwen9",
            "Qwen3",
            "qwen3#strip=True",
            "gpt_oss_no_sysprompt#strip=False",
            "glm5_3_max_reasoning#strip=False",
            "qwen3_5_preserve_thinking#strip=False",
            "deepseekv4_1_preserve_thinking#strip=False",
            "deepseekv4_1_high_reasoning",
        ] {
            let Err(error) = open_renderer(&vector_dir(tokenizer_of(name)), name) else { panic!("{name} opens") };
            assert!(error.to_string().starts_with(&format!("there is no renderer `{name}`; there are auto, ")));
            assert!(renderer_names().iter().all(|known| error.to_string().contains(known)));
        }
    }

    #[test]
    fn a_renderer_that_is_not_written_is_refused_by_name() {
        for name in UNWRITTEN {
            let Err(error) = open_renderer(&vector_dir("qwen3"), *name) else { panic!("{name} opens") };
            assert!(matches!(error, RenderError::UnsupportedRenderer { .. }), "{error}");
            assert!(!renderer_names().contains(name), "{name}");
        }
    }
}
