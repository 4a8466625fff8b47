//! Rows of matrices in their stored type as float32: every type that graph.json may name. Blocks as GGUF defines them.
#![allow(dead_code)]

use crate::abi::same;
use crate::half::{from_brain, from_half};

/// A stored type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    F32,
    F16,
    Bf16,
    Q80,
    Q40,
    Q41,
    Q50,
    Q4K,
    Q6K,
}

impl Stored {
    /// The type that graph.json calls `name`.
    pub const fn named(name: &str) -> Self {
        const NAMES: [(&str, Stored); 9] = [
            ("f32", Stored::F32),
            ("f16", Stored::F16),
            ("bf16", Stored::Bf16),
            ("q8_0", Stored::Q80),
            ("q4_0", Stored::Q40),
            ("q4_1", Stored::Q41),
            ("q5_0", Stored::Q50),
            ("q4_k", Stored::Q4K),
            ("q6_k", Stored::Q6K),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if same(NAMES[i].0, name) {
                return NAMES[i].1;
            }
            i += 1;
        }
        panic!("unknown stored type")
    }

    /// Values in a block.
    pub const fn block_values(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q80 | Self::Q40 | Self::Q41 | Self::Q50 => 32,
            Self::Q4K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q80 => 34,
            Self::Q40 => 18,
            Self::Q41 => 20,
            Self::Q50 => 22,
            Self::Q4K => 144,
            Self::Q6K => 210,
        }
    }

    /// Bytes of a row of `width` values.
    pub const fn row_bytes(self, width: usize) -> usize {
        width / self.block_values() * self.block_bytes()
    }

    /// The values of a stored row.
    pub fn read(self, stored: &[u8], values: &mut [f32]) {
        match self {
            Self::F32 => read_each(stored, values, f32::from_le_bytes),
            Self::F16 => read_each(stored, values, |bytes| from_half(u16::from_le_bytes(bytes))),
            Self::Bf16 => read_each(stored, values, |bytes| from_brain(u16::from_le_bytes(bytes))),
            Self::Q80 => read_blocks(stored, values, read_q8_0),
            Self::Q40 => read_blocks(stored, values, read_q4_0),
            Self::Q41 => read_blocks(stored, values, read_q4_1),
            Self::Q50 => read_blocks(stored, values, read_q5_0),
            Self::Q4K => read_blocks(stored, values, read_q4_k),
            Self::Q6K => read_blocks(stored, values, read_q6_k),
        }
    }
}

fn read_each<const BYTES: usize>(stored: &[u8], values: &mut [f32], read: impl Fn([u8; BYTES]) -> f32) {
    for (value, bytes) in values.iter_mut().zip(stored.as_chunks::<BYTES>().0) {
        *value = read(*bytes);
    }
}

fn read_blocks<const BYTES: usize, const VALUES: usize>(
    stored: &[u8],
    values: &mut [f32],
    read: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    for (values, block) in values.as_chunks_mut::<VALUES>().0.iter_mut().zip(stored.as_chunks::<BYTES>().0) {
        read(block, values);
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    from_half(u16::from_le_bytes([block[at], block[at + 1]]))
}

fn read_q8_0(block: &[u8; 34], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (i, value) in values.iter_mut().enumerate() {
        *value = scale * f32::from(block[2 + i] as i8);
    }
}

fn read_q4_0(block: &[u8; 18], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for i in 0..16 {
        values[i] = scale * f32::from((block[2 + i] & 15) as i8 - 8);
        values[i + 16] = scale * f32::from((block[2 + i] >> 4) as i8 - 8);
    }
}

fn read_q4_1(block: &[u8; 20], values: &mut [f32; 32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    for i in 0..16 {
        values[i] = scale * f32::from(block[4 + i] & 15) + minimum;
        values[i + 16] = scale * f32::from(block[4 + i] >> 4) + minimum;
    }
}

fn read_q5_0(block: &[u8; 22], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for i in 0..16 {
        let low = u32::from(block[6 + i] & 15) | ((fifth >> i) & 1) << 4;
        let high = u32::from(block[6 + i] >> 4) | ((fifth >> (i + 16)) & 1) << 4;
        values[i] = scale * (low as i32 - 16) as f32;
        values[i + 16] = scale * (high as i32 - 16) as f32;
    }
}

/// Eight parts of 32 values, each with a scale and a minimum of six bits, packed into twelve bytes.
fn read_q4_k(block: &[u8; 144], values: &mut [f32; 256]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let six = &block[4..16];
    for part in 0..8 {
        let (factor, offset) = if part < 4 {
            (six[part] & 63, six[part + 4] & 63)
        } else {
            let packed = six[part + 4];
            (packed & 15 | (six[part - 4] >> 6) << 4, packed >> 4 | (six[part] >> 6) << 4)
        };
        let (factor, offset) = (scale * f32::from(factor), minimum * f32::from(offset));
        let nibbles = &block[16 + part / 2 * 32..][..32];
        for (value, byte) in values[part * 32..][..32].iter_mut().zip(nibbles) {
            let nibble = if part % 2 == 0 { byte & 15 } else { byte >> 4 };
            *value = factor * f32::from(nibble) - offset;
        }
    }
}

/// Sixteen parts of 16 values with a scale of eight bits; four bits in `low`, two in `high`.
fn read_q6_k(block: &[u8; 210], values: &mut [f32; 256]) {
    let scale = half_at(block, 208);
    for (i, value) in values.iter_mut().enumerate() {
        let (side, quarter, at) = (i / 128, i % 128 / 32, i % 32);
        let low = block[side * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15;
        let high = block[128 + side * 32 + at] >> (quarter * 2) & 3;
        let factor = scale * f32::from(block[192 + i / 16] as i8);
        *value = factor * f32::from((low | high << 4) as i8 - 32);
    }
}
