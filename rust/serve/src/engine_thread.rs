//! The thread that owns the executor: it takes jobs from a bounded queue and runs turns while there is work.

use crate::metrics::Metrics;
use enginewright_core::executor::{Executor, Limits};
use enginewright_core::scheduler::Scheduler;
use enginewright_core::session::{Event, Job, Sink, Work};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The way to the engine thread.
#[derive(Clone)]
pub struct Engine {
    queue: SyncSender<Job>,
    pub limits: Limits,
    metrics: Arc<Metrics>,
}

/// Why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full.
    Busy,
    /// The engine thread ended.
    Gone,
}

struct ToAsync(UnboundedSender<Event>);

impl Sink for ToAsync {
    fn tell(&mut self, event: Event) -> bool {
        self.0.send(event).is_ok()
    }

    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}

impl Engine {
    /// Starts the thread with a queue of `most_waiting` jobs.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        executor: Box<dyn Executor>,
        most_waiting: usize,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel(most_waiting);
        let limits = executor.limits();
        let theirs = metrics.clone();
        std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || work(Scheduler::new(executor), &jobs, &theirs))?;
        Ok(Self { queue, limits, metrics })
    }

    /// Hands a job over; its events come through the receiver, and dropping the receiver cancels it.
    ///
    /// # Errors
    /// [`Refused`]: nothing was queued.
    pub fn submit(&self, work: Work) -> Result<UnboundedReceiver<Event>, Refused> {
        let (sender, events) = unbounded_channel();
        // Counted first: the engine may take it before we could count it.
        self.metrics.waiting.inc();
        match self.queue.try_send(Job { work, sink: Box::new(ToAsync(sender)) }) {
            Ok(()) => Ok(events),
            Err(error) => {
                self.metrics.waiting.dec();
                Err(match error {
                    TrySendError::Full(_) => Refused::Busy,
                    TrySendError::Disconnected(_) => Refused::Gone,
                })
            }
        }
    }
}

fn work(mut scheduler: Scheduler<Box<dyn Executor>>, jobs: &Receiver<Job>, metrics: &Metrics) {
    loop {
        if scheduler.active() == 0 {
            // Idle: sleep until somebody asks. The server ended when nobody can ask any more.
            let Ok(job) = jobs.recv() else { return };
            metrics.waiting.dec();
            scheduler.admit(job);
        }
        while scheduler.has_room() {
            let Ok(job) = jobs.try_recv() else { break };
            metrics.waiting.dec();
            scheduler.admit(job);
        }
        scheduler.turn();
        metrics.set_work(scheduler.active(), scheduler.counts());
    }
}
