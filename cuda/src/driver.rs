//! NVIDIA's driver interface, as much of it as is used here, behind types that cannot be used wrongly. The library is loaded
//! when a device is first opened, so that a program which was built with it starts where there is none.

#![allow(unsafe_code)] // the interface is C's

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};

use crate::DeviceError;

const LIBRARY: &CStr = c"libcuda.so.1";

/// `RTLD_NOW`: all of the library is resolved when it is loaded.
const RESOLVE_ALL: c_int = 2;

// The system's loader, which the standard library is linked with.
unsafe extern "C" {
    fn dlopen(library: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const SUCCESS: c_int = 0;
const ERROR_OUT_OF_MEMORY: c_int = 2;
const ERROR_NO_DEVICE: c_int = 100;
const ERROR_NO_BINARY_FOR_GPU: c_int = 209;

const ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: c_int = 76;

const MEMORY_TYPE_HOST: c_uint = 1;
const MEMORY_TYPE_DEVICE: c_uint = 2;

/// The release of the toolkit that compiled [`IMAGE`], as `13.5`.
const TOOLKIT: &str = env!("NVCC_RELEASE");

/// The kernels, compiled for every kind of device that the toolkit knows.
static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/products.fatbin")));

#[repr(align(16))]
struct Aligned<T: ?Sized>(T);

/// `CUdeviceptr`.
type DevicePointer = u64;
/// `CUcontext`, `CUmodule`, `CUfunction` and `CUstream`: pointers to what only the driver knows.
type Handle = *mut c_void;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Copy2D {
    from_x: usize,
    from_y: usize,
    from_type: c_uint,
    from_host: *const c_void,
    from_device: DevicePointer,
    from_array: Handle,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_type: c_uint,
    to_host: *mut c_void,
    to_device: DevicePointer,
    to_array: Handle,
    to_pitch: usize,
    width: usize,
    height: usize,
}

/// Declares the functions that are taken from the library, each by the name of its symbol.
macro_rules! functions {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: *mut c_void) -> Result<Self, DeviceError> {
                Ok(Self { $($name: {
                    let address = symbol(library, $symbol)?;
                    // SAFETY: the symbol is a function of the driver, and these are its types in NVIDIA's `cuda.h`.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(address) }
                },)* })
            }
        }
    };
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, DeviceError> {
    // SAFETY: the library is loaded, and stays so; the name ends by a zero.
    let address = unsafe { dlsym(library, name.as_ptr()) };
    if address.is_null() { Err(not_loaded()) } else { Ok(address) }
}

/// Why the loader's last call failed.
fn not_loaded() -> DeviceError {
    // SAFETY: it takes nothing, and may be called at any time.
    let text = unsafe { dlerror() };
    let text = match text.is_null() {
        true => c"the loader does not say why",
        // SAFETY: the loader keeps the text, which ends by a zero, until this thread calls it again.
        false => unsafe { CStr::from_ptr(text) },
    };
    DeviceError::NoDriver { message: text.to_string_lossy().into_owned() }
}

functions! {
    init: c"cuInit" (c_uint);
    driver_version: c"cuDriverGetVersion" (*mut c_int);
    device_count: c"cuDeviceGetCount" (*mut c_int);
    device_get: c"cuDeviceGet" (*mut c_int, c_int);
    device_name: c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_attribute: c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    context_retain: c"cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    context_release: c"cuDevicePrimaryCtxRelease_v2" (c_int);
    context_set: c"cuCtxSetCurrent" (Handle);
    memory_info: c"cuMemGetInfo_v2" (*mut usize, *mut usize);
    memory_allocate: c"cuMemAlloc_v2" (*mut DevicePointer, usize);
    memory_free: c"cuMemFree_v2" (DevicePointer);
    copy_2d: c"cuMemcpy2DUnaligned_v2" (*const Copy2D);
    module_load: c"cuModuleLoadData" (*mut Handle, *const c_void);
    module_function: c"cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch: c"cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    error_name: c"cuGetErrorName" (c_int, *mut *const c_char);
    error_text: c"cuGetErrorString" (c_int, *mut *const c_char);
}

impl Functions {
    /// Those of the driver, which is loaded once and stays.
    fn load() -> Result<&'static Self, DeviceError> {
        static DRIVER: OnceLock<Result<Functions, DeviceError>> = OnceLock::new();
        let load = || {
            // SAFETY: the name ends by a zero, and the initialisers of NVIDIA's library ask for nothing.
            let library = unsafe { dlopen(LIBRARY.as_ptr(), RESOLVE_ALL) };
            if library.is_null() { Err(not_loaded()) } else { Self::of(library) }
        };
        DRIVER.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        if code == SUCCESS {
            return Ok(());
        }
        let text = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = null();
            // SAFETY: `text` is a local of the type that the driver fills.
            if unsafe { function(code, &mut text) } != SUCCESS || text.is_null() {
                return "unknown".into();
            }
            // SAFETY: it is not null, and then a text that ends by a zero and that the driver never frees.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(DeviceError::Driver { call, code, name: text(self.error_name), message: text(self.error_text) })
    }
}

