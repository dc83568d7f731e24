// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpu/collectives.h"

#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <torch/csrc/cuda/nccl.h>

#include <array>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/nccl_settings.h"
#include "lockstep/gpu/names.h"

namespace lockstep::gpu {
namespace {

using c10d::ProcessGroupNCCL;

// ncclConfig_t grows with NCCL's versions, and is part of LibTorch's options. If LibTorch was compiled with another
// nccl.h than this file, its constructor would write beyond the end.
struct RoomyOptions : ProcessGroupNCCL::Options {
  RoomyOptions() : Options(/*is_high_priority_stream=*/true) {}
  std::array<std::byte, 1024> room{};
};

c10::intrusive_ptr<ProcessGroupNCCL::Options> made_options(std::chrono::milliseconds timeout) {
  auto options = c10::make_intrusive<RoomyOptions>();
  const ncclConfig_t ours = NCCL_CONFIG_INITIALIZER;
  if (options->config.size != ours.size || options->config.magic != ours.magic) {
    throw Error(ErrorKind::kEnvironment,
                std::string("Lockstep was built with another nccl.h than LibTorch: ") + std::to_string(NCCL_MAJOR) +
                    "." + std::to_string(NCCL_MINOR) + ", and LibTorch loads " + collectives_version(),
                "build again with the nccl.h of that version: -DLOCKSTEP_NCCL_INCLUDE=FOLDER");
  }
  options->timeout = timeout;
  return options;
}

// The first real exchange makes the connections between nodes, so that a wrong network is found before training.
void require_sum(ProcessGroupNCCL& backend, const CollectiveRequest& request) {
  std::vector<at::Tensor> sum = {at::ones({1}, at::TensorOptions(request.device).dtype(at::kFloat))};
  backend.allreduce(sum)->wait();
  const auto found = sum[0].item<float>();
  if (found == static_cast<float>(request.world)) return;
  throw Error(ErrorKind::kEnvironment,
              std::string("a sum of ones over ") + std::to_string(request.world) + " ranks came out as " +
                  std::to_string(found) + " through " + collectives_version(),
              "try NCCL_P2P_DISABLE=1, and `lockstep doctor` on these nodes");
}

const char* name_of(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::SUCCESS:
      return "no error";
    case c10d::ErrorType::TIMEOUT:
      return "a collective took longer than its time limit";
    case c10d::ErrorType::COMM_ERROR:
      return "the communicator failed; NCCL_DEBUG=INFO says where";
    case c10d::ErrorType::REMOTE_ERROR:
      return "another rank reported a failure";
  }
  return "an error of a new kind";
}

// Asks NCCL for the state of its own threads on a communicator. LibTorch's watchdog asks only while collectives run
// that were started one by one, never during those of a replayed graph. LibTorch gives out the communicator from 2.8
// on. NCCL comes with LibTorch, and nothing is linked to it here.
template <typename Nccl>
std::optional<std::string> asynchronous_failure(Nccl& backend) {
  if constexpr (requires { backend.getCommPtr(); }) {
    using Ask = decltype(&ncclCommGetAsyncError);
    using Say = decltype(&ncclGetErrorString);
    static void* const library = ::dlopen(kCollectivesLibrary, RTLD_NOW | RTLD_NOLOAD);
    static const auto ask =
        reinterpret_cast<Ask>(library != nullptr ? ::dlsym(library, "ncclCommGetAsyncError") : nullptr);
    static const auto say =
        reinterpret_cast<Say>(library != nullptr ? ::dlsym(library, "ncclGetErrorString") : nullptr);
    const auto communicator = reinterpret_cast<ncclComm_t>(backend.getCommPtr());
    auto state = ncclSuccess;
    if (ask == nullptr || say == nullptr || communicator == nullptr) return std::nullopt;
    if (ask(communicator, &state) != ncclSuccess || state == ncclSuccess || state == ncclInProgress)
      return std::nullopt;
    return std::string(say(state)) + "; NCCL_DEBUG=INFO says where";
  }
  return std::nullopt;
}

class Maker final : public CollectiveMaker {
 public:
  c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest& request) const override {
    set_where_unset(nccl_settings());
    auto backend = c10::make_intrusive<ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("nccl", request.store),
                                                         request.rank, request.world, made_options(request.timeout));
    backend->setBoundDeviceId(request.device);
    backend->eagerConnectSingleDevice(request.device);
    require_sum(*backend, request);
    return backend;
  }

  std::optional<std::string> failure(c10d::Backend& backend) const override {
    const auto error = backend.getError();
    if (error != c10d::ErrorType::SUCCESS) return std::string(kCollectives) + ": " + name_of(error);
    const auto failure = asynchronous_failure(static_cast<ProcessGroupNCCL&>(backend));
    if (!failure) return std::nullopt;
    return std::string(kCollectives) + ": " + *failure;
  }

  void end(c10d::Backend& backend, bool has_failed) const noexcept override {
    auto& nccl = static_cast<ProcessGroupNCCL&>(backend);
    try {
      if (has_failed) {
        nccl.abort();
      } else {
        nccl.shutdown();
      }
    } catch (const std::exception&) {
      // A failure to close is ignored, since the result of the run is known already.
      forget_error();
    }
  }
};

}  // namespace

const CollectiveMaker& collective_maker() {
  static const Maker maker;
  return maker;
}

std::string collectives_version() {
  const auto packed = torch::cuda::nccl::version();
  return std::string(kCollectives) + " " + std::to_string(packed >> 32U) + "." +
         std::to_string(packed >> 16U & 0xffffU) + "." + std::to_string(packed & 0xffffU);
}

}  // namespace lockstep::gpu
