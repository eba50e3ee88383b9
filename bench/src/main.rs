//! `fulgurite-bench`: what things cost, what is compared side by side in one run.

#![allow(unreachable_pub, reason = "nothing of a program is reached from elsewhere")]

mod dashboard;
mod engine;
mod output;
mod processors;
mod proxy;
mod render;
mod server;
mod store;
mod table;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::dashboard::{DashboardArguments, bench_dashboard};
use crate::engine::{EngineArguments, EngineHostArguments};
use crate::proxy::{ProxyArguments, ProxyHostArguments};
use crate::render::RenderArguments;
use crate::store::StoreArguments;

/// As the measured program has it: a server makes and drops many small things on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What Fulgurite costs
#[derive(Debug, Parser)]
#[command(name = "fulgurite-bench", version, disable_help_subcommand = true)]
struct Cli {
    /// Of what.
    #[command(subcommand)]
    subject: Subject,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
enum Subject {
    /// What a model call costs through the proxy and its record, over the same call straight to the model's host
    ///
    /// A child process plays a vLLM server that answers every request at once with the same 50 tokens. The same client
    /// makes the same calls straight to it and through a second child process, which is `fulgurite serve` as by default
    /// with a SQLite file of its own, in turns. Half of the calls are made at the given rate whether or not earlier ones
    /// have been answered, and their times count from when they should have been made; they say what a call waits for.
    /// The other half are made so that as many as given are always under way; they say what a call costs.
    ///
    /// Added processor time is all that the process of the proxy took while the calls were made, user and system,
    /// divided by their number; nothing is subtracted. Client and host stand for other machines, and keep to one half of
    /// the processors; the proxy runs on all. Every task is new and tried by a group of eight. Attempts are
    /// started before and ended after, as runners do, and that is not counted. Of calls of nobody, which begin and end a
    /// rollout each, that is counted too.
    Proxy(ProxyArguments),
    /// The model host of `proxy`
    #[command(hide = true)]
    ProxyHost(ProxyHostArguments),
    /// Tokens that the embedded engine samples and trains in a second, beside PyTorch where it is given
    ///
    /// Models are Qwen3's with fresh weights, each side's in a process of its own. Streams read a prompt of 16 tokens and
    /// sample at temperature 1; training is forward pass, backward pass, clipping and fused AdamW over sequences of 256
    /// tokens. PyTorch runs a lean decoder with scaled_dot_product_attention and a static cache, without torch.compile.
    /// Turns of both alternate, and each figure is the median of a side's turns. Where a machine is shared, tokens a
    /// second of processor time say more than tokens a second.
    Engine(EngineArguments),
    /// The measured process of `engine`
    #[command(hide = true)]
    EngineHost(EngineHostArguments),
    /// Processor time and latency of the store's API, over an empty store and over a filled one
    Store(StoreArguments),
    /// What the page costs its server: lists over a small and a large store, tokens of short and long rollouts, open pages
    Dashboard(DashboardArguments),
    /// Time from conversation to tokens, whole and as a continuation, and from tokens to message
    Render(RenderArguments),
}

fn main() -> ExitCode {
    let subject = Cli::parse().subject;
    let ended = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(measure(subject)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes: String = error.chain().skip(1).map(|cause| format!("\n  caused by: {cause}")).collect();
            output::error(&format!("error: {error}{causes}"));
            ExitCode::FAILURE
        }
    }
}

async fn measure(subject: Subject) -> anyhow::Result<()> {
    match subject {
        Subject::Proxy(arguments) => proxy::bench_proxy(arguments).await,
        Subject::ProxyHost(arguments) => proxy::bench_proxy_host(arguments).await,
        Subject::Engine(arguments) => engine::bench_engine(&arguments),
        Subject::EngineHost(arguments) => engine::bench_engine_host(arguments).await,
        Subject::Store(arguments) => store::bench_store(arguments).await,
        Subject::Dashboard(arguments) => bench_dashboard(arguments).await,
        Subject::Render(arguments) => render::bench_render(arguments),
    }
}
