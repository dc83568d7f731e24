// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/hip/HIPCachingAllocator.h>
#include <hip/hip_runtime.h>

namespace at::cuda {

c10::MempoolId_t graph_pool_handle();

struct CUDAGraph {
  CUDAGraph(bool keep_graph = false);
  ~CUDAGraph();
  void capture_begin(c10::MempoolId_t pool = {0, 0}, hipStreamCaptureMode capture_mode = hipStreamCaptureModeGlobal);
  void capture_end();
  void replay();
  void reset();
};

}  // namespace at::cuda
