// SPDX-License-Identifier: Apache-2.0
// Compiled while the build is configured: what LibTorch's headers for CUDA include, and what they include in turn.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
