//! Times whole steps of kernel objects, several arms interleaved, with weights that are all distinct: so decode reads
//! memory as an engine does, and no arm profits from another's cache.
//!
//! step_timer THREADS ROWS REPEATS ARM…
//!
//! An arm is a file: one line for each group of the step, in order, tab-separated: label, object, widths of the inputs,
//! widths of the outputs, stored bytes of the weights (each a comma-separated list), bytes of a cache slot.
//! Printed for each arm: label, median and least nanoseconds of a step spent in groups of that label, packed bytes.

#[path = "../../kernels/cpu/abi.rs"]
mod abi;

use abi::{Cache, Call, MAX_BUFFERS, MAX_WEIGHTS, Step};
use std::alloc::{Layout, alloc};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(object: *mut c_void, name: *const c_char) -> *mut c_void;
    fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
}

type Run = unsafe extern "C" fn(*const Call, u32, u32);

struct Group {
    label: String,
    run: Run,
    phases: u32,
    call: Call,
    /// Of all its weights.
    packed_bytes: usize,
}

struct Arm {
    name: String,
    groups: Vec<Group>,
    /// For each step timed: nanoseconds of each group.
    samples: Vec<Vec<u64>>,
}

/// Memory that lives as long as the process, on 2 MiB pages where the system has them, as an engine's weights are: with
/// small pages an arm's time depended on where it stood in the list, by up to a quarter.
struct Memory {
    next: *mut u8,
    left: usize,
}

impl Memory {
    const PAGE_BYTES: usize = 2 << 20;
    const CHUNK_BYTES: usize = 64 << 20;
    /// `MADV_HUGEPAGE` of Linux.
    const HUGE_PAGES: c_int = 14;

    /// Zeroed bytes at a cache line's start.
    fn take(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.max(1).next_multiple_of(64);
        if bytes > self.left {
            self.left = bytes.max(Self::CHUNK_BYTES);
            let layout = Layout::from_size_align(self.left, Self::PAGE_BYTES).expect("a valid layout");
            // Advised before the first touch: the allocator takes so large a piece fresh from the system.
            self.next = unsafe { alloc(layout) };
            assert!(!self.next.is_null(), "no memory for {} bytes", self.left);
            unsafe {
                madvise(self.next.cast(), self.left, Self::HUGE_PAGES);
                self.next.write_bytes(0, self.left);
            }
        }
        let taken = self.next;
        self.next = taken.wrapping_add(bytes);
        self.left -= bytes;
        taken
    }
}

/// Bytes that are harmless as half floats, floats and integers.
fn fill(at: *mut u8, bytes: usize) {
    let mut state = 1u32;
    for i in 0..bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        unsafe { *at.add(i) = 0x20 | (state >> 27) as u8 & 0x1d }
    }
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(',').filter(|word| !word.is_empty()).map(|word| word.parse().expect("a number")).collect()
}

fn symbol<F: Copy>(object: *mut c_void, name: &str) -> F {
    let text = CString::new(name).expect("no zero byte");
    let found = unsafe { dlsym(object, text.as_ptr()) };
    assert!(!found.is_null(), "the object lacks {name}");
    unsafe { std::mem::transmute_copy(&found) }
}

/// Buffers are shared by the groups of an arm, as an engine's arena does: by place, width and direction.
type Buffers = std::collections::HashMap<(char, usize, usize), *mut u8>;

fn load_group(
    line: &str,
    step: *const Step,
    threads: u32,
    buffers: &mut Buffers,
    memory: &mut Memory,
) -> Group {
    let mut packed_bytes = 0;
    let rows = unsafe { (*step).rows } as usize;
    let fields: Vec<&str> = line.split('\t').collect();
    let path = CString::new(fields[1]).expect("no zero byte");
    let object = unsafe { dlopen(path.as_ptr(), 2) };
    assert!(!object.is_null(), "cannot load {}", fields[1]);
    let packed_size: extern "C" fn(u32) -> usize = symbol(object, "ew_packed_bytes");
    let pack: unsafe extern "C" fn(u32, *const u8, *mut u8) = symbol(object, "ew_pack");
    let scratch: extern "C" fn(u32, u32) -> usize = symbol(object, "ew_scratch");
    let phases: extern "C" fn() -> u32 = symbol(object, "ew_phases");
    let slot_bytes = numbers(fields[5])[0];
    let cache =
        Cache { keys: memory.take(slot_bytes), values: memory.take(slot_bytes), slot_bytes, capacity: 2048 };
    let mut call = Call {
        step,
        threads,
        inputs: [std::ptr::null(); MAX_BUFFERS],
        outputs: [std::ptr::null_mut(); MAX_BUFFERS],
        weights: [std::ptr::null(); MAX_WEIGHTS],
        cache,
        scratch: {
            let bytes = scratch(rows as u32, threads);
            *buffers.entry(('s', 0, bytes)).or_insert_with(|| memory.take(bytes))
        },
        ticket: memory.take(64).cast(),
    };
    for (i, width) in numbers(fields[2]).into_iter().enumerate() {
        let buffer =
            buffers.entry(('i', i, width)).or_insert_with(|| memory.take(rows * width * 4)).cast::<f32>();
        for j in 0..rows * width {
            unsafe { *buffer.add(j) = (j % 97) as f32 / 48.0 - 1.0 }
        }
        call.inputs[i] = buffer;
    }
    for (i, width) in numbers(fields[3]).into_iter().enumerate() {
        call.outputs[i] =
            buffers.entry(('o', i, width)).or_insert_with(|| memory.take(rows * width * 4)).cast();
    }
    for (i, bytes) in numbers(fields[4]).into_iter().enumerate() {
        let mut stored = vec![0u8; bytes];
        fill(stored.as_mut_ptr(), bytes);
        let size = packed_size(i as u32);
        packed_bytes += if size == 0 { bytes } else { size };
        let at = memory.take(if size == 0 { bytes } else { size });
        if size > 0 {
            unsafe { pack(i as u32, stored.as_ptr(), at) }
        } else {
            unsafe { at.copy_from_nonoverlapping(stored.as_ptr(), bytes) }
        }
        call.weights[i] = at;
    }
    Group { label: fields[0].into(), run: symbol(object, "ew_run"), phases: phases(), call, packed_bytes }
}

