//! `[engine] device`, which had further values.

use serde::{Deserialize, Serialize};

/// Where an embedded model is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum EngineDevice {
    /// On the processors.
    #[default]
    Cpu,
}

impl TryFrom<String> for EngineDevice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "cpu" => Ok(Self::Cpu),
            _ => Err(format!(
                "embedded models are computed on the CPU alone, not on {text:?}; on a GPU, vLLM samples and \
                 `learner = \"torch\"` of [[models]] trains: see docs/how-to/gpus.md"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::declarations::Config;
    use crate::text::parse;

    #[test]
    fn a_gpu_is_refused_with_what_trains_there() {
        let config = parse::<Config>("[engine]\ndevice = \"cpu\"\n").unwrap();
        assert_eq!(serde_json::json!(config)["engine"]["device"], "cpu");
        insta::assert_snapshot!(parse::<Config>("[engine]\ndevice = \"cuda:1\"\n").unwrap_err(), @r#"
        line 2: engine.device: embedded models are computed on the CPU alone, not on "cuda:1"; on a GPU, vLLM samples and `learner = "torch"` of [[models]] trains: see docs/how-to/gpus.md
            2 | device = "cuda:1"
              |          ^^^^^^^^
        "#);
    }
}
