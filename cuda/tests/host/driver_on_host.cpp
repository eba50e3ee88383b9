// Stands in for NVIDIA's driver where there is no device: the part of its interface that is used here, checked against the
// toolkit's cuda.h, over the host's memory, with the kernels run as cuda_on_host.h does. From launch to launch a block's
// threads take turns in the other order. CUDA_ON_HOST_MEMORY says how many bytes the device has (4 GiB if it does not), and
// CUDA_ON_HOST_LAUNCHES after how many launches it fails.
#include "cuda_on_host.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

// Its vector types are those of the shim.
#include <cuda.h>

#include "../../src/products.cu"

static std::mutex guard;
static std::map<CUdeviceptr, size_t> allocations;

static size_t setting(const char* name, size_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

static size_t total_memory() { return setting("CUDA_ON_HOST_MEMORY", size_t(4) << 30); }

static size_t free_memory() {
    size_t taken = 0;
    for (const auto& allocation : allocations) taken += allocation.second;
    return total_memory() - taken;
}

extern "C" {

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int* version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
    *device = number;
    return number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
    std::snprintf(name, length, "the host, in place of a device");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = 9;
    else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = 0;
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static int context;

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice) {
    *handle = reinterpret_cast<CUcontext>(&context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

static thread_local CUcontext current;

CUresult cuCtxSetCurrent(CUcontext handle) {
    current = handle;
    return handle == reinterpret_cast<CUcontext>(&context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
    const std::lock_guard<std::mutex> lock(guard);
    *free = free_memory();
    *total = total_memory();
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
    const std::lock_guard<std::mutex> lock(guard);
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes > free_memory()) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    allocations[*pointer] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
    const std::lock_guard<std::mutex> lock(guard);
    if (allocations.erase(pointer) == 0) return CUDA_ERROR_INVALID_VALUE;
    std::free(reinterpret_cast<void*>(pointer));
    return CUDA_SUCCESS;
}

// What a copy touches of the device must be within one allocation.
static bool allocated(CUdeviceptr pointer, size_t bytes) {
    auto next = allocations.upper_bound(pointer);
    if (next == allocations.begin()) return false;
    const auto& allocation = *--next;
    return pointer + bytes <= allocation.first + allocation.second;
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
    const std::lock_guard<std::mutex> lock(guard);
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    const bool in = copy->srcMemoryType == CU_MEMORYTYPE_HOST && copy->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    const bool out = copy->srcMemoryType == CU_MEMORYTYPE_DEVICE && copy->dstMemoryType == CU_MEMORYTYPE_HOST;
    if (in == out || copy->srcXInBytes || copy->srcY || copy->dstXInBytes || copy->dstY) return CUDA_ERROR_INVALID_VALUE;
    if (copy->WidthInBytes > copy->srcPitch || copy->WidthInBytes > copy->dstPitch) return CUDA_ERROR_INVALID_VALUE;
    const auto on_device = in ? copy->dstDevice : copy->srcDevice;
    const auto pitch = in ? copy->dstPitch : copy->srcPitch;
    if (!allocated(on_device, (copy->Height - 1) * pitch + copy->WidthInBytes)) return CUDA_ERROR_INVALID_VALUE;
    const char* from = in ? static_cast<const char*>(copy->srcHost) : reinterpret_cast<const char*>(copy->srcDevice);
    char* to = in ? reinterpret_cast<char*>(copy->dstDevice) : static_cast<char*>(copy->dstHost);
    for (size_t line = 0; line < copy->Height; ++line) {
        std::memcpy(to + line * copy->dstPitch, from + line * copy->srcPitch, copy->WidthInBytes);
    }
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    // How an image for several kinds of devices begins.
    if (*static_cast<const unsigned*>(image) != 0xba55ed50) return CUDA_ERROR_INVALID_IMAGE;
    *module = reinterpret_cast<CUmodule>(&context);
    return CUDA_SUCCESS;
}

using Function = void (*)(Operand, Operand, float*, unsigned, unsigned, unsigned, unsigned);

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
    Function found = nullptr;
    if (!std::strcmp(name, "multiply_large")) found = multiply_large;
    if (!std::strcmp(name, "multiply_flat")) found = multiply_flat;
    *function = reinterpret_cast<CUfunction>(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static Function function;
static void** arguments;

static void call() {
    function(*static_cast<Operand*>(arguments[0]), *static_cast<Operand*>(arguments[1]),
             *static_cast<float**>(arguments[2]), *static_cast<unsigned*>(arguments[3]),
             *static_cast<unsigned*>(arguments[4]), *static_cast<unsigned*>(arguments[5]),
             *static_cast<unsigned*>(arguments[6]));
}

CUresult cuLaunchKernel(CUfunction handle, unsigned across, unsigned down, unsigned deep, unsigned x, unsigned y,
                        unsigned z, unsigned shared, CUstream stream, void** given, void** extra) {
    const std::lock_guard<std::mutex> lock(guard);
    static bool backwards;
    static size_t launches;
    if (++launches > setting("CUDA_ON_HOST_LAUNCHES", SIZE_MAX)) return CUDA_ERROR_LAUNCH_FAILED;
    function = reinterpret_cast<Function>(handle);
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    const unsigned threads = function == multiply_large ? Large::THREADS : Flat::THREADS;
    if (!across || !down || down > 65535 || deep != 1 || x != threads || y != 1 || z != 1) return CUDA_ERROR_INVALID_VALUE;
    if (shared || stream || extra) return CUDA_ERROR_INVALID_VALUE;
    backwards = !backwards;
    arguments = given;
    body = call;
    for (blockIdx.y = 0; blockIdx.y < down; ++blockIdx.y) {
        for (blockIdx.x = 0; blockIdx.x < across; ++blockIdx.x) run_block(x, backwards);
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
    static thread_local std::string name;
    name = "error " + std::to_string(error);
    *text = name.c_str();
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
    *text = "the host has no more to say";
    return CUDA_SUCCESS;
}
}
