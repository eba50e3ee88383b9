//! `[[models]]` of the config, and the flag `--model` that says the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use fulgurite_backends::{Changeover, KeyHeader, TorchAdapter, TorchHead, TorchModel, UpstreamDialect};
use fulgurite_engine::{LoraModule, LoraOptions};
use fulgurite_hub::fetched_by;
use fulgurite_renderers::{RendererChoice, ToolWriting};
use serde::{Deserialize, Serialize, Serializer};

use crate::redaction::public_part;

/// `[[models]]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// What agents send in `model`.
    pub name: String,
    /// Who samples.
    pub backend: Backend,
    /// HF-format directory or GGUF file: the tokenizer and the template, for `embedded` the weights too; `{seed}` is filled
    /// in by `train`. None for `openai` and `anthropic`.
    #[serde(default)]
    pub path: PathBuf,
    /// What an upstream calls the model; the same as here by default.
    #[serde(default)]
    pub upstream_model: Option<String>,
    /// `auto`, `template` or a family's name.
    #[serde(default = "auto")]
    pub renderer: String,
    /// How the model is told of tools: `template`, as its template has it, or `preamble`, in words of the system message, for
    /// templates that show none.
    #[serde(default)]
    pub tools: ToolWriting,
    /// Where a remote model is: one URL for each of its hosts, written out without user, password and query.
    #[serde(default, serialize_with = "public_parts")]
    pub urls: Vec<String>,
    /// The environment variable that holds the key of a remote model's hosts.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// What carries the key to an `anthropic` upstream: `x-api-key`, the default, or `authorization`, as a bearer's token.
    #[serde(default)]
    pub key_header: Option<KeyHeader>,
    /// Requests that run at one host of a remote model at a time; the others wait.
    #[serde(default = "max_concurrency")]
    pub max_concurrency: usize,
    /// What becomes of a remote host's answers under way when its whole model is replaced: `drain` or `in-flight`.
    #[serde(default)]
    pub changeover: Changeover,
    /// The model at a `tinker` service; `name` unless told otherwise.
    #[serde(default)]
    pub base_model: Option<String>,
    /// Rank of the adapter that is trained beside the model; 0 trains the model itself. At a `tinker` service it is 32
    /// unless told otherwise, and 0 elsewhere.
    #[serde(default)]
    pub lora_rank: Option<u32>,
    /// What the adapter's product is scaled with, times its rank.
    #[serde(default)]
    pub lora_alpha: Option<f64>,
    /// The matrices that the adapter stands beside; all of the layers, and the head, unless told otherwise.
    #[serde(default)]
    pub lora_modules: Option<BTreeSet<LoraModule>>,
    /// Who trains it: `embedded`, this process; `torch`, PyTorch in a process of its own, as `[torch]` says; or `prime-rl`, the
    /// trainer of prime-rl, as `[prime_rl]` says.
    #[serde(default)]
    pub learner: LearnerKind,
    /// Whether `train` trains it. One that it does not is served beside the one that it does, for agents that call several.
    #[serde(default = "yes")]
    pub trained: bool,
}

fn yes() -> bool {
    true
}

/// A host's URL that holds a key is refused, but not by whoever shows the config.
fn public_parts<S: Serializer>(urls: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(urls.iter().map(|url| public_part(url)))
}

/// The renderer of a model that names none.
pub fn auto() -> String {
    "auto".to_owned()
}

fn max_concurrency() -> usize {
    fulgurite_backends::ReplicaOptions::default().max_concurrency
}

/// Who trains a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LearnerKind {
    /// This process; at a `tinker` service the service.
    #[default]
    Embedded,
    /// PyTorch, in a child process.
    Torch,
    /// prime-rl's trainer, by files.
    PrimeRl,
}

/// Who samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// This process.
    Embedded,
    /// vLLM servers.
    Vllm,
    /// SGLang servers.
    Sglang,
    /// Servers of llama.cpp.
    LlamaCpp,
    /// A service that speaks the Tinker API, which trains too.
    Tinker,
    /// Whoever speaks OpenAI's dialect: calls are passed on, and not trained.
    #[serde(rename = "openai")]
    OpenAi,
    /// The same in Anthropic's.
    Anthropic,
}

