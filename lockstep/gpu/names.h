// SPDX-License-Identifier: Apache-2.0
#pragma once

// All names that differ between CUDA and ROCm. The sources beside this header are the same for both.
//
// ROCm's LibTorch presents its devices as CUDA's. In its headers c10::kCUDA, the dispatch keys, c10d::ProcessGroupNCCL
// and at::cuda::CUDAGraph keep their names, in folders named hip. From 2.11 on, so do the classes of c10. Before, they
// were renamed. Source: torch/utils/hipify/cuda_to_hip_mappings.py of PyTorch 2.7 and 2.11; pull requests 137157 and
// 174087 there; HIP's runtime API reference for the functions and their errors.

#include <cstddef>
#include <cstdint>
#include <string>

#if defined(USE_ROCM)
#include <ATen/hip/HIPGraph.h>
#include <c10/hip/HIPCachingAllocator.h>
#include <hip/hip_runtime.h>
#include <roctracer/roctx.h>
#else
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#endif

#include "lockstep/device/device_fault.h"
#include "lockstep/device/uuid_text.h"
#include "lockstep/device/version_text.h"

namespace lockstep::gpu {

#if defined(USE_ROCM)

#if LOCKSTEP_TORCH_VERSION >= 211
namespace allocator = c10::cuda::CUDACachingAllocator;
#else
namespace allocator = c10::hip::HIPCachingAllocator;
#endif

using Status = hipError_t;
using Properties = hipDeviceProp_t;
inline constexpr Status kSuccess = hipSuccess;
inline constexpr Status kNoDevice = hipErrorNoDevice;
inline constexpr auto kCaptureOfThisThread = hipStreamCaptureModeThreadLocal;
inline constexpr const char* kRuntime = "ROCm";
inline constexpr const char* kCollectives = "RCCL";
inline constexpr const char* kCollectivesLibrary = "librccl.so.1";

inline Status count_devices(int* count) { return hipGetDeviceCount(count); }
inline Status properties_of(Properties* properties, int index) { return hipGetDeviceProperties(properties, index); }
inline Status driver_version(int* version) { return hipDriverGetVersion(version); }
inline Status runtime_version(int* version) { return hipRuntimeGetVersion(version); }
inline Status choose_device(int index) { return hipSetDevice(index); }
inline Status free_and_total(std::size_t* free, std::size_t* total) { return hipMemGetInfo(free, total); }
inline Status await_device() { return hipDeviceSynchronize(); }
inline void forget_error() { (void)hipGetLastError(); }
inline std::string words_of(Status status) { return hipGetErrorString(status); }
inline void push_range(const char* name) { roctxRangePushA(name); }
inline void pop_range() { roctxRangePop(); }

/// "gfx90a" of "gfx90a:sramecc+:xnack-".
inline std::string architecture_of(const Properties& properties) {
  const std::string name = properties.gcnArchName;
  return name.substr(0, name.find(':'));
}
inline std::string version_text(int version) { return hip_version_text(version); }
/// Returns a device's unique id in the form that ROCR_VISIBLE_DEVICES uses. Its sixteen digits are the bytes of the
/// UUID field.
inline std::string uuid_of(const Properties& properties) {
  return "GPU-" + std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes));
}

inline DeviceFault fault_of(Status status) {
  switch (status) {
    case hipErrorInsufficientDriver:
      return DeviceFault::kOldDriver;
    case hipErrorNotInitialized:
    case hipErrorUnknown:
      return DeviceFault::kNoDriver;
    case hipErrorOperatingSystem:
      return DeviceFault::kNotPermitted;
    case hipErrorNoBinaryForGpu:
    case hipErrorInvalidDeviceFunction:
      return DeviceFault::kNoKernels;
    case hipErrorOutOfMemory:
      return DeviceFault::kNoMemory;
    case hipErrorECCNotCorrectable:
    case hipErrorLaunchFailure:
      return DeviceFault::kBroken;
    default:
      return DeviceFault::kOther;
  }
}

#else

namespace allocator = c10::cuda::CUDACachingAllocator;

using Status = cudaError_t;
using Properties = cudaDeviceProp;
inline constexpr Status kSuccess = cudaSuccess;
inline constexpr Status kNoDevice = cudaErrorNoDevice;
inline constexpr auto kCaptureOfThisThread = cudaStreamCaptureModeThreadLocal;
inline constexpr const char* kRuntime = "CUDA";
inline constexpr const char* kCollectives = "NCCL";
inline constexpr const char* kCollectivesLibrary = "libnccl.so.2";

inline Status count_devices(int* count) { return cudaGetDeviceCount(count); }
inline Status properties_of(Properties* properties, int index) { return cudaGetDeviceProperties(properties, index); }
inline Status driver_version(int* version) { return cudaDriverGetVersion(version); }
inline Status runtime_version(int* version) { return cudaRuntimeGetVersion(version); }
inline Status choose_device(int index) { return cudaSetDevice(index); }
inline Status free_and_total(std::size_t* free, std::size_t* total) { return cudaMemGetInfo(free, total); }
inline Status await_device() { return cudaDeviceSynchronize(); }
inline void forget_error() { (void)cudaGetLastError(); }
inline std::string words_of(Status status) { return cudaGetErrorString(status); }
inline void push_range(const char* name) { nvtxRangePushA(name); }
inline void pop_range() { nvtxRangePop(); }

/// "sm_90"
inline std::string architecture_of(const Properties& properties) {
  return "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
}
inline std::string version_text(int version) { return cuda_version_text(version); }
inline std::string uuid_of(const Properties& properties) {
  return uuid_text(std::span<const char, sizeof(properties.uuid.bytes)>(properties.uuid.bytes), properties.name);
}

inline DeviceFault fault_of(Status status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorCompatNotSupportedOnDevice:
      return DeviceFault::kOldDriver;
    case cudaErrorInitializationError:
    case cudaErrorUnknown:
      return DeviceFault::kNoDriver;
    case cudaErrorSystemDriverMismatch:
      return DeviceFault::kMismatch;
    case cudaErrorSystemNotReady:
      return DeviceFault::kNotReady;
    case cudaErrorDevicesUnavailable:
      return DeviceFault::kBusy;
    case cudaErrorOperatingSystem:
    case cudaErrorNotPermitted:
      return DeviceFault::kNotPermitted;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return DeviceFault::kNoKernels;
    case cudaErrorMemoryAllocation:
      return DeviceFault::kNoMemory;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorLaunchFailure:
      return DeviceFault::kBroken;
    default:
      return DeviceFault::kOther;
  }
}

#endif

}  // namespace lockstep::gpu
