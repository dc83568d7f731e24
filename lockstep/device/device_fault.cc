// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device_fault.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

struct Words {
  std::string fact;
  std::string hint;
};

std::string or_else(const std::string& text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

Words words_of(DeviceFault fault, const FaultFacts& facts) {
  const auto device = or_else(facts.device, "the GPU");
  switch (fault) {
    case DeviceFault::kOldDriver:
      return {"the driver serves " + facts.kind + " up to " + or_else(facts.driver, "an older version") +
                  ", LibTorch was built with " + facts.kind + " " + facts.runtime,
              "build for a PyTorch of an older " + facts.kind +
                  " (pip's index has one for each), or have the driver updated"};
    case DeviceFault::kNoDriver:
      return {"the " + facts.kind + " driver does not answer (" + facts.said + ")",
              "try the maker's own tool (nvidia-smi, rocm-smi) on this node: it fails too, and its administrator has "
              "to mend it; in a container, start it with its GPU option (--nv, --rocm)"};
    case DeviceFault::kMismatch:
      return {"the driver's library and its kernel module are of different versions (" + facts.said + ")",
              "the driver was updated under this node or container: restart the node, or use an image without a driver "
              "of its own"};
    case DeviceFault::kNotReady:
      return {device + " is not ready (" + facts.said + ")",
              "on a node with NVSwitch the fabric manager must run; otherwise wait, or leave the node out "
              "(--exclude)"};
    case DeviceFault::kBusy:
      return {device + " is held by another process (" + facts.said + ")",
              "see whose it is with nvidia-smi or rocm-smi; a device in exclusive mode takes one process"};
    case DeviceFault::kNotPermitted:
      return {device + " may not be opened (" + facts.said + ")",
              "AMD: be in the groups video and render; else ask the scheduler for the device"};
    case DeviceFault::kNoKernels:
      return {"LibTorch " + facts.torch + " has no code for " + device,
              "build for a PyTorch that lists this architecture: older GPUs need older wheels (gfx906: ROCm 6.3)"};
    case DeviceFault::kNoMemory:
      return {device + " has no memory left for even a small product (" + facts.said + ")",
              "another process fills it: see nvidia-smi or rocm-smi"};
    case DeviceFault::kBroken:
      return {device + " has failed (" + facts.said + ")",
              "leave this node out (--exclude) and tell its administrator"};
    case DeviceFault::kWrongResult:
      return {"a small product on " + device + " came out wrong: " + facts.said,
              "leave this node out (--exclude) and tell its administrator; with other devices of its kind wrong too, "
              "use another PyTorch"};
    case DeviceFault::kAssertion:
      return {"a kernel on " + device + " found an index that is out of range (" + facts.said + ")",
              "most often a label or a token that the model has no place for: with trainer.accelerator = \"cpu\" the "
              "operation is named"};
    case DeviceFault::kBadAccess:
      return {"a kernel on " + device + " touched memory that is not there (" + facts.said + ")",
              "CUDA_LAUNCH_BLOCKING=1 (HIP_LAUNCH_BLOCKING=1) names the operation; where it is another one each time, "
              "the device is failing"};
    case DeviceFault::kOther:
      break;
  }
  return {device + " cannot be used: " + facts.said, "`lockstep doctor` looks at the node's devices and their driver"};
}

struct Sign {
  std::string_view words;
  DeviceFault fault;
};

// Parts of the messages that cudaGetErrorString() and hipGetErrorString() return.
constexpr auto kSigns = std::to_array<Sign>({{"no kernel image is available", DeviceFault::kNoKernels},
                                             {"invalid device function", DeviceFault::kNoKernels},
                                             {"device kernel image is invalid", DeviceFault::kNoKernels},
                                             {"out of memory", DeviceFault::kNoMemory},
                                             {"busy or unavailable", DeviceFault::kBusy},
                                             {"uncorrectable", DeviceFault::kBroken},
                                             {"unspecified launch failure", DeviceFault::kBroken},
                                             {"unknown error", DeviceFault::kBroken},
                                             {"hardware error", DeviceFault::kBroken},
                                             {"hardware stack error", DeviceFault::kBroken},
                                             {"launch timed out", DeviceFault::kBroken},
                                             {"no CUDA-capable device", DeviceFault::kBroken},
                                             {"no ROCm-capable device", DeviceFault::kBroken},
                                             {"device-side assert", DeviceFault::kAssertion},
                                             {"illegal memory access", DeviceFault::kBadAccess},
                                             {"misaligned address", DeviceFault::kBadAccess},
                                             {"illegal instruction", DeviceFault::kBadAccess},
                                             {"system not yet initialized", DeviceFault::kNotReady},
                                             {"driver version is insufficient", DeviceFault::kOldDriver}});

}  // namespace

DeviceFault find_fault(std::string_view words) {
  const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                 [&](const Sign& each) { return words.find(each.words) != std::string_view::npos; });
  return sign == kSigns.end() ? DeviceFault::kOther : sign->fault;
}

Error device_error(DeviceFault fault, const FaultFacts& facts, std::string_view otherwise) {
  const auto words = words_of(fault, facts);
  return {ErrorKind::kEnvironment, words.fact, words.hint + "; " + std::string(otherwise)};
}

}  // namespace lockstep