/// A barrier that spins, as the engine's pool does while it is busy.
fn wait(arrived: &AtomicUsize, threads: usize, turn: &mut usize) {
    *turn += threads;
    arrived.fetch_add(1, Ordering::AcqRel);
    while arrived.load(Ordering::Acquire) < *turn {
        std::hint::spin_loop();
    }
}

fn step_once(arm: &Arm, thread: u32, threads: usize, arrived: &AtomicUsize, turn: &mut usize) -> Vec<u64> {
    let mut times = Vec::with_capacity(arm.groups.len());
    for group in &arm.groups {
        let start = Instant::now();
        for phase in 0..group.phases {
            if thread == 0 {
                unsafe { (*group.call.ticket).store(0, Ordering::Release) }
            }
            wait(arrived, threads, turn);
            unsafe { (group.run)(&group.call, phase, thread) }
            wait(arrived, threads, turn);
        }
        times.push(start.elapsed().as_nanos() as u64);
    }
    times
}

struct Shared(*mut Vec<Arm>);
unsafe impl Sync for Shared {}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    assert!(arguments.len() > 4, "usage: step_timer THREADS ROWS REPEATS ARM…");
    let (threads, rows) =
        (arguments[1].parse::<u32>().expect("threads"), arguments[2].parse::<usize>().expect("rows"));
    let repeats: usize = arguments[3].parse().expect("repeats");
    let (ids, positions, slots) =
        (vec![0u32; rows], (0..rows as u32).map(|row| 64 + row).collect::<Vec<_>>(), vec![0u32; rows]);
    let (starts, selected) = ([0, rows as u32], (0..rows as u32).collect::<Vec<_>>());
    let step = Step {
        rows: rows as u32,
        segments: 1,
        selected: if rows > 8 { 1 } else { rows as u32 },
        token_ids: ids.as_ptr(),
        positions: positions.as_ptr(),
        slots: slots.as_ptr(),
        starts: starts.as_ptr(),
        selected_rows: selected.as_ptr(),
    };
    let mut arms: Vec<Arm> = Vec::new();
    for name in &arguments[4..] {
        let text = std::fs::read_to_string(name).expect("a readable arm");
        let (mut buffers, mut memory) = (Buffers::new(), Memory { next: std::ptr::null_mut(), left: 0 });
        let groups =
            text.lines().map(|line| load_group(line, &step, threads, &mut buffers, &mut memory)).collect();
        arms.push(Arm { name: name.clone(), groups, samples: Vec::new() });
    }
    let arrived = AtomicUsize::new(0);
    let shared = Shared(&mut arms);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (arrived, shared) = (&arrived, &shared);
            scope.spawn(move || {
                let mut turn = 0;
                let arms = unsafe { &mut *shared.0 };
                for repeat in 0..repeats + 2 {
                    for number in 0..arms.len() {
                        let times = step_once(&arms[number], thread, threads as usize, arrived, &mut turn);
                        if thread == 0 && repeat >= 2 {
                            arms[number].samples.push(times);
                        }
                    }
                }
            });
        }
    });
    for arm in &arms {
        report(arm);
    }
}

fn report(arm: &Arm) {
    let mut labels: Vec<&str> = Vec::new();
    for group in &arm.groups {
        if !labels.contains(&group.label.as_str()) {
            labels.push(&group.label);
        }
    }
    labels.push("all");
    for label in labels {
        let mut sums: Vec<u64> = arm
            .samples
            .iter()
            .map(|sample| {
                let chosen = sample
                    .iter()
                    .zip(&arm.groups)
                    .filter(|(_, group)| label == "all" || group.label == label);
                chosen.map(|(time, _)| time).sum()
            })
            .collect();
        sums.sort_unstable();
        let chosen = arm.groups.iter().filter(|group| label == "all" || group.label == label);
        let packed_bytes: usize = chosen.map(|group| group.packed_bytes).sum();
        println!("{}\t{label}\t{}\t{}\t{packed_bytes}", arm.name, sums[sums.len() / 2], sums[0]);
    }
}
