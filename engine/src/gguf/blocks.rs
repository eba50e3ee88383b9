//! The element types of GGUF's tensors, and how their blocks become numbers. The order of operations is ggml's, so that numbers are
//! the same to the bit.

use half::{bf16, f16};
use safetensors::Dtype;

/// How a tensor's numbers are written. Types above 16 bits hold one number a block, the others 32 or 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BlockType {
    F32,
    F16,
    Bf16,
    /// A scale, and 4 bits a number around 8.
    Q4_0,
    /// A scale and a least value, and 4 bits a number.
    Q4_1,
    /// As `Q4_0`, with 5 bits around 16.
    Q5_0,
    /// As `Q4_1`, with 5 bits.
    Q5_1,
    /// A scale, and 8 bits with a sign a number.
    Q8_0,
    /// Eight scales and least values of 6 bits over two of 16, and 4 bits a number.
    Q4K,
    /// The same with 5 bits.
    Q5K,
    /// Sixteen scales of 8 bits over one of 16, and 6 bits a number around 32.
    Q6K,
}

impl BlockType {
    pub(super) const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// By its number in a file, or the name of one that is not read.
    pub(super) fn of_id(id: u32) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.id() == id).ok_or_else(|| unread(id))
    }

    /// Of numbers that are not quantised.
    pub(super) fn of_dtype(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            _ => Self::F32,
        }
    }

    /// Its number in a file.
    pub(super) fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::Bf16 => 30,
        }
    }

    /// As ggml names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Numbers of a block.
    pub(super) fn numbers(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 4 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 4 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q4K => 4 + 12 + 128,
            Self::Q5K => 4 + 12 + 32 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// The numbers of whole blocks.
    pub(super) fn decode(self, bytes: &[u8], numbers: &mut [f32]) {
        let blocks = bytes.chunks_exact(self.bytes()).zip(numbers.chunks_exact_mut(self.numbers()));
        let decode: fn(&[u8], &mut [f32]) = match self {
            Self::F32 => |block, out| out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
            Self::F16 => |block, out| out[0] = half_at(block, 0),
            Self::Bf16 => |block, out| out[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32(),
            Self::Q4_0 => q4_0,
            Self::Q4_1 => q4_1,
            Self::Q5_0 => q5_0,
            Self::Q5_1 => q5_1,
            Self::Q8_0 => q8_0,
            Self::Q4K => q4_k,
            Self::Q5K => q5_k,
            Self::Q6K => q6_k,
        };
        blocks.for_each(|(block, out)| decode(block, out));
    }
}

/// What a number says that stands for no type which is read.
fn unread(id: u32) -> String {
    let name = match id {
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24..=27 => "whole numbers",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("type {id}"),
    };
    format!("type {id} ({name})")
}

fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

fn q4_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (at, byte) in block[2..].iter().enumerate() {
        out[at] = (f32::from(byte & 15) - 8.0) * scale;
        out[at + 16] = (f32::from(byte >> 4) - 8.0) * scale;
    }
}

fn q4_1(block: &[u8], out: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (at, byte) in block[4..].iter().enumerate() {
        out[at] = f32::from(byte & 15) * scale + least;
        out[at + 16] = f32::from(byte >> 4) * scale + least;
    }
}

/// The 5 bits of number `at` of a block of 32: four of `low`, and one of the 32 before them.
fn five_bits(high: &[u8], low: &[u8], at: usize) -> f32 {
    let four = if at < 16 { low[at] & 15 } else { low[at - 16] >> 4 };
    f32::from(four | ((high[at / 8] >> (at % 8)) & 1) << 4)
}

fn q5_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    for (at, number) in out.iter_mut().enumerate() {
        *number = (five_bits(&block[2..6], &block[6..], at) - 16.0) * scale;
    }
}

fn q5_1(block: &[u8], out: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (at, number) in out.iter_mut().enumerate() {
        *number = five_bits(&block[4..8], &block[8..], at) * scale + least;
    }
}

