// SPDX-License-Identifier: Apache-2.0
// Includes the headers of ROCm, and of a LibTorch for it, that lockstep/gpu includes. CMake compiles this file to check
// that they work.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/gpu/names.h"
