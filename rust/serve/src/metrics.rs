//! What `/metrics` shows, in the text format of Prometheus.

use enginewright_core::scheduler::Counts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::Mutex;

/// Labels of the request counter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub route: String,
    pub status: u16,
}

/// Counters and gauges of one server.
pub struct Metrics {
    registry: Registry,
    pub requests: Family<RequestLabels, Counter>,
    pub waiting: Gauge,
    active: Gauge,
    prompt_tokens: Counter,
    generated_tokens: Counter,
    cancelled: Counter,
    pub first_token_seconds: Histogram,
    pub between_tokens_seconds: Histogram,
    resident_bytes: Gauge,
    last: Mutex<Counts>,
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.0005, 2.0, 18));
        let made = Self {
            registry: Registry::with_prefix("enginewright"),
            requests: Family::default(),
            waiting: Gauge::default(),
            active: Gauge::default(),
            prompt_tokens: Counter::default(),
            generated_tokens: Counter::default(),
            cancelled: Counter::default(),
            first_token_seconds: seconds(),
            between_tokens_seconds: seconds(),
            resident_bytes: Gauge::default(),
            last: Mutex::default(),
        };
        made.registered()
    }

    fn registered(mut self) -> Self {
        let all = &mut self.registry;
        all.register("requests", "Requests answered, by route and status", self.requests.clone());
        all.register("queue_depth", "Jobs that wait for the engine", self.waiting.clone());
        all.register("active_jobs", "Jobs in the engine", self.active.clone());
        all.register("prompt_tokens", "Prompt tokens run", self.prompt_tokens.clone());
        all.register("generated_tokens", "Tokens generated", self.generated_tokens.clone());
        all.register("cancelled_jobs", "Jobs whose client went away", self.cancelled.clone());
        let name = "time_to_first_token";
        let help = "From the request to its first token";
        all.register_with_unit(name, help, Unit::Seconds, self.first_token_seconds.clone());
        let help = "From one token of a request to the next";
        all.register_with_unit(
            "time_between_tokens",
            help,
            Unit::Seconds,
            self.between_tokens_seconds.clone(),
        );
        let help = "Resident memory of this process";
        all.register_with_unit("resident_memory", help, Unit::Bytes, self.resident_bytes.clone());
        self
    }

    /// Takes over the scheduler's counts.
    pub fn set_work(&self, active: usize, counts: Counts) {
        self.active.set(active as i64);
        // A poisoned lock holds a valid copy all the same.
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.prompt_tokens.inc_by(counts.prompt_tokens - last.prompt_tokens);
        self.generated_tokens.inc_by(counts.generated_tokens - last.generated_tokens);
        self.cancelled.inc_by(counts.cancelled - last.cancelled);
        *last = counts;
    }

    /// Counts jobs whose clients went away before they began.
    pub fn count_left(&self, jobs: usize) {
        self.cancelled.inc_by(jobs as u64);
    }

    /// The text that a scrape gets.
    pub fn text(&self) -> String {
        self.resident_bytes.set(resident_bytes().unwrap_or(0));
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Resident memory of this process. Source: proc(5), statm in pages of 4 KiB.
fn resident_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<i64>().ok().map(|pages| pages * 4096)
}
