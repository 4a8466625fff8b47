//! y[r, n] = sum over k of x[r, k] * w[n, k] + b[n]; float32, the matrix in whatever type it is stored.
//!
//! Each thread owns a share of the outputs. It dequantises four rows of the matrix, then multiplies all rows of x with
//! them, so the matrix is decoded once a step. Every sum runs in the same lanes whatever the tile.
//!
//! ```toml
//! name = "naive_linear"
//! pattern = "linear"
//! matrices = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k"]
//! layout = "stored"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#[macro_use]
#[path = "abi.rs"]
mod abi;
#[path = "naive_half.rs"]
mod half;
#[path = "naive_rows.rs"]
mod rows;
#[path = "naive_stored.rs"]
mod stored;
#[path = "naive_sum.rs"]
mod sum;

use abi::{Call, share};
use stored::Stored;
use sum::{LANES, fold, multiply_add};

const IN: usize = constant!("EW_OP0_IN", 576);
const OUT: usize = constant!("EW_OP0_OUT", 576);
const HAS_BIAS: bool = constant!("EW_OP0_BIAS", 0) == 1;
const STORED: Stored = Stored::named(text_constant!("EW_OP0_DTYPE", "f32"));
/// Rows of the matrix that are decoded at a time.
const DECODED: usize = 4;
const DECODED_BYTES: usize = (DECODED * IN * size_of::<f32>()).next_multiple_of(64);

#[unsafe(no_mangle)]
pub extern "C" fn ew_scratch(_rows: u32, threads: u32) -> usize {
    threads as usize * DECODED_BYTES
}

/// # Safety
/// `call` holds what `abi.rs` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ew_run(call: *const Call, _phase: u32, thread: u32) {
    unsafe {
        let call = &*call;
        let (first, last) = share(OUT, DECODED, thread as usize, call.threads as usize);
        let scratch = call.scratch.add(thread as usize * DECODED_BYTES).cast::<f32>();
        let decoded = core::slice::from_raw_parts_mut(scratch, DECODED * IN);
        for output in (first..last).step_by(DECODED) {
            let count = DECODED.min(last - output);
            decode(call, output, &mut decoded[..count * IN]);
            if count == DECODED {
                multiply_all::<DECODED>(call, output, decoded);
            } else {
                for i in 0..count {
                    multiply_all::<1>(call, output + i, &decoded[i * IN..][..IN]);
                }
            }
        }
    }
}

unsafe fn decode(call: &Call, output: usize, decoded: &mut [f32]) {
    let bytes = STORED.row_bytes(IN);
    for (i, values) in decoded.chunks_exact_mut(IN).enumerate() {
        let row = unsafe { core::slice::from_raw_parts(call.weights[0].add((output + i) * bytes), bytes) };
        STORED.read(row, values);
    }
}

/// The products of all rows with `OUTS` decoded rows of the matrix, from output `output`.
unsafe fn multiply_all<const OUTS: usize>(call: &Call, output: usize, decoded: &[f32]) {
    unsafe {
        let rows = rows::rows(call);
        let pairs = rows / 2 * 2;
        for row in (0..pairs).step_by(2) {
            multiply::<OUTS, 2>(call, output, decoded, row);
        }
        if pairs < rows {
            multiply::<OUTS, 1>(call, output, decoded, pairs);
        }
    }
}

#[inline(always)]
unsafe fn multiply<const OUTS: usize, const ROWS: usize>(
    call: &Call,
    output: usize,
    decoded: &[f32],
    row: usize,
) {
    unsafe {
        let x: [&[f32]; ROWS] = core::array::from_fn(|r| rows::row(call.inputs[0], row + r, IN));
        let mut sums = [[[0.0; LANES]; OUTS]; ROWS];
        for start in (0..IN / LANES * LANES).step_by(LANES) {
            let x: [&[f32; LANES]; ROWS] = core::array::from_fn(|r| lanes(x[r], start));
            for (x, sums) in x.into_iter().zip(&mut sums) {
                for (n, sums) in sums.iter_mut().enumerate() {
                    let w = lanes(decoded, n * IN + start);
                    for lane in 0..LANES {
                        sums[lane] = multiply_add(x[lane], w[lane], sums[lane]);
                    }
                }
            }
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            for (n, sums) in sums.iter_mut().enumerate() {
                let rest = x[r].iter().zip(&decoded[n * IN..][..IN]).skip(IN / LANES * LANES);
                for (sum, (x, w)) in sums.iter_mut().zip(rest) {
                    *sum = multiply_add(*x, *w, *sum);
                }
                let mut product = fold(*sums);
                if HAS_BIAS {
                    product += *call.weights[1].cast::<f32>().add(output + n);
                }
                *call.outputs[0].add((row + r) * OUT + output + n) = product;
            }
        }
    }
}

#[inline(always)]
unsafe fn lanes(values: &[f32], start: usize) -> &[f32; LANES] {
    unsafe { &*values.as_ptr().add(start).cast() }
}