impl Backend {
    /// As the config names it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Embedded => "embedded",
            Backend::Vllm => "vllm",
            Backend::Sglang => "sglang",
            Backend::LlamaCpp => "llama-cpp",
            Backend::Tinker => "tinker",
            Backend::OpenAi => UpstreamDialect::OpenAi.name(),
            Backend::Anthropic => UpstreamDialect::Anthropic.name(),
        }
    }

    /// The dialect in which calls are passed on, if they are.
    pub fn upstream_dialect(self) -> Option<UpstreamDialect> {
        match self {
            Backend::OpenAi => Some(UpstreamDialect::OpenAi),
            Backend::Anthropic => Some(UpstreamDialect::Anthropic),
            Backend::Embedded | Backend::Vllm | Backend::Sglang | Backend::LlamaCpp | Backend::Tinker => None,
        }
    }

    fn named(name: &str) -> Option<Self> {
        use Backend::{Anthropic, Embedded, LlamaCpp, OpenAi, Sglang, Tinker, Vllm};
        [Embedded, Vllm, Sglang, LlamaCpp, Tinker, OpenAi, Anthropic].into_iter().find(|it| it.name() == name)
    }
}

impl ModelEntry {
    /// The adapter that this process is to train beside the model, if it is to train one; its numbers begin by `seed`.
    pub fn lora(&self, seed: u64) -> Option<LoraOptions> {
        let rank = self.lora_rank.filter(|&rank| rank > 0)? as usize;
        let mut lora = LoraOptions::new(rank, seed);
        lora.alpha = self.lora_alpha.unwrap_or(lora.alpha);
        lora.modules = self.lora_modules.clone().unwrap_or(lora.modules);
        Some(lora)
    }

    /// The same for a learner in PyTorch, with the model in `path`.
    pub fn torch_model(&self, path: &Path, seed: u64) -> TorchModel {
        let adapter = self.lora(seed).map(|lora| TorchAdapter {
            rank: lora.rank,
            alpha: lora.alpha,
            // Not all models have all of the usual ones.
            modules: self.lora_modules.as_ref().map(|names| names.iter().map(|name| name.name().to_owned()).collect()),
        });
        TorchModel { path: path.to_owned(), adapter, head: TorchHead::AsWritten, seed }
    }

