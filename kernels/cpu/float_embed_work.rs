//! Rows of tables, added, and perhaps normalised. Tables of f32, f16, bf16 and q8_0 are read as stored.

use crate::abi::{self, Call};
use crate::constants::{ABSENT, MOST_OPS, find, float, word};
use crate::norms::{layer_norm, vectors};
use crate::vector::{Lanes, WIDTH as LANES};

const OPS: &str = text_constant!("EW_OPS", "embed");
const WIDTH: usize = constant!("EW_OP0_WIDTH", 576);
const TABLES: &str = text_constant!("EW_OP0_TABLES", "token");
const DTYPES: &str = text_constant!("EW_OP0_DTYPES", "f32");
const POSITION_OFFSET: usize = constant!("EW_OP0_POSITION_OFFSET", 0);
const EPSILONS: [Option<&str>; MOST_OPS] = texts!("EPSILON_BITS");
const EPSILON: f32 = float(EPSILONS, 1, 1e-12);

/// Values of a block of q8_0, and its bytes: a half float, then signed bytes.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 34;

const TABLE_COUNT: usize = {
    let mut count = 0;
    while !word(TABLES, count).is_empty() {
        count += 1;
    }
    count
};

pub unsafe fn rows(call: &Call) -> usize {
    unsafe { (*call.step).rows as usize }
}

pub unsafe fn run(call: &Call, row: usize) {
    unsafe {
        let out = call.outputs[0].add(row * WIDTH);
        let step = &*call.step;
        for table in 0..TABLE_COUNT {
            let name = word(TABLES, table);
            let number = if abi::same(name, "token") {
                *step.token_ids.add(row) as usize
            } else if abi::same(name, "position") {
                *step.positions.add(row) as usize + POSITION_OFFSET
            } else {
                0
            };
            let stored = call.weights[table];
            let dtype = word(DTYPES, table);
            vectors::<WIDTH>(|column, count| {
                let value = read(dtype, stored, number, column);
                let value =
                    if table == 0 { value } else { Lanes::load_first(out.add(column), count).plus(value) };
                value.store_first(out.add(column), count);
            });
        }
        if find(OPS, "layer_norm", 0) != ABSENT {
            let (weight, offset) = (call.weights[TABLE_COUNT], call.weights[TABLE_COUNT + 1]);
            layer_norm::<WIDTH>(out, weight.cast(), offset.cast(), EPSILON, out);
        }
    }
}

/// A vector of row `number` of a table, from column `column`.
#[inline(always)]
unsafe fn read(dtype: &str, table: *const u8, number: usize, column: usize) -> Lanes {
    let place = number * WIDTH + column;
    unsafe {
        if abi::same(dtype, "f16") {
            Lanes::load_half(table.cast::<u16>().add(place))
        } else if abi::same(dtype, "bf16") {
            Lanes::load_brain(table.cast::<u16>().add(place))
        } else if abi::same(dtype, "q8_0") {
            let block = table.add(place / BLOCK * BLOCK_BYTES);
            let scale = Lanes::splat_half(block.cast());
            Lanes::load_bytes(block.add(2 + place % BLOCK).cast()).times(scale)
        } else {
            Lanes::load(table.cast::<f32>().add(place))
        }
    }
}

const _: () = assert!(WIDTH.is_multiple_of(LANES), "rows of a table are whole vectors");
