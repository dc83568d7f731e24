// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

// LibTorch 2.11 kept the classes' own names; before, hipify renamed them.
#if LOCKSTEP_TORCH_VERSION >= 211
namespace c10::cuda::CUDACachingAllocator {
#else
namespace c10::hip::HIPCachingAllocator {
#endif

c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device);
void emptyCache();
void resetPeakStats(c10::DeviceIndex device);
void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool);
void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool);
}