    /// Which renderer it is opened with.
    pub fn renderer(&self) -> RendererChoice<'_> {
        RendererChoice { name: &self.renderer, tools: self.tools }
    }

    /// Refuses what does not go together.
    pub fn check(&self) -> Result<()> {
        let backend = self.backend.name();
        if self.backend != Backend::Tinker && self.base_model.is_some() {
            bail!("backend = \"{backend}\" knows no base_model: leave it out");
        }
        let has_form = self.lora_alpha.is_some() || self.lora_modules.is_some();
        if self.backend == Backend::Tinker && has_form {
            bail!("backend = \"tinker\" leaves lora_alpha and lora_modules to the service: leave them out");
        }
        let takes_adapters =
            matches!(self.backend, Backend::Embedded | Backend::Vllm | Backend::Sglang | Backend::Tinker);
        if !takes_adapters && (has_form || self.lora_rank.is_some()) {
            bail!("backend = \"{backend}\" takes no adapters: leave out lora_rank, lora_alpha and lora_modules");
        }
        if has_form && self.lora_rank.unwrap_or(0) == 0 {
            bail!("lora_alpha and lora_modules are of an adapter, which needs lora_rank = 16 or so");
        }
        let is_published_to = matches!(self.backend, Backend::Embedded | Backend::Vllm | Backend::Sglang);
        if self.learner == LearnerKind::Torch && !is_published_to {
            bail!(
                "learner = \"torch\" goes with backend = \"embedded\", \"vllm\" or \"sglang\", not with \"{backend}\""
            );
        }
        if self.learner == LearnerKind::PrimeRl && self.backend != Backend::Vllm {
            bail!("learner = \"prime-rl\" goes with backend = \"vllm\", not with \"{backend}\"");
        }
        if self.learner == LearnerKind::PrimeRl && has_form {
            bail!("learner = \"prime-rl\" leaves lora_alpha and lora_modules to the trainer's config: leave them out");
        }
        let is_upstream = self.backend.upstream_dialect().is_some();
        let has_path = !self.path.as_os_str().is_empty();
        let reads_calls = has_path || self.renderer != auto() || self.tools != ToolWriting::default();
        if is_upstream && (reads_calls || self.changeover != Changeover::default()) {
            bail!(
                "backend = \"{backend}\" passes calls on as they come: leave out path, renderer, tools and changeover"
            );
        }
        if !is_upstream && !has_path {
            bail!("backend = \"{backend}\" needs path, the model's directory: path = \"models/{}\"", self.name);
        }
        if !is_upstream && self.upstream_model.is_some() {
            bail!("upstream_model is for the backends openai and anthropic");
        }
        if self.backend != Backend::Anthropic && self.key_header.is_some() {
            bail!("key_header is for the backend anthropic");
        }
        if self.backend == Backend::Embedded {
            if !self.urls.is_empty() || self.api_key_env.is_some() {
                bail!("backend = \"embedded\" samples in this process: leave out urls and api_key_env");
            }
            return Ok(());
        }
        if self.urls.is_empty() {
            bail!("backend = \"{backend}\" needs urls, one for each host: urls = [\"http://127.0.0.1:8000\"]");
        }
        if let Some(twice) =
            self.urls.iter().enumerate().find_map(|(i, url)| self.urls[..i].contains(url).then_some(url))
        {
            bail!("urls names {twice} twice");
        }
        if self.backend == Backend::Tinker && self.urls.len() != 1 {
            bail!("backend = \"tinker\" is one service, and urls names {}", self.urls.len());
        }
        if self.max_concurrency == 0 {
            bail!("max_concurrency is 0, but must be at least 1");
        }
        Ok(())
    }
}

/// What somebody means who names a place and no backend, and how it is written.
fn probably(name: &str, place: &str) -> String {
    let path = place.split(',').next().unwrap_or_default();
    if path.starts_with("http://") || path.starts_with("https://") {
        return format!(
            "a URL needs its backend before it: {name}=vllm:{path},path=DIRECTORY or {name}=openai:{path}; "
        );
    }
    let fetched = fetched_by(path);
    match Path::new(path).exists() {
        true => format!("a model of this machine is written {name}=embedded:{path}; "),
        false if fetched.is_empty() => String::new(),
        false => format!("there is no directory {path}{fetched}, then {name}=embedded:DIRECTORY; "),
    }
}

