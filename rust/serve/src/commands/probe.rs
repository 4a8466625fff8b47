//! `probe`: what this machine has, as one JSON object.

use enginewright_cpu::measure::{self, Rate};
use enginewright_cpu::{cores, processor};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `probe`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Size of the buffer that the bandwidth test reads over and over, in MiB; several times the last cache for
    /// the bandwidth of memory
    #[arg(long, default_value_t = 1024)]
    pub buffer_mib: usize,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    anyhow::ensure!(arguments.buffer_mib > 0, "--buffer-mib must be positive");
    let cores = cores::allowed();
    let counts = measure::thread_counts(cores.len());
    // Half of what is free: a probe must not push others out of memory.
    let available = memory_bytes("MemAvailable");
    let most = available.map_or(usize::MAX, |bytes| (bytes / 2) as usize);
    let buffer = (arguments.buffer_mib << 20).min(most).max(1 << 20);
    let bandwidth = measure::read_bandwidth(buffer, &counts)?;
    let arithmetic = measure::peak_f32(&counts)?;
    let found = json!({
        "processor": processor::model_name(),
        "architecture": std::env::consts::ARCH,
        "features": processor::features()?,
        "cores": cores.len(),
        "core_ids": cores.iter().map(|core| core.id).collect::<Vec<_>>(),
        "caches": caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
        "memory": {"total_bytes": memory_bytes("MemTotal"), "available_bytes": available},
        "huge_pages": huge_pages(),
        "read_bandwidth": rates(&bandwidth, "bytes_per_second"),
        "read_buffer_bytes": buffer,
        "peak_f32": rates(&arithmetic, "flops_per_second"),
    });
    println!("{found}");
    Ok(())
}

fn rates(rates: &[Rate], unit: &str) -> Vec<Value> {
    let described = rates.iter().map(|rate| {
        let mut object = serde_json::Map::new();
        object.insert("threads".into(), rate.threads.into());
        object.insert(unit.into(), rate.median().into());
        object.insert("best".into(), rate.best().into());
        object.insert("samples".into(), rate.samples.clone().into());
        Value::Object(object)
    });
    described.collect()
}

/// A line of `/proc/meminfo`, in bytes.
fn memory_bytes(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// The data caches that one core sees; empty when the system does not say.
fn caches(folder: &Path) -> Vec<Value> {
    let mut places: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    places.sort();
    places.iter().filter_map(|place| cache(place)).collect()
}

fn cache(place: &Path) -> Option<Value> {
    let read = |name: &str| Some(std::fs::read_to_string(place.join(name)).ok()?.trim().to_owned());
    let kind = read("type")?;
    let level: u64 = read("level")?.parse().ok()?;
    let size = read("size")?;
    let bytes = match size.strip_suffix('K') {
        Some(kilobytes) => kilobytes.parse::<u64>().ok()? * 1024,
        None => size.strip_suffix('M')?.parse::<u64>().ok()? << 20,
    };
    (kind != "Instruction").then(|| {
        json!({
            "level": level, "kind": kind.to_lowercase(), "bytes": bytes, "shared_by": read("shared_cpu_list"),
        })
    })
}

/// Which policy for transparent huge pages is in force: always, madvise or never.
fn huge_pages() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let start = text.find('[')?;
    let end = text.find(']')?;
    text.get(start + 1..end).map(str::to_owned)
}
