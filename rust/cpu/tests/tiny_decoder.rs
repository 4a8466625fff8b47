//! The executor on a decoder of one layer: right answers, row invariance, and refusals.

mod tiny;

use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Executor, StepKind};
use enginewright_cpu::KernelSource;
use std::process::Command;
use tiny::{Folder, VOCABULARY, WIDTH, kernels, load, run};

const IDS: [u32; 11] = [3, 1, 4, 1, 5, 9, 2, 6, 15, 0, 3];

/// Logits of every position, computed without the executor.
fn expected(ids: &[u32]) -> Vec<f64> {
    let (table, head) = (tiny::table(), tiny::matrix_values());
    let x = |position: usize, i: usize| f64::from(table[ids[position] as usize * WIDTH + i]);
    let mut logits = Vec::new();
    for position in 0..ids.len() {
        let score = |seen: usize| (0..WIDTH).map(|i| x(position, i) * x(seen, i)).sum::<f64>() * 0.5;
        let weights: Vec<f64> = (0..=position).map(|seen| score(seen).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mixed =
            |i: usize| weights.iter().enumerate().map(|(seen, w)| w * x(seen, i)).sum::<f64>() / total;
        for token in 0..VOCABULARY {
            logits.push((0..WIDTH).map(|i| mixed(i) * f64::from(head[token * WIDTH + i])).sum());
        }
    }
    logits
}

#[test]
fn logits_are_what_a_plain_computation_gives() {
    let mut executor = load(&kernels(), |plan| plan, 2).unwrap();
    let found = run(&mut executor, StepKind::Prefill, 1, 0, &IDS);
    let wanted = expected(&IDS);
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "{found} is not {wanted}");
    }
}

#[test]
fn threads_chunks_slots_and_steps_give_the_same_bytes() {
    let whole = run(&mut load(&kernels(), |plan| plan, 1).unwrap(), StepKind::Prefill, 0, 0, &IDS);
    for threads in [1, 2, 3, 5] {
        let mut executor = load(&kernels(), |plan| plan, threads).unwrap();
        for chunk in [1, 3, 11] {
            let mut parts = Vec::new();
            for (number, ids) in IDS.chunks(chunk).enumerate() {
                parts.extend(run(&mut executor, StepKind::Prefill, 2, number * chunk, ids));
            }
            assert_eq!(parts, whole, "{threads} threads, chunks of {chunk}");
        }
        let mut tokens = Vec::new();
        for (position, id) in IDS.iter().enumerate() {
            tokens.extend(run(&mut executor, StepKind::Decode, 0, position, &[*id]));
        }
        assert_eq!(tokens, whole, "{threads} threads, token by token");
    }
}

#[test]
fn a_step_that_selects_nothing_fills_the_cache_and_returns_nothing() {
    let mut executor = load(&kernels(), |plan| plan, 2).unwrap();
    let positions: Vec<u32> = (0..10).collect();
    let batch = Batch {
        kind: StepKind::Prefill,
        token_ids: &IDS[..10],
        positions: &positions,
        slots: &[0; 10],
        starts: &[0, 10],
        selected_rows: &[],
    };
    assert!(executor.step(&batch).unwrap().is_empty());
    let last = run(&mut executor, StepKind::Decode, 0, 10, &IDS[10..]);
    let whole = run(&mut load(&kernels(), |plan| plan, 2).unwrap(), StepKind::Prefill, 0, 0, &IDS);
    assert_eq!(last, whole[10 * VOCABULARY..]);
}

#[test]
fn a_refused_batch_leaves_the_engine_as_it_was() {
    let mut executor = load(&kernels(), |plan| plan, 2).unwrap();
    let before = run(&mut executor, StepKind::Prefill, 0, 0, &IDS);
    let batch = Batch {
        kind: StepKind::Encode,
        token_ids: &[1],
        positions: &[0],
        slots: &[0],
        starts: &[0, 1],
        selected_rows: &[],
    };
    assert!(matches!(executor.step(&batch), Err(EngineError::Batch { .. })));
    let batch = Batch { kind: StepKind::Decode, token_ids: &[16], ..batch };
    assert!(matches!(executor.step(&batch), Err(EngineError::Batch { .. })));
    assert_eq!(run(&mut executor, StepKind::Prefill, 0, 0, &IDS), before);
}

fn refusal(result: Result<enginewright_cpu::CpuExecutor, EngineError>) -> String {
    result.err().expect("the engine should be refused").to_string()
}

#[test]
fn kernels_that_do_not_fit_the_plan_are_refused_by_name() {
    let without_head = &kernels()[..2];
    let error = refusal(load(without_head, |plan| plan, 1));
    assert!(error.contains("head") && error.contains("not linked"), "{error}");

    extern "C" fn other_version() -> u32 {
        99
    }
    let mut others = kernels();
    others[1].1.abi = other_version;
    let error = refusal(load(&others, |plan| plan, 1));
    assert!(error.contains("attend") && error.contains("version 99"), "{error}");

    let error = refusal(load(&kernels(), |plan| plan.replace("transposed", "stored"), 1));
    assert!(error.contains("layout `stored`") && error.contains("512 packed bytes"), "{error}");

    let error = refusal(load(&kernels(), |plan| plan.replace(r#", "object": "embed""#, ""), 1));
    assert!(error.contains("never built"), "{error}");
}

#[test]
fn a_processor_without_the_features_is_refused_before_any_kernel_is_loaded() {
    let error =
        refusal(load(&[], |plan| plan.replace(r#""requires": []"#, r#""requires": ["telepathy"]"#), 1));
    assert!(error.contains("lacks telepathy"), "{error}");
}

#[test]
fn impossible_sizes_are_refused_and_not_allocated() {
    let huge = |plan: String| plan.replace(r#""rows": 16"#, r#""rows": 99999999999"#);
    assert!(refusal(load(&kernels(), huge, 1)).contains("steps.prefill.rows"));
    let slots = |plan: String| plan.replace(r#""slots": 3"#, r#""slots": 0"#);
    assert!(refusal(load(&kernels(), slots, 1)).contains("cache.slots"));
}

#[test]
fn objects_that_are_no_kernels_end_in_an_error() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("text.so"), "not a library").unwrap();
    let source = folder.0.join("half.rs");
    std::fs::write(&source, "#[unsafe(no_mangle)] pub extern \"C\" fn ew_abi() -> u32 { 1 }").unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
        .args([folder.0.join("half.so"), source])
        .status()
        .unwrap();
    assert!(status.success());
    let load =
        |object: &str| KernelSource::Folder(&folder.0).load(object, "kernel").err().unwrap().to_string();
    assert!(load("text").contains("cannot load"));
    assert!(load("missing").contains("cannot load"));
    assert!(load("half").contains("lacks `ew_phases`"));
}