/// Reads a `--model NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME]`,
/// `--model NAME=BACKEND:URL,path=DIRECTORY[,renderer=NAME][,api_key_env=VARIABLE]`, where a `tinker` service may also have
/// `base_model=NAME`, or `--model NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE]`, where an
/// `anthropic` one may also have `key_header=HEADER`.
pub fn parse_model(spec: &str) -> Result<ModelEntry> {
    let expected = "expected NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME], \
                    NAME=vllm|sglang|llama-cpp|tinker:URL,path=DIRECTORY[,renderer=NAME][,api_key_env=VARIABLE] or \
                    NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE]";
    let refuse = |what: &str| anyhow!("--model {spec}: {what}{expected}");
    let (name, rest) = spec.split_once('=').ok_or_else(|| refuse(&probably("NAME", spec)))?;
    let (backend, rest) = rest.split_once(':').ok_or_else(|| refuse(&probably(name, rest)))?;
    let unknown = || match probably(name, spec.split_once('=').map_or(spec, |(_, place)| place)) {
        hint if hint.is_empty() => refuse(&format!("there is no backend `{backend}`; ")),
        hint => refuse(&hint),
    };
    let backend = Backend::named(backend).ok_or_else(unknown)?;
    let mut parts = rest.split(',');
    let place = parts.next().unwrap_or_default();
    let mut entry = ModelEntry {
        name: name.to_owned(),
        backend,
        path: PathBuf::new(),
        upstream_model: None,
        renderer: auto(),
        tools: ToolWriting::default(),
        urls: Vec::new(),
        api_key_env: None,
        key_header: None,
        max_concurrency: max_concurrency(),
        changeover: Changeover::default(),
        base_model: None,
        lora_rank: None,
        learner: LearnerKind::default(),
        lora_alpha: None,
        lora_modules: None,
        trained: true,
    };
    match backend {
        Backend::Embedded => entry.path = place.into(),
        _ => entry.urls.push(place.to_owned()),
    }
    let is_upstream = backend.upstream_dialect().is_some();
    for part in parts {
        match part.split_once('=') {
            Some(("upstream_model", value)) if is_upstream => entry.upstream_model = Some(value.to_owned()),
            Some(("renderer", value)) if !is_upstream => entry.renderer = value.to_owned(),
            Some(("tools", value)) if !is_upstream => {
                let known = ToolWriting::named(value);
                entry.tools = known.ok_or_else(|| refuse("tools is template or preamble; "))?;
            }
            Some(("path", value)) if backend != Backend::Embedded && !is_upstream => entry.path = value.into(),
            Some(("api_key_env", value)) if backend != Backend::Embedded => entry.api_key_env = Some(value.to_owned()),
            Some(("key_header", value)) if backend == Backend::Anthropic => {
                let header = KeyHeader::named(value);
                entry.key_header = Some(header.ok_or_else(|| refuse("key_header is authorization or x-api-key; "))?);
            }
            Some(("base_model", value)) if backend == Backend::Tinker => entry.base_model = Some(value.to_owned()),
            _ => return Err(refuse(&format!("`{part}` is not an option; "))),
        }
    }
    if name.is_empty() || place.is_empty() || (entry.path.as_os_str().is_empty() && !is_upstream) {
        return Err(refuse(""));
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_model_flag_names_its_parts() {
        let model = parse_model("tiny=embedded:models/tiny,renderer=chatml").unwrap();
        assert_eq!((model.name.as_str(), model.renderer.as_str()), ("tiny", "chatml"));
        assert_eq!(model.path, Path::new("models/tiny"));
        let model = parse_model("q=vllm:http://h:8000/v1,path=models/q,api_key_env=KEY").unwrap();
        assert_eq!((model.backend, model.renderer.as_str()), (Backend::Vllm, "auto"));
        assert_eq!(
            (model.urls.as_slice(), model.path.as_path()),
            (&["http://h:8000/v1".to_owned()][..], Path::new("models/q"))
        );
        assert_eq!(model.api_key_env.as_deref(), Some("KEY"));
        let model = parse_model("smol=embedded:p,tools=preamble").unwrap();
        assert_eq!(model.renderer().tools, ToolWriting::Preamble);
        let model = parse_model("q=tinker:http://h,path=models/q,base_model=Qwen/Qwen3-8B").unwrap();
        assert_eq!((model.base_model.as_deref(), model.lora_rank), (Some("Qwen/Qwen3-8B"), None));
        let model = parse_model("judge=anthropic:https://api.anthropic.com,upstream_model=x,api_key_env=KEY").unwrap();
        assert_eq!((model.backend, model.upstream_model.as_deref()), (Backend::Anthropic, Some("x")));
        model.check().unwrap();
        let model = parse_model("judge=anthropic:http://h,api_key_env=KEY,key_header=authorization").unwrap();
        assert_eq!(model.key_header, Some(KeyHeader::Authorization));
        model.check().unwrap();
        for wrong in [
            "tiny",
            "tiny=models/tiny",
            "tiny=ollama:http://x,path=y",
            "tiny=vllm:http://x",
            "tiny=vllm:,path=y",
            "=embedded:x",
            "a=embedded:x,y=z",
            "a=embedded:x,path=z",
            "a=vllm:http://x,path=z,base_model=y",
            "a=embedded:x,upstream_model=z",
            "a=openai:http://x,path=z",
            "a=openai:http://x,renderer=chatml",
            "a=openai:http://x,tools=preamble",
            "a=embedded:x,tools=words",
            "a=openai:http://x,key_header=authorization",
            "a=anthropic:http://x,key_header=cookie",
            "a=openai:",
        ] {
            let error = parse_model(wrong).unwrap_err().to_string();
            assert!(error.contains("expected NAME=embedded:DIRECTORY|FILE.gguf"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_adapter_has_what_is_told_of_it_and_else_the_engines_defaults() {
        let model = parse_model("tiny=embedded:models/tiny").unwrap();
        assert_eq!(model.lora(3), None);
        assert_eq!(ModelEntry { lora_rank: Some(0), ..model.clone() }.lora(3), None);
        let plain = ModelEntry { lora_rank: Some(8), ..model.clone() };
        plain.check().unwrap();
        assert_eq!(plain.lora(3), Some(LoraOptions::new(8, 3)));
        let text = "name = 'm'\nbackend = 'vllm'\npath = 'p'\nurls = ['http://h']\nlora_rank = 4\nlora_alpha = 8\n\
                    lora_modules = ['q_proj', 'lm_head']";
        let entry: ModelEntry = toml::from_str(text).unwrap();
        entry.check().unwrap();
        let modules = [LoraModule::Query, LoraModule::Head].into();
        assert_eq!(entry.lora(3), Some(LoraOptions { rank: 4, alpha: 8.0, modules, seed: 3 }));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let remote = parse_model("q=sglang:http://h,path=p").unwrap();
        remote.check().unwrap();
        let embedded = parse_model("q=embedded:p").unwrap();
        embedded.check().unwrap();
        let tinker = parse_model("q=tinker:http://h,path=p").unwrap();
        tinker.check().unwrap();
        let upstream = parse_model("q=openai:http://h").unwrap();
        upstream.check().unwrap();
        let twice = vec!["http://h".to_owned(); 2];
        let two = vec!["http://h".to_owned(), "http://g".to_owned()];
        for (wrong, word) in [
            (ModelEntry { urls: vec![], ..remote.clone() }, "needs urls"),
            (ModelEntry { urls: twice, ..remote.clone() }, "twice"),
            (ModelEntry { max_concurrency: 0, ..remote.clone() }, "max_concurrency"),
            (ModelEntry { urls: remote.urls.clone(), ..embedded.clone() }, "leave out urls"),
            (ModelEntry { api_key_env: Some("K".into()), ..embedded.clone() }, "api_key_env"),
            (ModelEntry { base_model: Some("m".into()), ..remote.clone() }, "base_model"),
            (ModelEntry { lora_alpha: Some(8.0), ..remote.clone() }, "needs lora_rank"),
            (ModelEntry { lora_rank: Some(0), lora_alpha: Some(8.0), ..embedded.clone() }, "needs lora_rank"),
            (ModelEntry { lora_rank: Some(8), lora_alpha: Some(8.0), ..tinker.clone() }, "to the service"),
            (ModelEntry { lora_rank: Some(8), ..upstream.clone() }, "no adapters"),
            (ModelEntry { learner: LearnerKind::Torch, ..tinker.clone() }, "not with \"tinker\""),
            (ModelEntry { learner: LearnerKind::PrimeRl, ..tinker.clone() }, "not with \"tinker\""),
            (ModelEntry { urls: two, ..tinker }, "one service"),
            (ModelEntry { path: PathBuf::new(), ..embedded }, "needs path"),
            (ModelEntry { upstream_model: Some("x".into()), ..remote }, "upstream_model"),
            (ModelEntry { urls: vec![], ..upstream.clone() }, "needs urls"),
            (ModelEntry { key_header: Some(KeyHeader::XApiKey), ..upstream.clone() }, "key_header"),
            (ModelEntry { path: "p".into(), ..upstream }, "leave out path, renderer, tools and changeover"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
