// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <climits>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

// Of rccl/rccl.h.
#define NCCL_MAJOR 2
#define NCCL_MINOR 22
struct ncclConfig_t {
  std::size_t size;
  unsigned int magic;
  unsigned int version;
};
#define NCCL_CONFIG_INITIALIZER {sizeof(ncclConfig_t), 0xcafebeef, 22203}
using ncclComm_t = struct ncclComm*;
enum ncclResult_t { ncclSuccess = 0, ncclInProgress = 7 };
extern "C" const char* ncclGetErrorString(ncclResult_t result);
extern "C" ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

namespace c10d {

class ProcessGroupNCCL : public Backend {
 public:
  struct Options : Backend::Options {
    explicit Options(bool is_high_priority_stream = false);
    bool is_high_priority_stream;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  };

  ProcessGroupNCCL(c10::intrusive_ptr<Store> store, int rank, int size, c10::intrusive_ptr<Options> options);
  const std::string getBackendName() const override { return "nccl"; }
  c10::intrusive_ptr<Work> allreduce(std::vector<at::Tensor>& tensors,
                                     const AllreduceOptions& options = AllreduceOptions()) override;
  void shutdown() override;
  void abort() override;
  void eagerConnectSingleDevice(at::Device device) override;
  ErrorType getError() override;
  int64_t getCommPtr();
};

}  // namespace c10d
