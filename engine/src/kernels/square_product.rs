use super::matmul::multiply;
use super::packed_matrix::PackedMatrix;
use crate::error::EngineError;
use crate::threads::thread_pool;

/// Prepares the product of two square matrices on so many threads, in the way in which models are multiplied. Each call
/// of what is returned carries it out: `2 * size³` floating-point operations.
pub fn square_product(size: usize, threads: usize) -> Result<impl FnMut(), EngineError> {
    let pool = thread_pool("fulgurite-product", threads)?;
    let (left, mut product) = (vec![1.0; size * size], vec![0.0; size * size]);
    let mut right = PackedMatrix::default();
    right.pack(&left, size, size);
    Ok(move || pool.install(|| multiply(&left, size, &right, &mut product)))
}
