//! The thread pool: one wake a step, barriers in between.
//!
//! Thread 0 is the caller. A worker that has nothing to do watches for a while and then sleeps.

use core_affinity::CoreId;
use enginewright_core::error::EngineError;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// Looks at a flag before a waiting thread offers its core to others: some tens of microseconds. Without it a
/// pool on a busy machine would spin away the very time slice that the thread it waits for needs.
const LOOKS_BEFORE_YIELD: u32 = 2_000;
/// Looks between two readings of the clock.
const LOOKS_BETWEEN_CLOCKS: u32 = 64;

/// A value on cache lines of its own (two: processors fetch lines in pairs).
#[repr(align(128))]
struct Padded<T>(T);

/// A dissemination barrier: in round k each thread tells the thread 2^k further on. With two threads that is one
/// store and one load each.
pub struct Barrier {
    threads: usize,
    rounds: usize,
    /// Last barrier announced, `[threads, rounds]`; each has one writer.
    flags: Box<[Padded<AtomicU32>]>,
}

/// One thread's place in the sequence of barriers.
#[derive(Default)]
pub struct Turn(u32);

impl Barrier {
    fn new(threads: usize) -> Self {
        let rounds = threads.next_power_of_two().trailing_zeros() as usize;
        let flags = (0..threads * rounds).map(|_| Padded(AtomicU32::new(0))).collect();
        Self { threads, rounds, flags }
    }

    /// Returns when every thread of the pool has called it; what they wrote before is visible afterwards.
    #[inline]
    pub fn wait(&self, thread: usize, turn: &mut Turn) {
        turn.0 = turn.0.wrapping_add(1);
        for round in 0..self.rounds {
            let told = (thread + (1 << round)) % self.threads;
            self.flags[told * self.rounds + round].0.store(turn.0, Ordering::Release);
            let own = &self.flags[thread * self.rounds + round].0;
            let mut looks = 0;
            // The teller may be one barrier ahead already, so compare by distance.
            while (own.load(Ordering::Acquire).wrapping_sub(turn.0) as i32) < 0 {
                looks = pause(looks);
            }
        }
    }
}

#[inline]
fn pause(looks: u32) -> u32 {
    if looks < LOOKS_BEFORE_YIELD {
        std::hint::spin_loop();
        looks + 1
    } else {
        std::thread::yield_now();
        looks
    }
}

/// What every thread runs: its number, the barrier, its turn.
type Job<'a> = dyn Fn(usize, &Barrier, &mut Turn) + Sync + 'a;

struct Shared {
    barrier: Barrier,
    /// Number of the current job.
    posted: Padded<AtomicU32>,
    job: UnsafeCell<Option<*const Job<'static>>>,
    stop: AtomicBool,
    /// Whether worker i + 1 sleeps or is about to.
    sleeping: Box<[Padded<AtomicBool>]>,
    spin: Duration,
}

// SAFETY: `job` is written by the caller only while all workers wait for `posted` to change, and read by them only
// after they saw it change.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is used only while the caller is inside `Pool::run`.
unsafe impl Send for Shared {}

/// A pool of threads that run one job together.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    turn: Turn,
    /// Core of the caller, if threads are pinned.
    caller_core: Option<CoreId>,
    pinned_caller: Option<ThreadId>,
}

/// How many threads, where, and how they wait.
pub struct PoolOptions {
    pub threads: usize,
    pub spin: Duration,
    /// Cores for the threads, in order; empty when threads are not pinned.
    pub cores: Vec<CoreId>,
}