fn q8_0(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 0);
    out.iter_mut().zip(&block[2..]).for_each(|(number, byte)| *number = f32::from(byte.cast_signed()) * scale);
}

/// Scale and least value of group `at` of the eight of a block: 6 bits each, packed into twelve bytes.
fn scale_and_least(packed: &[u8], at: usize) -> (f32, f32) {
    let (scale, least) = if at < 4 {
        (packed[at] & 63, packed[at + 4] & 63)
    } else {
        (packed[at + 4] & 15 | packed[at - 4] >> 6 << 4, packed[at + 4] >> 4 | packed[at] >> 6 << 4)
    };
    (f32::from(scale), f32::from(least))
}

/// Of 256 numbers in eight groups of 32: two groups share 32 bytes, the first their lower halves. `fifth` adds a bit.
fn grouped(block: &[u8], low: &[u8], fifth: impl Fn(usize, usize) -> u8, out: &mut [f32]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (group, numbers) in out.chunks_exact_mut(32).enumerate() {
        let (own_scale, own_least) = scale_and_least(&block[4..16], group);
        let (scale, least) = (scale * own_scale, least * own_least);
        for (at, number) in numbers.iter_mut().enumerate() {
            let byte = low[group / 2 * 32 + at];
            let four = if group % 2 == 0 { byte & 15 } else { byte >> 4 };
            *number = scale * f32::from(four | fifth(group, at) << 4) - least;
        }
    }
}

fn q4_k(block: &[u8], out: &mut [f32]) {
    grouped(block, &block[16..], |_, _| 0, out);
}

fn q5_k(block: &[u8], out: &mut [f32]) {
    grouped(block, &block[48..], |group, at| block[16 + at] >> group & 1, out);
}

fn q6_k(block: &[u8], out: &mut [f32]) {
    let scale = half_at(block, 208);
    for (at, number) in out.iter_mut().enumerate() {
        // Of 128 numbers, those of the first 64 have the lower halves of 64 bytes; four share a byte of higher bits.
        let (part, within) = (at / 128, at % 128);
        let byte = block[part * 64 + within % 64];
        let four = if within < 64 { byte & 15 } else { byte >> 4 };
        let two = block[128 + part * 32 + within % 32] >> (within / 32 * 2) & 3;
        let own_scale = f32::from(block[192 + at / 16].cast_signed());
        *number = scale * own_scale * (f32::from(four | two << 4) - 32.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn bytes(hex: &Value) -> Vec<u8> {
        let hex = hex.as_str().unwrap();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// `tests/vectors/gguf/make_gguf.py` made them.
    #[test]
    fn blocks_of_every_type_become_the_numbers_of_the_gguf_package_to_the_bit() {
        let vectors: Value = serde_json::from_str(include_str!("../../tests/vectors/gguf/blocks.json")).unwrap();
        for kind in BlockType::ALL {
            if kind == BlockType::F32 {
                continue;
            }
            let (blocks, expected) = (bytes(&vectors[kind.name()]["blocks"]), bytes(&vectors[kind.name()]["numbers"]));
            assert_eq!(blocks.len(), 3 * kind.bytes(), "{kind:?}");
            let mut numbers = vec![0.0; 3 * kind.numbers()];
            kind.decode(&blocks, &mut numbers);
            let found: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(found, expected, "{kind:?}");
        }
        let mut numbers = [0.0; 2];
        BlockType::F32.decode(&[1.5_f32.to_le_bytes(), (-0.0_f32).to_le_bytes()].concat(), &mut numbers);
        assert_eq!(numbers.map(f32::to_bits), [1.5, -0.0].map(f32::to_bits));
    }

    #[test]
    fn a_type_that_is_not_read_is_named() {
        assert_eq!(BlockType::of_id(10), Err("type 10 (Q2_K)".to_owned()));
        assert_eq!(BlockType::of_id(4), Err("type 4".to_owned()));
        assert!(BlockType::ALL.into_iter().all(|kind| BlockType::of_id(kind.id()) == Ok(kind)));
    }
}
