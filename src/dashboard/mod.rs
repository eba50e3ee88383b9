//! `fulgurite dashboard`: the page over a run or a store that nobody serves, which is read and not written.

pub mod arguments;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::ServerConfig;
use fulgurite_dashboard::Tokenizers;
use fulgurite_hub::known_model_directory;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::page::reading_routes;
use fulgurite_lab::records::run_tokenizers;
use fulgurite_lab::runs::registry;
use fulgurite_server::{Listening, write_ready_file};
use fulgurite_store::{Store, redact_url};
use fulgurite_terminal::output;

use self::arguments::DashboardArguments;

/// Shows the page until it is told to stop.
pub async fn dashboard(arguments: DashboardArguments) -> Result<()> {
    let DashboardArguments { shown, model, listen, ready_file } = arguments;
    let (store, mut models) = match shown.contains("://") {
        true => {
            let store = Store::open_read_only(&shown).await;
            (store.with_context(|| format!("cannot open the store {}", redact_url(&shown)))?, Vec::new())
        }
        false => {
            let directory = registry::directory(Path::new(&shown))?;
            (registry::open(&directory).await?.0, run_tokenizers(&directory))
        }
    };
    for directory in &model {
        if !directory.exists() {
            bail!("--model {} does not exist", directory.display());
        }
    }
    models.extend(model);
    let listening = Listening::begin(&ServerConfig { listen, ..ServerConfig::default() }, None).await?;
    let routes = reading_routes(&store, tokenizers(&models));
    let mut interruptions = Interruptions::listen()?;
    let url = listening.url();
    let server = listening.serve_reads(routes);
    if let Some(path) = &ready_file {
        write_ready_file(path, &url)?;
    }
    output::line(format!("the page is at {url}/"));
    tokio::select! {
        () = server => bail!("the server stopped"),
        () = interruptions.next() => {}
    }
    store.close().await;
    Ok(())
}

/// The renderers of those models that are there.
fn tokenizers(models: &[PathBuf]) -> Tokenizers {
    let directories = models.iter().filter_map(|path| known_model_directory(path));
    let renderers = directories.filter_map(|path| fulgurite_renderers::open_renderer(&path, "auto").ok());
    renderers.map(|renderer| (renderer.tokenizer().fingerprint().to_owned(), renderer)).collect()
}