impl Pool {
    /// Starts the workers.
    ///
    /// # Errors
    /// [`EngineError::Memory`] if the system gives no more threads.
    pub fn start(options: &PoolOptions) -> Result<Self, EngineError> {
        let threads = options.threads.max(1);
        // Two pinned threads on one core would wait for each other's time slice at every barrier.
        let cores: &[CoreId] = if options.cores.len() >= threads { &options.cores } else { &[] };
        let shared = Arc::new(Shared {
            barrier: Barrier::new(threads),
            posted: Padded(AtomicU32::new(0)),
            job: UnsafeCell::new(None),
            stop: AtomicBool::new(false),
            sleeping: (1..threads).map(|_| Padded(AtomicBool::new(false))).collect(),
            spin: options.spin,
        });
        let mut pool = Self {
            shared,
            workers: Vec::with_capacity(threads - 1),
            turn: Turn::default(),
            caller_core: cores.first().copied(),
            pinned_caller: None,
        };
        for thread in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let core = cores.get(thread).copied();
            let builder = std::thread::Builder::new().name(format!("engine-{thread}"));
            let worker = builder.spawn(move || {
                if let Some(core) = core {
                    core_affinity::set_for_current(core);
                }
                work(&shared, thread);
            });
            pool.workers.push(worker.map_err(|error| EngineError::Memory {
                bytes: 0,
                purpose: format!("thread {thread} of the pool ({error})"),
                hint: "use fewer threads, or raise the limit (ulimit -u)".into(),
            })?);
        }
        Ok(pool)
    }

    /// Threads, the caller included.
    pub fn threads(&self) -> usize {
        self.shared.barrier.threads
    }

    /// Runs `job` on every thread, the caller being thread 0, and returns when all are done. Allocates nothing.
    pub fn run(&mut self, job: &Job<'_>) {
        self.pin_caller();
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes; the last barrier below keeps every use inside this call.
        let pointer: *const Job<'static> = unsafe { std::mem::transmute(pointer) };
        // SAFETY: all workers wait for `posted`; see `Sync`.
        unsafe { *self.shared.job.get() = Some(pointer) };
        self.post();
        job(0, &self.shared.barrier, &mut self.turn);
        self.shared.barrier.wait(0, &mut self.turn);
    }

    fn post(&self) {
        self.shared.posted.0.fetch_add(1, Ordering::Release);
        // Between our store and our look at `sleeping`, as in `wait_for_job` the other way round: one of the two
        // sides sees the other.
        fence(Ordering::SeqCst);
        for (worker, sleeping) in self.workers.iter().zip(&self.shared.sleeping) {
            if sleeping.0.load(Ordering::Relaxed) {
                worker.thread().unpark();
            }
        }
    }

    fn pin_caller(&mut self) {
        let Some(core) = self.caller_core else { return };
        let current = std::thread::current().id();
        if self.pinned_caller != Some(current) {
            core_affinity::set_for_current(core);
            self.pinned_caller = Some(current);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.post();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so on stderr already.
            let _ = worker.join();
        }
    }
}

fn work(shared: &Shared, thread: usize) {
    let mut turn = Turn::default();
    let mut seen = 0;
    loop {
        seen = wait_for_job(shared, thread, seen);
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the job was written before `posted` changed, and lives until the barrier below.
        if let Some(job) = unsafe { *shared.job.get() } {
            unsafe { (*job)(thread, &shared.barrier, &mut turn) };
        }
        shared.barrier.wait(thread, &mut turn);
    }
}

/// Watches `posted` for a while, then sleeps until it changes from `seen`.
fn wait_for_job(shared: &Shared, thread: usize, seen: u32) -> u32 {
    let posted = || shared.posted.0.load(Ordering::Acquire);
    let begin = Instant::now();
    let mut looks = 0u32;
    while posted() == seen {
        looks += 1;
        if looks.is_multiple_of(LOOKS_BETWEEN_CLOCKS) {
            if begin.elapsed() >= shared.spin {
                break;
            }
            if looks >= LOOKS_BEFORE_YIELD {
                std::thread::yield_now();
            }
        }
        std::hint::spin_loop();
    }
    if posted() == seen {
        let sleeping = &shared.sleeping[thread - 1].0;
        sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while posted() == seen {
            std::thread::park();
        }
        sleeping.store(false, Ordering::Relaxed);
    }
    posted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn pool(threads: usize, spin_microseconds: u64) -> Pool {
        let spin = Duration::from_micros(spin_microseconds);
        Pool::start(&PoolOptions { threads, spin, cores: Vec::new() }).unwrap()
    }

    #[test]
    fn no_thread_passes_a_barrier_before_all_have_reached_it() {
        for threads in [1, 2, 3, 5, 8] {
            let mut pool = pool(threads, 50);
            let counts: Vec<AtomicUsize> = (0..200).map(|_| AtomicUsize::new(0)).collect();
            let early = AtomicUsize::new(0);
            for _ in 0..3 {
                counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
                pool.run(&|thread, barrier, turn| {
                    for count in &counts {
                        count.fetch_add(1, Ordering::Relaxed);
                        barrier.wait(thread, turn);
                        if count.load(Ordering::Relaxed) != threads {
                            early.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            assert_eq!(early.into_inner(), 0, "{threads} threads");
        }
    }

    #[test]
    fn workers_wake_from_sleep_and_from_watching() {
        let mut pool = pool(3, 0);
        let runs = AtomicUsize::new(0);
        for i in 0..200 {
            if i % 50 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            pool.run(&|_, _, _| {
                runs.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(runs.load(Ordering::Relaxed), 3 * (i + 1));
        }
    }

    #[test]
    fn every_thread_gets_its_own_number() {
        let mut pool = pool(4, 10);
        let seen: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        pool.run(&|thread, _, _| {
            seen[thread].fetch_add(1, Ordering::Relaxed);
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
