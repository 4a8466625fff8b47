//! From arguments to a listening server, and its graceful end.

use crate::engine_facts::Counted;
use crate::engine_thread::Engine as EngineHandle;
use crate::load_engine::load_engine;
use crate::loading::Gate;
use crate::metrics::Metrics;
use crate::routes::router;
use crate::state::State;
use anyhow::{Context, bail};
use axum::serve::ListenerExt;
use enginewright_core::executor::Engine;
use enginewright_core::graph::Graph;
use enginewright_text::{ChatTemplate, Tokenizer};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

/// How to serve an engine.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen on; 0 takes any that is free
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Serve on this open, listening socket instead of `--host` and `--port`: for sandboxes without a network
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(3..))]
    pub listen_fd: Option<i32>,
    /// Threads, instead of the plan's number
    #[arg(long, value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Generations and embedding requests that may wait for the engine; the next request is answered 503
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    pub queue: usize,
    /// Environment variable that holds the API key which clients must send
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// What clients call the model [default: the graph's name]
    #[arg(long)]
    pub model_name: Option<String>,
    /// Seconds that running requests get to end after a signal to stop
    #[arg(long, default_value_t = 30)]
    pub grace_seconds: u64,
    /// Largest request body in KiB
    #[arg(long, default_value_t = 4096, value_parser = at_least_one)]
    pub most_body_kib: usize,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected 1 or more".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// An engine, ready to serve.
pub struct Loaded {
    pub engine: Box<dyn Engine>,
    pub graph: Graph,
    pub tokenizer: Tokenizer,
}

/// Loads the engine in a folder.
///
/// # Errors
/// Whatever is wrong with its files, kernels or this machine.
pub fn folder_engine(engine: &Path, checkpoint: &Path, threads: Option<usize>) -> anyhow::Result<Loaded> {
    let path = engine.join("tokenizer.json");
    let bytes = std::fs::read(&path).with_context(|| {
        format!("cannot read {}\nhint: build the engine again from its checkpoint", path.display())
    })?;
    let tokenizer = Tokenizer::from_bytes(&path.display().to_string(), &bytes)?;
    let engine = load_engine(engine, checkpoint, threads)?;
    let graph = engine.graph().clone();
    Ok(Loaded { engine, graph, tokenizer })
}

async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}\nhint: name another port with --port, or 0 for any")
    })
}

/// The listening socket that whoever started this program left open.
fn inherited(fd: i32) -> anyhow::Result<TcpListener> {
    // SAFETY: `--listen-fd` hands the descriptor over; nothing else in this program knows it. One that is no listening
    // socket is refused below.
    let socket = unsafe { std::net::TcpListener::from_raw_fd(fd) };
    let hint = "hint: pass a listening TCP socket as --listen-fd";
    socket.local_addr().with_context(|| format!("file descriptor {fd} is no socket\n{hint}"))?;
    socket.set_nonblocking(true).with_context(|| format!("file descriptor {fd}\n{hint}"))?;
    TcpListener::from_std(socket).with_context(|| format!("file descriptor {fd}\n{hint}"))
}

/// Listens, loads, serves until a signal, and lets running requests end.
///
/// # Errors
/// If the port is in use, the engine cannot be loaded, or requests outlast the grace time.
pub fn run(
    arguments: &ServeArguments,
    load: impl FnOnce(&ServeArguments) -> anyhow::Result<Loaded> + Send,
) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::Level::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    // One thread: the cores belong to the engine's threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let api_key = api_key(arguments)?;
    std::thread::scope(|scope| {
        runtime.block_on(async {
            // First the port, which fails at once; then the weights.
            let listener = match arguments.listen_fd {
                Some(fd) => inherited(fd)?,
                None => listen(&format!("{}:{}", arguments.host, arguments.port)).await?,
            };
            let (sender, loaded) = oneshot::channel();
            let loading = move || {
                // Nobody waits only if the server was asked to stop meanwhile.
                let _ = sender.send(load(arguments));
            };
            std::thread::Builder::new().name("load".into()).spawn_scoped(scope, loading)?;
            serve(arguments, listener, loaded, api_key).await
        })
    })
}

/// The key that clients must send.
fn api_key(arguments: &ServeArguments) -> anyhow::Result<Option<String>> {
    let Some(name) = &arguments.api_key_env else { return Ok(None) };
    match std::env::var(name) {
        Ok(key) if !key.is_empty() => Ok(Some(key)),
        _ => bail!("--api-key-env names {name}, which is not set\nhint: export {name}=KEY"),
    }
}

/// What handlers see, and what resolves when the engine's thread ends.
fn start(
    arguments: &ServeArguments,
    loaded: Loaded,
    api_key: Option<String>,
) -> anyhow::Result<(State, oneshot::Receiver<()>)> {
    let metrics = Arc::new(Metrics::new());
    let Loaded { engine, graph, tokenizer } = loaded;
    let (counted, facts) = Counted::new(engine);
    let (engine, ended) = EngineHandle::start(Box::new(counted), arguments.queue, metrics.clone())?;
    let state = State {
        engine,
        facts,
        tokenizer: Arc::new(tokenizer),
        template: ChatTemplate::new(&graph.text)?,
        end_ids: graph.text.eos_ids.clone(),
        model: arguments.model_name.clone().unwrap_or_else(|| graph.name.clone()),
        vocabulary: graph.dimensions.vocabulary,
        api_key,
        metrics,
        drains: AtomicBool::new(false),
        requests: AtomicU64::new(0),
    };
    Ok((state, ended))
}

async fn serve(
    arguments: &ServeArguments,
    listener: TcpListener,
    loaded: oneshot::Receiver<anyhow::Result<Loaded>>,
    api_key: Option<String>,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let address = listener.local_addr()?;
    // Small pieces of a stream must not wait for each other.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot send without delay: {error}");
        }
    });
    let gate = Gate::default();
    let (stop, mut asked) = watch::channel(false);
    let asked_to_stop = async move {
        // An error means that the sender is gone, which is as good as being asked.
        let _ = asked.wait_for(|is_asked| *is_asked).await;
    };
    let server = axum::serve(listener, gate.router()).with_graceful_shutdown(asked_to_stop);
    let server = tokio::spawn(async { server.await });
    let signals = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    };
    tokio::pin!(signals);
    let loaded = tokio::select! {
        loaded = loaded => loaded.context("loading broke off\nhint: see the log")??,
        () = &mut signals => {
            tracing::info!("stopped while loading");
            std::process::exit(0)
        }
    };
    let (state, ended) = start(arguments, loaded, api_key)?;
    let state = Arc::new(state);
    gate.open(router(state.clone(), arguments.most_body_kib * 1024));
    println!("{}", serde_json::json!({"event": "ready", "address": address.to_string()}));
    tracing::info!("serving {} on http://{address}", state.model);
    tokio::select! {
        () = signals => {}
        _ = ended => bail!("the engine's thread ended\nhint: this is a bug; the log says more"),
    }
    tracing::info!("stopping: no new requests, running ones may end");
    state.drains.store(true, Ordering::Relaxed);
    // Fails only if the server ended by itself, which `server` tells.
    let _ = stop.send(true);
    match tokio::time::timeout(Duration::from_secs(arguments.grace_seconds), server).await {
        Ok(done) => Ok(done??),
        Err(_) => {
            tracing::warn!("requests outlasted the grace time of {} s", arguments.grace_seconds);
            Ok(())
        }
    }
}
