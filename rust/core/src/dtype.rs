//! Stored element types and their sizes.

use serde::Deserialize;

/// How a weight is stored. Blocks as GGUF stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    F32,
    F16,
    Bf16,
    #[serde(rename = "q8_0")]
    Q8_0,
    #[serde(rename = "q4_0")]
    Q4_0,
    #[serde(rename = "q4_1")]
    Q4_1,
    #[serde(rename = "q5_0")]
    Q5_0,
    #[serde(rename = "q4_k")]
    Q4K,
    #[serde(rename = "q6_k")]
    Q6K,
}

impl Dtype {
    /// Values in one block; 1 for plain floats.
    pub const fn block_values(self) -> u64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 => 32,
            Self::Q4K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q4K => 144,
            Self::Q6K => 210,
        }
    }

    /// Whether elements are plain floats that a kernel may load with vector instructions.
    pub const fn is_float(self) -> bool {
        self.block_values() == 1
    }

    /// The values of stored bytes as float32; `None` for quantised types.
    pub fn widened(self, stored: &[u8]) -> Option<Vec<f32>> {
        let halves = |read: fn(u16) -> f32| {
            stored.as_chunks().0.iter().map(|&bytes| read(u16::from_le_bytes(bytes))).collect()
        };
        match self {
            Self::F32 => Some(stored.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()),
            Self::F16 => Some(halves(|bits| half::f16::from_bits(bits).to_f32())),
            Self::Bf16 => Some(halves(|bits| half::bf16::from_bits(bits).to_f32())),
            _ => None,
        }
    }

    /// Bytes of a row-major tensor of this type, or `None` if rows are not whole blocks or the size overflows.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(self.block_values()) {
            return None;
        }
        let values = shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size))?;
        (values / self.block_values()).checked_mul(self.block_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_q4_1_matrix_takes_twenty_bytes_for_each_thirty_two_values() {
        assert_eq!(Dtype::Q4_1.tensor_bytes(&[576, 576]), Some(207_360));
    }

    #[test]
    fn rows_that_are_not_whole_blocks_have_no_size() {
        assert_eq!(Dtype::Q8_0.tensor_bytes(&[64, 33]), None);
        assert_eq!(Dtype::Q6K.tensor_bytes(&[2, 128]), None);
    }

    #[test]
    fn plain_floats_widen_and_blocks_do_not() {
        let half = [0x00, 0x3c, 0x00, 0xc1];
        assert_eq!(Dtype::F16.widened(&half), Some(vec![1.0, -2.5]));
        assert_eq!(Dtype::Bf16.widened(&[0x80, 0x3f, 0x20, 0xc0]), Some(vec![1.0, -2.5]));
        assert_eq!(Dtype::F32.widened(&1.5f32.to_le_bytes()), Some(vec![1.5]));
        assert_eq!(Dtype::Q8_0.widened(&[0; 34]), None);
    }

    #[test]
    fn a_size_that_overflows_is_not_a_size() {
        assert_eq!(Dtype::F32.tensor_bytes(&[u64::MAX, 2]), None);
    }
}
