//! `fulgurite mcp`: the tools by which a coding agent trains models.

pub mod arguments;

use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_config::admin_key;
use fulgurite_config::agent_settings::agent_setting;
use fulgurite_config::declarations::Config;
use fulgurite_config::seconds::seconds;
use fulgurite_lab::interruptions::{Interruptions, interrupted};
use fulgurite_lab::records::open_store::open_store;
use fulgurite_lab::run_routes;
use fulgurite_mcp::{
    Autocheckpoint, Limits, Options, ToolSet, TrainingTools, http_routes, read_or_make_seal_key, serve_standard_streams,
};
use fulgurite_server::{Listening, MetricsPage, RunningServer, ServerWeights, write_ready_file};
use fulgurite_terminal::output;

use self::arguments::{McpArguments, ToolSetName};

/// Serves hosts: the one that has started this process, until that goes away, or those that call an address.
pub async fn mcp(mut arguments: McpArguments) -> Result<()> {
    let (listen, ready_file) = (arguments.listen.take(), arguments.ready_file.take());
    let tools = TrainingTools::open(options(arguments)?).await?;
    if let Some(missing) = tools.missing() {
        output::note(format_args!("warning: {missing}"));
    }
    if let Some(address) = listen {
        return serve_address(&tools, address, ready_file.as_deref()).await;
    }
    tokio::select! {
        served = serve_standard_streams(&tools) => served.context("the host's messages cannot be read")?,
        interrupted = interrupted() => {
            interrupted?;
            tools.close().await;
        }
    }
    Ok(())
}

/// Serves whoever calls, behind the same door and with the same keys as all that is served here.
async fn serve_address(tools: &TrainingTools, address: String, ready_file: Option<&Path>) -> Result<()> {
    let metrics = MetricsPage::install()?;
    let admin = admin_key::of_environment()?;
    if admin.is_some() {
        admin_key::keep_to_this_process();
    }
    let mut config = Config::default();
    config.server.listen = address;
    let listening = Listening::begin(&config.server, admin).await?.with(run_routes);
    // Runs have stores of their own; this one holds nothing but the server's secret.
    let directory = tempfile::tempdir().context("cannot create a directory for the server")?;
    let store_url = format!("sqlite://{}", directory.path().join("mcp.db").display());
    let store = open_store(&store_url, &config.store).await?;
    let routes = http_routes(tools);
    let mut server =
        RunningServer::start(&config, listening, store.clone(), Vec::new(), ServerWeights::Own, routes, &metrics)
            .await?;
    let mut interruptions = Interruptions::listen()?;
    if let Some(path) = ready_file {
        write_ready_file(path, &server.url)?;
    }
    output::line(format!("the tools are at {}/mcp", server.url));
    let failed = tokio::select! {
        error = server.failed() => Some(error),
        () = interruptions.next() => None,
    };
    tools.close().await;
    match failed {
        Some(error) => return Err(error),
        // Hosts keep a stream open for as long as they live.
        None => server.stop(std::future::ready(())).await?,
    }
    store.close().await;
    Ok(())
}

/// What the command line says.
fn options(arguments: McpArguments) -> Result<Options> {
    let limits = Limits { tokens: arguments.max_tokens, seconds: arguments.max_seconds, money: arguments.max_money };
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let project = std::env::current_dir().context("the working directory is gone")?;
    let directory = project.join(&arguments.directory);
    let patience = match arguments.lock_seconds {
        forever if forever < 0.0 => None,
        value => Some(seconds("--lock-seconds", value)?),
    };
    Ok(Options {
        program,
        configs: arguments.configs,
        server: arguments.server,
        tools: match arguments.tools {
            ToolSetName::Own => ToolSet::Own,
            ToolSetName::Tinkerer => ToolSet::Tinkerer,
        },
        patience,
        unsafe_grader: arguments.unsafe_grader,
        grader_timeout: seconds("--grader-seconds", arguments.grader_seconds)?,
        limits,
        prices: arguments.prices,
        settings: |key, value| agent_setting(key, value).map_err(|error| format!("{error:#}")),
        seal_key: read_or_make_seal_key(&[&project, &directory])?,
        directory,
        project,
        autocheckpoint: Autocheckpoint {
            reward: arguments.autocheckpoint_reward,
            updates: arguments.autocheckpoint_after,
        },
    })
}
