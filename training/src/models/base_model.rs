//! Makes the model directory that a training run starts from, when it is missing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_engine::{Engine, EngineOptions};
use fulgurite_renderers::{Renderer, RendererChoice, ToolWriting};
use fulgurite_runner::Program;
use fulgurite_trainer::{Reporter, RunIdentity, Supervised, SupervisedResult, TrainEvent};
use fulgurite_types::{NewRun, mended_json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Duration, Instant, interval_at};

use fulgurite_config::declarations::{BaseConfig, StoreConfig};
use fulgurite_config::models::auto;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::records::run_files::STORE_FILE;

/// Says in the model directory what it was made from.
const RECIPE_FILE: &str = "fulgurite_base.json";
/// The metrics of the steps in which it was made, a line each.
const METRICS_FILE: &str = "fulgurite_base_metrics.jsonl";
/// What a run calls them in its own directory.
const STEPS_FILE: &str = "metrics.jsonl";
/// How long a corpus program works before it is said how far it is, and then again.
const SILENCE: Duration = Duration::from_secs(5);
/// What it is made from, in the directory in which it is made.
const CORPUS_FILE: &str = "corpus.jsonl";
/// Where the model is, in the directory in which it is made, before it is trained.
const UNTRAINED: &str = "untrained";

/// Makes `directory` if it is missing; goes on where that was cut short before. One that was made from other settings is
/// refused rather than trained on.
///
/// Programs are looked for on the PATH, in the directory of this program first; the corpus command runs in
/// `working_directory`, without the variables that are `secrets`.
pub async fn make_if_missing(
    recipe: &Recipe,
    directory: &Path,
    working_directory: &Path,
    secrets: &[String],
    options: EngineOptions,
    reporter: &mut dyn Reporter,
) -> Result<()> {
    if directory.exists() {
        return check_recipe(directory, recipe);
    }
    let workspace = sibling(directory, "training");
    std::fs::create_dir_all(&workspace).with_context(|| format!("cannot create {}", workspace.display()))?;
    let _lock = ExclusiveLock::of_run(&workspace)?;
    let Recipe { base, seed, .. } = recipe;
    let corpus = run_corpus_command(&base.corpus, *seed, working_directory, secrets, reporter).await?;
    begin(recipe, &corpus, &workspace)?;
    let result = train(recipe, &corpus, &workspace, options, reporter).await?;
    let made = result.run.checkpoint.clone().context("the base model has no checkpoint")?;
    write_recipe(&made, recipe, &result)?;
    let metrics = made.join(METRICS_FILE);
    std::fs::copy(workspace.join(STEPS_FILE), &metrics)
        .with_context(|| format!("cannot write {}", metrics.display()))?;
    std::fs::rename(&made, directory).with_context(|| format!("cannot create {}", directory.display()))?;
    remove(&workspace)
}

/// Makes the untrained model in `workspace`, unless what is there was started from the same recipe and corpus.
fn begin(recipe: &Recipe, corpus: &str, workspace: &Path) -> Result<()> {
    let [recipe_file, corpus_file] = [RECIPE_FILE, CORPUS_FILE].map(|name| workspace.join(name));
    let started = format!("{:#}\n", json!({ "recipe": recipe }));
    let is_there = |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|there| there == text);
    if is_there(&recipe_file, &started) && is_there(&corpus_file, corpus) {
        return Ok(());
    }
    let of_store = ["", "-wal", "-shm"].map(|suffix| format!("{STORE_FILE}{suffix}"));
    for name in [RECIPE_FILE, STEPS_FILE].into_iter().chain(of_store.iter().map(String::as_str)) {
        remove_file(&workspace.join(name))?;
    }
    for name in [UNTRAINED, "checkpoints"] {
        remove(&workspace.join(name))?;
    }
    create_untrained(&recipe.base, recipe.seed, corpus, &workspace.join(UNTRAINED))?;
    // The recipe last: where it stands, the rest is whole.
    for (path, text) in [(corpus_file, corpus), (recipe_file, &started)] {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What a model was made from.
#[derive(PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// What the config says of it.
    pub base: BaseConfig,
    /// Everything random follows from it.
    pub seed: u64,
    /// What renders its conversations. Not told by older recipes, whose models speak what `auto` finds.
    #[serde(default = "auto")]
    pub renderer: String,
    /// How its conversations tell of tools. Older recipes, whatever they were for, left tools to the renderer.
    #[serde(default)]
    pub tools: ToolWriting,
}

impl Recipe {
    /// Whether both make the same. Where the config's seed for the base comes from is not asked: what counts is the one that was
    /// used.
    fn makes_what(&self, other: &Self) -> bool {
        let settled = |recipe: &Self| BaseConfig { seed: Some(recipe.seed), ..recipe.base.clone() };
        (settled(self), &self.renderer, self.tools) == (settled(other), &other.renderer, other.tools)
    }

