//! The thread that owns the executor: it takes jobs from a bounded queue and runs turns while there is work.

use crate::metrics::Metrics;
use enginewright_core::executor::{Executor, Limits};
use enginewright_core::scheduler::Scheduler;
use enginewright_core::session::{Event, Job, Sink, Work};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// The way to the engine thread.
#[derive(Clone)]
pub struct Engine {
    jobs: Sender<Job>,
    /// Jobs that were handed over and have not begun.
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
    pub limits: Limits,
}

/// Why jobs were not taken.
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
    /// Starts the thread with a queue of `most_waiting` jobs. What comes back besides resolves when the thread ends,
    /// whatever ends it.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        executor: Box<dyn Executor>,
        most_waiting: usize,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<(Self, oneshot::Receiver<()>)> {
        let (sender, jobs) = channel();
        let (alive, ended) = oneshot::channel();
        let limits = executor.limits();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut thread = EngineThread {
            jobs,
            queue: VecDeque::new(),
            waiting: waiting.clone(),
            metrics,
            scheduler: Scheduler::new(executor),
        };
        std::thread::Builder::new().name("engine".into()).spawn(move || {
            // Dropped when the thread ends, by a panic too.
            let _alive: oneshot::Sender<()> = alive;
            thread.run();
        })?;
        Ok((Self { jobs: sender, waiting, most_waiting, limits }, ended))
    }

    /// Hands over the jobs of one request, all or none; each one's events come through its receiver, and dropping the
    /// receiver cancels it. A request of many jobs is taken whole once the queue has room for one: else it never could.
    ///
    /// # Errors
    /// [`Refused`]: nothing was queued.
    pub fn submit(&self, works: Vec<Work>) -> Result<Vec<UnboundedReceiver<Event>>, Refused> {
        if self.waiting.load(Ordering::Relaxed) >= self.most_waiting {
            return Err(Refused::Busy);
        }
        let hand_over = |work| {
            let (sender, events) = unbounded_channel();
            // Counted first: the engine may take it before we could count it.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.jobs.send(Job { work, sink: Box::new(ToAsync(sender)) }).map_err(|_| Refused::Gone)?;
            Ok(events)
        };
        works.into_iter().map(hand_over).collect()
    }
}

struct EngineThread {
    jobs: Receiver<Job>,
    queue: VecDeque<Job>,
    waiting: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
    scheduler: Scheduler<Box<dyn Executor>>,
}

impl EngineThread {
    /// Runs until nobody can hand over jobs any more.
    fn run(&mut self) {
        while self.collect() {
            self.scheduler.turn();
            self.metrics.set_work(self.scheduler.active(), self.scheduler.counts());
        }
    }

    /// Takes new jobs, sleeping while there is nothing to do; false at the end.
    fn collect(&mut self) -> bool {
        if self.scheduler.active() == 0 && self.queue.is_empty() {
            match self.jobs.recv() {
                Ok(job) => self.queue.push_back(job),
                Err(_) => return false,
            }
        }
        loop {
            match self.jobs.try_recv() {
                Ok(job) => self.queue.push_back(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if self.scheduler.active() > 0 => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        // Whoever left makes room in the queue at once, not when its turn would have come.
        let before = self.queue.len();
        self.queue.retain(|job| job.sink.is_open());
        let left = before - self.queue.len();
        self.metrics.count_left(left);
        let mut begun = 0;
        while self.scheduler.has_room()
            && let Some(job) = self.queue.pop_front()
        {
            self.scheduler.admit(job);
            begun += 1;
        }
        self.waiting.fetch_sub(left + begun, Ordering::Relaxed);
        self.metrics.waiting.set(self.queue.len() as i64);
        true
    }
}