/// A device's primary context: what every allocation and every kernel belongs to.
pub(crate) struct Context {
    functions: &'static Functions,
    device: c_int,
    handle: Handle,
    pub(crate) name: String,
}

// SAFETY: the driver may be called from any thread that has made the context its own, which `enter` does before each use.
unsafe impl Send for Context {}
// SAFETY: as above, and the driver locks what threads share.
unsafe impl Sync for Context {}

impl Context {
    /// Of the device of this number, once the driver is known to be new enough.
    pub(crate) fn open(number: u32) -> Result<Arc<Self>, DeviceError> {
        let functions = Functions::load()?;
        let none = DeviceError::NoDevice { number, count: 0 };
        // SAFETY: it takes a number, and may be called at any time.
        match unsafe { (functions.init)(0) } {
            ERROR_NO_DEVICE => return Err(none),
            code => functions.check("cuInit", code)?,
        }
        let (mut version, mut count, mut device, mut handle) = (0, 0, 0, null_mut());
        // SAFETY: the pointer is to a local of the type that the driver fills, and the driver is initialised.
        functions.check("cuDriverGetVersion", unsafe { (functions.driver_version)(&mut version) })?;
        check_driver(version, TOOLKIT)?;
        // SAFETY: the pointer is to a local of the type that the driver fills, and the driver is initialised.
        functions.check("cuDeviceGetCount", unsafe { (functions.device_count)(&mut count) })?;
        let count = u32::try_from(count).unwrap_or(0);
        let ordinal = match c_int::try_from(number) {
            Ok(ordinal) if number < count => ordinal,
            _ => return Err(DeviceError::NoDevice { number, count }),
        };
        // SAFETY: as above, and there is a device of this number.
        functions.check("cuDeviceGet", unsafe { (functions.device_get)(&mut device, ordinal) })?;
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: the driver writes at most 255 of the array's 256 characters.
        functions.check("cuDeviceGetName", unsafe { (functions.device_name)(name.as_mut_ptr(), 255, device) })?;
        // SAFETY: the driver ends the name by a zero, as the last of the array is in any case.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        // SAFETY: the pointer is to a local of the type that the driver fills, and the driver has told of the device.
        functions.check("cuDevicePrimaryCtxRetain", unsafe { (functions.context_retain)(&mut handle, device) })?;
        Ok(Arc::new(Self { functions, device, handle, name }))
    }

