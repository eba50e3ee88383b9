//! Products on a device, bit for bit. Where there is none, each test says so and passes; `check.sh` lets the host stand in.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]
#![cfg(feature = "cuda")]

use std::sync::OnceLock;

use fulgurite_cuda::{Device, DeviceError, Matrix};

fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || match Device::open(0) {
        Ok(device) => {
            eprintln!("on {}", device.name());
            Some(device)
        }
        Err(error @ (DeviceError::NoDriver { .. } | DeviceError::NoDevice { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    DEVICE.get_or_init(open).as_ref()
}

/// Numbers of many magnitudes and both signs, zeros of both signs among them.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let number = |bits: u64| match bits % 16 {
        0 => 0.0,
        1 => -0.0,
        exponent => ((bits >> 40) as f32 / (1 << 23) as f32 - 1.0) * (exponent as f32 - 9.0).exp2(),
    };
    (0..count).map(|_| number(next())).collect()
}

fn transpose(matrix: &[f32], width: usize) -> Vec<f32> {
    let height = matrix.len() / width;
    (0..matrix.len()).map(|at| matrix[at % height * width + at / height]).collect()
}

/// What a product must be.
fn chains(left: &[f32], right: &[f32], depth: usize, columns: usize, mut product: Vec<f32>) -> Vec<f32> {
    for (at, sum) in product.iter_mut().enumerate() {
        let (row, column) = (at / columns, at % columns);
        for step in 0..depth {
            *sum = left[row * depth + step].mul_add(right[step * columns + column], *sum);
        }
    }
    product
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// In all four layouts, with the right matrix sent and resident, written and added.
fn check(device: &Device, rows: usize, depth: usize, columns: usize) {
    let (left, right) = (numbers(1, rows * depth), numbers(2, depth * columns));
    let (left_across, right_across) = (transpose(&left, depth), transpose(&right, columns));
    let kept = [device.upload(&right, columns).unwrap(), device.upload(&right_across, depth).unwrap()];
    let lefts = [Matrix::sent(&left, depth), Matrix::sent(&left_across, rows).transposed()];
    let rights = [
        Matrix::sent(&right, columns),
        Matrix::sent(&right_across, depth).transposed(),
        Matrix::resident(&kept[0]),
        Matrix::resident(&kept[1]).transposed(),
    ];
    for add in [false, true] {
        let before = numbers(3, rows * columns);
        let start = if add { before.clone() } else { vec![0.0; rows * columns] };
        let expected = bits(&chains(&left, &right, depth, columns, start));
        for (l, left) in lefts.into_iter().enumerate() {
            for (r, right) in rights.into_iter().enumerate() {
                let mut product = before.clone();
                device.multiply(left, right, add, &mut product).unwrap();
                assert!(bits(&product) == expected, "{rows} x {depth} x {columns}, left {l}, right {r}, add {add}");
            }
        }
    }
}

#[test]
fn every_number_is_one_chain_over_the_depth() {
    let Some(device) = device() else { return };
    for rows in [1, 16, 17, 33, 130] {
        for depth in [1, 15, 16, 33, 70] {
            for columns in [1, 63, 65, 129] {
                check(device, rows, depth, columns);
            }
        }
    }
}

#[test]
fn the_sizes_of_a_model() {
    let Some(device) = device() else { return };
    for (rows, depth, columns) in [(1, 1024, 640), (16, 1000, 300), (129, 300, 257), (257, 64, 384)] {
        check(device, rows, depth, columns);
    }
}

/// More columns than the workspace takes at once with the depth, so that sums go on from part to part.
#[test]
fn parts_change_no_bit() {
    let Some(device) = device() else { return };
    let (depth, columns) = (35, (1 << 20) + 1);
    let (left, right) = (numbers(4, depth), numbers(5, depth * columns));
    let mut product = numbers(6, columns);
    let expected = chains(&left, &right, depth, columns, product.clone());
    device.multiply(Matrix::sent(&left, depth), Matrix::sent(&right, columns), true, &mut product).unwrap();
    assert!(bits(&product) == bits(&expected));
}

#[test]
fn infinities_and_numbers_below_the_normal_ones_are_kept() {
    let Some(device) = device() else { return };
    let left = [1e-30, f32::INFINITY, f32::MIN_POSITIVE / 8.0, -0.0];
    let right = [1e-12, 2.0, 1.0, 0.0];
    let mut product = vec![0.0; 16];
    device.multiply(Matrix::sent(&left, 1), Matrix::sent(&right, 4), false, &mut product).unwrap();
    assert_eq!(bits(&product[..4]), bits(&chains(&left, &right, 1, 4, vec![0.0; 16])[..4]));
    assert!(product[0] > 0.0 && product[8] == f32::MIN_POSITIVE / 8.0 * 1e-12 && product[10].is_subnormal());
    assert!(product[4] == f32::INFINITY && product[7].is_nan());
}

#[test]
fn nothing_times_anything_is_nothing() {
    let Some(device) = device() else { return };
    let mut product = vec![7.0; 6];
    device.multiply(Matrix::sent(&[], 2).transposed(), Matrix::sent(&[], 3), true, &mut product).unwrap();
    assert_eq!(product, [7.0; 6]);
    device.multiply(Matrix::sent(&[], 2).transposed(), Matrix::sent(&[], 3), false, &mut product).unwrap();
    assert_eq!(product, [0.0; 6]);
    device.multiply(Matrix::sent(&[], 3), Matrix::sent(&[1.0; 6], 2), false, &mut []).unwrap();
}

#[test]
fn products_of_several_threads_do_not_mix() {
    let Some(device) = device() else { return };
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || check(device, 3 + thread, 40, 50));
        }
    });
}

#[test]
fn more_than_the_device_has_is_refused_with_the_bytes() {
    let Some(device) = device() else { return };
    let mut held = Vec::new();
    let block = vec![0.0; 1 << 24];
    let error = loop {
        // A device of many gigabytes is left alone.
        if held.len() == 128 {
            eprintln!("skipped: the device has room for more than {} MiB", held.len() * 64);
            return;
        }
        match device.upload(&block, 1 << 12) {
            Ok(matrix) => held.push(matrix),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, DeviceError::OutOfMemory { needed, free } if needed == 64 << 20 && free < needed),
        "{error}"
    );
}

#[test]
fn a_device_that_is_not_there_is_named() {
    if device().is_none() {
        return;
    }
    let error = Device::open(1000).unwrap_err();
    assert!(matches!(error, DeviceError::NoDevice { number: 1000, count: 1.. }), "{error}");
}
