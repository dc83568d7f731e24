// SPDX-License-Identifier: Apache-2.0
// Includes the headers that LibTorch's headers for CUDA include. CMake compiles this file to check that they work.
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