    /// Makes the context that of the calling thread.
    fn enter(&self) -> Result<&'static Functions, DeviceError> {
        // SAFETY: the context is retained until it is dropped.
        self.functions.check("cuCtxSetCurrent", unsafe { (self.functions.context_set)(self.handle) })?;
        Ok(self.functions)
    }

    /// Bytes of the device's memory that are free now.
    pub(crate) fn free_memory(&self) -> Result<u64, DeviceError> {
        let (mut free, mut total) = (0, 0);
        let functions = self.enter()?;
        // SAFETY: the pointers are to locals of the type that the driver fills, and this thread has entered the context.
        functions.check("cuMemGetInfo", unsafe { (functions.memory_info)(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    /// Room for so many numbers, which hold anything at first.
    pub(crate) fn allocate(self: &Arc<Self>, numbers: usize) -> Result<Memory, DeviceError> {
        // The driver has no allocation of nothing.
        let bytes = numbers.max(1) * size_of::<f32>();
        let (functions, mut pointer) = (self.enter()?, 0);
        // SAFETY: as for `free_memory`; there are some bytes to allocate.
        match unsafe { (functions.memory_allocate)(&mut pointer, bytes) } {
            ERROR_OUT_OF_MEMORY => {
                Err(DeviceError::OutOfMemory { needed: bytes as u64, free: self.free_memory().unwrap_or(0) })
            }
            code => {
                functions.check("cuMemAlloc", code)?;
                Ok(Memory { context: self.clone(), pointer, numbers })
            }
        }
    }

    /// The module of this program's kernels.
    pub(crate) fn load_kernels(self: &Arc<Self>) -> Result<Module, DeviceError> {
        let (functions, mut handle) = (self.enter()?, null_mut());
        // SAFETY: the image is a whole one, aligned, and says itself how long it is; the handle is a local to be filled.
        match unsafe { (functions.module_load)(&mut handle, IMAGE.0.as_ptr().cast()) } {
            ERROR_NO_BINARY_FOR_GPU => Err(DeviceError::UnknownArchitecture {
                device: self.name.clone(),
                capability: self.capability()?,
                toolkit: TOOLKIT.into(),
            }),
            code => {
                functions.check("cuModuleLoadData", code)?;
                Ok(Module { context: self.clone(), handle })
            }
        }
    }

    fn capability(&self) -> Result<String, DeviceError> {
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: `value` is a local to be filled, and the driver has told of the device.
            let code = unsafe { (self.functions.device_attribute)(&mut value, attribute, self.device) };
            self.functions.check("cuDeviceGetAttribute", code).map(|()| value)
        };
        let major = attribute(ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        Ok(format!("{major}.{}", attribute(ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once, and nothing is left of it: memory and kernels hold the context. There is nobody to
        // tell of a failure.
        unsafe { (self.functions.context_release)(self.device) };
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Context")
            .field("device", &self.device)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A driver of some release runs what the toolkits of that major release and of those before it compiled. `version` is
/// 1000 times the major release and 10 times the minor one.
fn check_driver(version: c_int, toolkit: &str) -> Result<(), DeviceError> {
    let needed: c_int = toolkit.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if version / 1000 >= needed {
        return Ok(());
    }
    let driver = format!("{}.{}", version / 1000, version % 1000 / 10);
    Err(DeviceError::DriverTooOld { driver, toolkit: toolkit.into() })
}

/// Lines of a larger row-major matrix, by numbers of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where the first line begins.
    pub(crate) start: usize,
    /// From the beginning of a line to that of the next.
    pub(crate) stride: usize,
    pub(crate) lines: usize,
    pub(crate) width: usize,
}

impl Region {
    /// Of a matrix of its own.
    fn dense(self) -> Self {
        Self { start: 0, stride: self.width, ..self }
    }

    /// What a list must hold for the region to be in it.
    fn end(&self) -> usize {
        if self.lines == 0 { self.start } else { self.start + (self.lines - 1) * self.stride + self.width }
    }
}

/// Numbers in the device's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    context: Arc<Context>,
    pointer: DevicePointer,
    numbers: usize,
}

impl Memory {
    pub(crate) fn len(&self) -> usize {
        self.numbers
    }

    /// Copies a region of `host` to its beginning, line after line.
    pub(crate) fn copy_in(&mut self, host: &[f32], region: Region) -> Result<(), DeviceError> {
        let from = &host[region.start..region.end()];
        assert!(region.dense().end() <= self.numbers, "{region:?} does not fit into {} numbers", self.numbers);
        self.copy(Copy2D {
            from_type: MEMORY_TYPE_HOST,
            from_host: from.as_ptr().cast(),
            from_pitch: region.stride * size_of::<f32>(),
            to_type: MEMORY_TYPE_DEVICE,
            to_device: self.pointer,
            to_pitch: region.width * size_of::<f32>(),
            ..Copy2D::of(region)
        })
    }

    /// Copies what stands at its beginning, line after line, to a region of `host`.
    pub(crate) fn copy_out(&self, host: &mut [f32], region: Region) -> Result<(), DeviceError> {
        let to = &mut host[region.start..region.end()];
        assert!(region.dense().end() <= self.numbers, "{region:?} is more than {} numbers", self.numbers);
        self.copy(Copy2D {
            from_type: MEMORY_TYPE_DEVICE,
            from_device: self.pointer,
            from_pitch: region.width * size_of::<f32>(),
            to_type: MEMORY_TYPE_HOST,
            to_host: to.as_mut_ptr().cast(),
            to_pitch: region.stride * size_of::<f32>(),
            ..Copy2D::of(region)
        })
    }

    /// Both sides hold the lines that it names. The driver returns once the host's side is done with.
    fn copy(&self, copy: Copy2D) -> Result<(), DeviceError> {
        if copy.width == 0 || copy.height == 0 {
            return Ok(());
        }
        let functions = self.context.enter()?;
        // SAFETY: whoever calls this has checked that both sides hold the lines that are named, and they are borrowed until
        // the driver, which returns once the host's side is done with, has returned.
        functions.check("cuMemcpy2DUnaligned", unsafe { (functions.copy_2d)(&copy) })
    }
}

impl Copy2D {
    fn of(region: Region) -> Self {
        Self {
            from_x: 0,
            from_y: 0,
            from_type: 0,
            from_host: null(),
            from_device: 0,
            from_array: null_mut(),
            from_pitch: 0,
            to_x: 0,
            to_y: 0,
            to_type: 0,
            to_host: null_mut(),
            to_device: 0,
            to_array: null_mut(),
            to_pitch: 0,
            width: region.width * size_of::<f32>(),
            height: region.lines,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(functions) = self.context.enter() {
            // SAFETY: it was allocated in this context and is freed once, and what was launched over it comes before. Nobody
            // is there to be told.
            unsafe { (functions.memory_free)(self.pointer) };
        }
    }
}

/// This program's kernels, loaded.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: as for the context.
unsafe impl Send for Module {}
// SAFETY: as for the context.
unsafe impl Sync for Module {}

/// One of two factors on the device. Its lines are rows of the left one, or columns of the right one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor<'a> {
    pub(crate) memory: &'a Memory,
    /// Where it begins in the memory.
    pub(crate) start: usize,
    /// From the beginning of what is stored together to that of the next.
    pub(crate) stride: usize,
    /// A line is stored together; otherwise what has the same place in all lines is.
    pub(crate) along_depth: bool,
}

/// `Operand` of `products.cu`.
#[repr(C)]
struct Operand {
    numbers: DevicePointer,
    stride: usize,
    along_depth: c_uint,
}

impl Factor<'_> {
    /// As the kernel takes it, once all that it reads is known to be there.
    fn operand(&self, lines: usize, depth: usize) -> Operand {
        let (stored, width) = if self.along_depth { (lines, depth) } else { (depth, lines) };
        let region = Region { start: self.start, stride: self.stride, lines: stored, width };
        assert!(region.end() <= self.memory.numbers, "{region:?} is more than {} numbers", self.memory.numbers);
        Operand {
            numbers: self.memory.pointer + (self.start * size_of::<f32>()) as u64,
            stride: self.stride,
            along_depth: self.along_depth.into(),
        }
    }
}

/// How large a product is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) columns: usize,
}

impl Module {
    /// Writes `left · right` to the beginning of `product`, row after row, or adds it to what is there. It is done before
    /// what is asked of the device later.
    pub(crate) fn multiply(
        &self,
        kernel: crate::kernel::Kernel,
        (left, right): (Factor<'_>, Factor<'_>),
        extent: Extent,
        add: bool,
        product: &mut Memory,
    ) -> Result<(), DeviceError> {
        let Extent { rows, depth, columns } = extent;
        assert!(rows * columns <= product.numbers, "{extent:?} is more than {} numbers", product.numbers);
        let devices = [left.memory, right.memory, &*product].map(|memory| memory.context.device);
        assert_eq!(devices, [self.context.device; 3], "all of a product is on one device");
        let [mut left, mut right] = [left.operand(rows, depth), right.operand(columns, depth)];
        let (across, down) = kernel.grid(rows, columns);
        let mut sizes = [rows, depth, columns, across, down].map(|size| size as c_uint);
        assert!([rows, depth, columns].iter().all(|&size| size < 1 << 31), "{extent:?} is too large for one launch");
        let (mut pointer, mut add) = (product.pointer, c_uint::from(add));
        let [rows, depth, columns, across, down] = &mut sizes;
        let mut arguments: [*mut c_void; 7] = [
            (&raw mut left).cast(),
            (&raw mut right).cast(),
            (&raw mut pointer).cast(),
            (&raw mut *rows).cast(),
            (&raw mut *depth).cast(),
            (&raw mut *columns).cast(),
            (&raw mut add).cast(),
        ];
        let functions = self.context.enter()?;
        let function = self.function(functions, kernel.name)?;
        // SAFETY: the kernel reads and writes within what was asserted above; its arguments are of the types that it declares, and
        // the driver has copied them when it returns.
        let code = unsafe {
            (functions.launch)(
                function,
                *across,
                *down,
                1,
                kernel.threads,
                1,
                1,
                0,
                null_mut(),
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        functions.check("cuLaunchKernel", code)
    }

    fn function(&self, functions: &Functions, name: &CStr) -> Result<Handle, DeviceError> {
        let mut function = null_mut();
        // SAFETY: the module is loaded, the name ends by a zero, and `function` is a local to be filled.
        let code = unsafe { (functions.module_function)(&mut function, self.handle, name.as_ptr()) };
        functions.check("cuModuleGetFunction", code)?;
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_of_an_older_major_release_is_refused() {
        assert_eq!(check_driver(13000, "13.5"), Ok(()));
        assert_eq!(check_driver(13050, "12.4"), Ok(()));
        let error = check_driver(12080, "13.5").unwrap_err();
        assert_eq!(error, DeviceError::DriverTooOld { driver: "12.8".into(), toolkit: "13.5".into() });
    }

    #[test]
    fn a_region_ends_with_its_last_line() {
        let region = Region { start: 3, stride: 10, lines: 4, width: 2 };
        assert_eq!((region.end(), region.dense().end()), (35, 8));
        assert_eq!(Region { lines: 0, ..region }.end(), 3);
    }
}
