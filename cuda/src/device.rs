use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::{Context, Extent, Factor, Memory, Module, Region};
use crate::kernel::{Kernel, Part, parts};
use crate::matrix::{Matrix, Numbers, height};
use crate::{DeviceError, WORKSPACE};

/// A device that multiplies.
#[derive(Debug)]
pub struct Device {
    context: Arc<Context>,
    kernels: Module,
    /// One product at a time goes through it.
    workspace: Mutex<Workspace>,
}

/// Where the parts of a product are while it is computed: [`WORKSPACE`] numbers each.
#[derive(Debug)]
struct Workspace {
    left: Memory,
    right: Memory,
    product: Memory,
}

/// A matrix that stays on a device.
#[derive(Debug)]
pub struct DeviceMatrix {
    memory: Memory,
    /// Numbers of a row.
    pub(crate) width: usize,
}

impl Device {
    /// The device of this number, counted from 0, with its workspace of [`WORKSPACE_BYTES`](crate::WORKSPACE_BYTES).
    pub fn open(number: u32) -> Result<Self, DeviceError> {
        let context = Context::open(number)?;
        let kernels = context.load_kernels()?;
        let room = || context.allocate(WORKSPACE);
        let workspace = Workspace { left: room()?, right: room()?, product: room()? };
        Ok(Self { context, kernels, workspace: Mutex::new(workspace) })
    }

    /// The device's own name.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Bytes of its memory that are free now.
    pub fn free_memory(&self) -> Result<u64, DeviceError> {
        self.context.free_memory()
    }

    /// Puts a row-major matrix with rows of `width` into the device's memory.
    pub fn upload(&self, numbers: &[f32], width: usize) -> Result<DeviceMatrix, DeviceError> {
        let mut memory = self.context.allocate(numbers.len())?;
        memory.copy_in(numbers, Region { start: 0, stride: width, lines: height(numbers.len(), width), width })?;
        Ok(DeviceMatrix { memory, width })
    }

    /// `product = left · right`, or that added to it, row-major. Each number is a chain of fused multiply-adds over the
    /// depth in order, begun at 0 or at what is there. The matrices must fit together.
    ///
    /// After an error `product` holds anything.
    pub fn multiply(
        &self,
        left: Matrix<'_>,
        right: Matrix<'_>,
        add: bool,
        product: &mut [f32],
    ) -> Result<(), DeviceError> {
        let (rows, depth, columns) = (left.rows(), left.columns(), right.columns());
        assert_eq!(depth, right.rows(), "the matrices of a product fit together");
        assert_eq!(product.len(), rows * columns, "the product is as large as its matrices say");
        if depth == 0 && !add {
            product.fill(0.0);
        }
        // What an earlier call left behind there is written over.
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let right_is_sent = matches!(right.numbers, Numbers::Sent(_));
        for part in parts(rows, depth, columns, right_is_sent) {
            let Part { rows, columns: across, depth: steps } = part;
            let place = Region {
                start: rows.start * columns + across.start,
                stride: columns,
                lines: rows.len(),
                width: across.len(),
            };
            let Workspace { left: left_room, right: right_room, product: sums } = &mut *workspace;
            if add && steps.start == 0 {
                sums.copy_in(product, place)?;
            }
            let extent = Extent { rows: rows.len(), depth: steps.len(), columns: across.len() };
            let factors = (
                factor(&left, left.region(rows, steps.clone()), left.along_rows(), left_room)?,
                factor(&right, right.region(steps.clone(), across), !right.along_rows(), right_room)?,
            );
            let kernel = Kernel::for_rows(extent.rows);
            self.kernels.multiply(kernel, factors, extent, add || steps.start > 0, sums)?;
            if steps.end == depth {
                sums.copy_out(product, place)?;
            }
        }
        Ok(())
    }
}

/// Part of a matrix on the device: sent to `room`, or where it is.
fn factor<'a>(
    matrix: &Matrix<'a>,
    region: Region,
    along_depth: bool,
    room: &'a mut Memory,
) -> Result<Factor<'a>, DeviceError> {
    match matrix.numbers {
        Numbers::Sent(numbers) => {
            room.copy_in(numbers, region)?;
            Ok(Factor { memory: room, start: 0, stride: region.width, along_depth })
        }
        Numbers::Resident(matrix) => {
            Ok(Factor { memory: &matrix.memory, start: region.start, stride: region.stride, along_depth })
        }
    }
}

impl DeviceMatrix {
    /// How many numbers it has.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }
}