    fn open_renderer(&self, directory: &Path) -> Result<Arc<dyn Renderer>> {
        let choice = RendererChoice { name: &self.renderer, tools: self.tools };
        fulgurite_renderers::open_renderer(directory, choice).context("[[models]] renderer")
    }
}

fn check_recipe(directory: &Path, recipe: &Recipe) -> Result<()> {
    let path = directory.join(RECIPE_FILE);
    let Ok(text) = std::fs::read_to_string(&path) else {
        // Somebody else's model: [base] only says how to make one that is missing.
        return Ok(());
    };
    let made: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    // Keys that there were not yet when it was made had their defaults.
    let made = serde_json::from_value::<Recipe>(made["recipe"].clone());
    if !made.is_ok_and(|made| made.makes_what(recipe)) {
        bail!(
            "{} was made from other [base] settings; remove it to make it anew, or change [[models]] path",
            directory.display()
        );
    }
    Ok(())
}

fn write_recipe(directory: &Path, recipe: &Recipe, result: &SupervisedResult) -> Result<()> {
    let path = directory.join(RECIPE_FILE);
    let made = json!({
        "recipe": recipe,
        "steps": result.run.steps,
        "loss": result.loss,
        "validation_accuracy": result.validation_accuracy,
    });
    std::fs::write(&path, format!("{made:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

async fn run_corpus_command(
    command: &[String],
    seed: u64,
    working_directory: &Path,
    secrets: &[String],
    reporter: &mut dyn Reporter,
) -> Result<String> {
    let filled: Vec<String> = command.iter().map(|word| word.replace("{seed}", &seed.to_string())).collect();
    let program = Program::find(&filled, "corpus", None).context("[base] corpus")?;
    let name = program.path.display();
    let mut corpus = tokio::process::Command::new(&program.path);
    for variable in secrets {
        corpus.env_remove(variable);
    }
    let mut child = corpus
        .args(&program.arguments)
        .current_dir(working_directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start the corpus program {name} ([base] corpus)"))?;
    let cannot_read = || format!("cannot read what the corpus program {name} says");
    let mut written = BufReader::new(child.stdout.take().with_context(cannot_read)?);
    let event = |lines, is_whole| TrainEvent::Corpus { program: filled.join(" "), lines, is_whole };
    let mut clock = interval_at(Instant::now() + SILENCE, SILENCE);
    let (mut corpus, mut lines, mut is_announced) = (Vec::new(), 0, false);
    loop {
        tokio::select! {
            // What it has read when the clock strikes stays in `corpus`.
            read = written.read_until(b'\n', &mut corpus) => match read.with_context(cannot_read)? {
                0 => break,
                _ => lines += 1,
            },
            _ = clock.tick() => {
                is_announced = true;
                reporter.report(event(lines, false));
            }
        }
    }
    let status = child.wait().await.with_context(cannot_read)?;
    if !status.success() {
        bail!("the corpus program {name} failed: {status}");
    }
    if is_announced {
        reporter.report(event(lines, true));
    }
    String::from_utf8(corpus).context("the corpus is not UTF-8")
}

/// A tokenizer that fits the corpus, and random weights.
fn create_untrained(base: &BaseConfig, seed: u64, corpus: &str, directory: &Path) -> Result<()> {
    let mut texts = Vec::new();
    for (index, line) in corpus.lines().enumerate() {
        let row: Value = serde_json::from_str(&mended_json(line))
            .with_context(|| format!("[base] corpus line {} is not JSON", index + 1))?;
        for message in row["messages"].as_array().into_iter().flatten() {
            texts.extend(message["content"].as_str().map(str::to_owned));
            texts.extend(message["role"].as_str().filter(|_| base.role_pieces).map(str::to_owned));
        }
    }
    let tokenizer_json = fulgurite_renderers::train_byte_level_tokenizer(&texts, base.vocabulary_size, &[])?;
    let scratch = sibling(directory, "tokenizer");
    fulgurite_renderers::write_tokenizer_directory(&scratch, &tokenizer_json)?;
    let tokenizer = fulgurite_renderers::Tokenizer::open(&scratch)?;
    remove(&scratch)?;
    let shape = base.shape.model_config(tokenizer.vocabulary_size(), tokenizer.eos_ids());
    fulgurite_engine::create_model(directory, &shape, seed)?;
    fulgurite_renderers::write_tokenizer_directory(directory, &tokenizer_json)?;
    Ok(())
}

/// Trains the untrained model in `workspace`, on from its last checkpoint if there is one.
async fn train(
    recipe: &Recipe,
    corpus: &str,
    workspace: &Path,
    options: EngineOptions,
    reporter: &mut dyn Reporter,
) -> Result<SupervisedResult> {
    let untrained = workspace.join(UNTRAINED);
    // Nothing is sampled.
    let engine = Engine::open(&untrained, EngineOptions { prefix_cache_bytes: 0, ..options })?;
    let store_url = format!("sqlite://{}", workspace.join(STORE_FILE).display());
    let store = open_store(&store_url, &StoreConfig::default()).await?;
    let run_id = "base".to_owned();
    let is_started = store.runs().get(&run_id).await?.is_some();
    if !is_started {
        let config = json!({ "recipe": recipe });
        store.runs().create(NewRun { run_id: run_id.clone(), name: run_id.clone(), config, seed: recipe.seed }).await?;
    }
    let supervised = Supervised {
        record: Arc::new(store.clone()),
        learner: engine.learner(),
        renderer: recipe.open_renderer(&untrained)?,
        options: recipe.base.training.clone(),
        identity: RunIdentity {
            instance: run_id.clone(),
            run_id,
            seed: recipe.seed,
            directory: workspace.to_owned(),
            archive: None,
        },
    };
    let result = supervised.run(corpus, is_started, reporter).await;
    store.close().await;
    Ok(result?)
}

/// A directory beside `directory`, so that a rename moves it there in one step.
fn sibling(directory: &Path, suffix: &str) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    directory.with_file_name(name)
}

fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Message;

    use super::*;
    use crate::SilentReporter;

    fn recipe(corpus: &Path) -> Recipe {
        let base = json!({
            "corpus": ["cat", corpus],
            "vocabulary_size": 300,
            "shape": {
                "hidden_size": 16, "layers": 1, "heads": 2, "key_value_heads": 1, "head_size": 8,
                "intermediate_size": 32, "context_length": 2048,
            },
            "training": { "batch_size": 1, "max_steps": 2 },
        });
        let base = serde_json::from_value(base).unwrap();
        Recipe { base, seed: 1, renderer: "chatml".to_owned(), tools: ToolWriting::Preamble }
    }

    #[test]
    fn roles_are_pieces_where_that_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let spoken = ["user", "assistant"].map(|role| json!({ "role": role, "content": "Look." }));
        let corpus = format!("{}\n", json!({ "messages": spoken })).repeat(2);
        let tokens = |role_pieces: bool| {
            let (recipe, path) = (recipe(Path::new("none")), directory.path().join(role_pieces.to_string()));
            let base = BaseConfig { role_pieces, ..recipe.base.clone() };
            create_untrained(&base, 1, &corpus, &path).unwrap();
            let tokenizer = fulgurite_renderers::Tokenizer::open(&path).unwrap();
            ["user", "assistant"].map(|role| tokenizer.encode_ordinary(role).unwrap().len())
        };
        assert_eq!((tokens(false), tokens(true)), ([4, 9], [1, 1]));
    }

    #[tokio::test]
    async fn a_base_models_tools_are_told_of_as_the_proxy_will() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let tool = json!({ "type": "function", "function": { "name": "look", "parameters": {} } });
        let spoken = [message("user", "Look."), message("assistant", "I looked.")];

        // What the proxy renders of the same tools for any model with this format.
        let some = recipe(&path("none"));
        create_untrained(&some.base, 1, &json!({ "messages": spoken }).to_string(), &path("some")).unwrap();
        let renderer = some.open_renderer(&path("some")).unwrap();
        let user = Message::text("user", "Look.");
        let prompt = renderer.render_prompt(std::slice::from_ref(&user), std::slice::from_ref(&tool)).unwrap();
        let prompt = renderer.tokenizer().decode(&prompt.tokens);
        let words = prompt.strip_prefix("<|im_start|>system\n").and_then(|rest| rest.split_once("<|im_end|>"));
        let messages = [&[message("system", words.unwrap().0)], &spoken[..]].concat();

        // Both corpora have the same texts, and so the same tokenizer; one trains what is declared, one what is written.
        let mut weights = Vec::new();
        for (name, declared, written) in [("declared", "train", "validation"), ("written", "validation", "train")] {
            let rows = [
                json!({ "messages": spoken, "tools": [tool], "split": declared }),
                json!({ "messages": messages, "split": written }),
            ];
            let corpus = path(&format!("{name}.jsonl"));
            std::fs::write(&corpus, rows.map(|row| format!("{row}\n")).concat()).unwrap();
            let (recipe, options, model) = (recipe(&corpus), EngineOptions::default(), path(name));
            make_if_missing(&recipe, &model, directory.path(), &[], options, &mut SilentReporter).await.unwrap();
            weights.push(std::fs::read(model.join("model.safetensors")).unwrap());
        }
        assert!(weights[0] == weights[1], "what was declared was not trained as it is written");

        let corpus = path("declared.jsonl");
        let seeded = BaseConfig { seed: Some(1), ..recipe(&corpus).base };
        let same = Recipe { base: seeded, ..recipe(&corpus) };
        let options = EngineOptions::default();
        make_if_missing(&same, &path("declared"), directory.path(), &[], options, &mut SilentReporter).await.unwrap();
        let plain = Recipe { tools: ToolWriting::Template, ..recipe(&corpus) };
        let options = EngineOptions::default();
        let again =
            make_if_missing(&plain, &path("declared"), directory.path(), &[], options, &mut SilentReporter).await;
        assert!(again.unwrap_err().to_string().contains("was made from other [base] settings"));
    }
}
