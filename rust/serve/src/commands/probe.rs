//! `probe`: what this machine has, as one JSON object.

/// Arguments of `probe`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Size of the buffer that the bandwidth test reads, in MiB; several times the last cache
    #[arg(long, default_value_t = 1024)]
    pub buffer_mib: usize,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    anyhow::ensure!(arguments.buffer_mib > 0, "--buffer-mib must be positive");
    println!("{}", serde_json::json!({"cores": core_affinity::get_core_ids().map_or(0, |ids| ids.len())}));
    Ok(())
}
