// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/trouble.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

struct Words {
  std::string fact;
  std::string hint;
};

std::string or_else(const std::string& text, const std::string& otherwise) { return text.empty() ? otherwise : text; }

Words words_of(DeviceTrouble trouble, const TroubleFacts& facts) {
  const auto device = or_else(facts.device, "the GPU");
  switch (trouble) {
    case DeviceTrouble::kOldDriver:
      return {"the driver serves " + facts.kind + " up to " + or_else(facts.driver, "an older version") +
                  ", LibTorch was built with " + facts.kind + " " + facts.runtime,
              "build for a PyTorch of an older " + facts.kind +
                  " (pip's index has one for each), or have the driver updated"};
    case DeviceTrouble::kNoDriver:
      return {"the " + facts.kind + " driver does not answer (" + facts.said + ")",
              "try the maker's own tool (nvidia-smi, rocm-smi) on this node: it fails too, and its administrator has "
              "to mend it; in a container, start it with its GPU option (--nv, --rocm)"};
    case DeviceTrouble::kMismatch:
      return {"the driver's library and its kernel module are of different versions (" + facts.said + ")",
              "the driver was updated under this node or container: restart the node, or use an image without a driver "
              "of its own"};
    case DeviceTrouble::kNotReady:
      return {device + " is not ready (" + facts.said + ")",
              "on a node with NVSwitch the fabric manager must run; otherwise wait, or leave the node out "
              "(--exclude)"};
    case DeviceTrouble::kBusy:
      return {device + " is held by another process (" + facts.said + ")",
              "see whose it is with nvidia-smi or rocm-smi; a device in exclusive mode takes one process"};
    case DeviceTrouble::kNotPermitted:
      return {device + " may not be opened (" + facts.said + ")",
              "AMD: be in the groups video and render; else ask the scheduler for the device"};
    case DeviceTrouble::kNoKernels:
      return {"LibTorch " + facts.torch + " has no code for " + device,
              "build for a PyTorch that lists this architecture: older GPUs need older wheels (gfx906: ROCm 6.3)"};
    case DeviceTrouble::kNoMemory:
      return {device + " has no memory left for even a small product (" + facts.said + ")",
              "another process fills it: see nvidia-smi or rocm-smi"};
    case DeviceTrouble::kBroken:
      return {device + " has failed (" + facts.said + ")",
              "leave this node out (--exclude) and tell its administrator"};
    case DeviceTrouble::kWrongResult:
      return {"a small product on " + device + " came out wrong: " + facts.said,
              "leave this node out (--exclude) and tell its administrator; with other devices of its kind wrong too, "
              "use another PyTorch"};
    case DeviceTrouble::kAssertion:
      return {"a kernel on " + device + " found an index that is out of range (" + facts.said + ")",
              "most often a label or a token that the model has no place for: with trainer.accelerator = \"cpu\" the "
              "operation is named"};
    case DeviceTrouble::kBadAccess:
      return {"a kernel on " + device + " touched memory that is not there (" + facts.said + ")",
              "CUDA_LAUNCH_BLOCKING=1 (HIP_LAUNCH_BLOCKING=1) names the operation; where it is another one each time, "
              "the device is failing"};
    case DeviceTrouble::kOther:
      break;
  }
  return {device + " cannot be used: " + facts.said, "`lockstep doctor` looks at the node's devices and their driver"};
}

struct Sign {
  std::string_view words;
  DeviceTrouble trouble;
};

// As cudaGetErrorString() and hipGetErrorString() have them.
constexpr auto kSigns = std::to_array<Sign>({{"no kernel image is available", DeviceTrouble::kNoKernels},
                                             {"invalid device function", DeviceTrouble::kNoKernels},
                                             {"device kernel image is invalid", DeviceTrouble::kNoKernels},
                                             {"out of memory", DeviceTrouble::kNoMemory},
                                             {"busy or unavailable", DeviceTrouble::kBusy},
                                             {"uncorrectable", DeviceTrouble::kBroken},
                                             {"unspecified launch failure", DeviceTrouble::kBroken},
                                             {"unknown error", DeviceTrouble::kBroken},
                                             {"hardware error", DeviceTrouble::kBroken},
                                             {"hardware stack error", DeviceTrouble::kBroken},
                                             {"launch timed out", DeviceTrouble::kBroken},
                                             {"no CUDA-capable device", DeviceTrouble::kBroken},
                                             {"no ROCm-capable device", DeviceTrouble::kBroken},
                                             {"device-side assert", DeviceTrouble::kAssertion},
                                             {"illegal memory access", DeviceTrouble::kBadAccess},
                                             {"misaligned address", DeviceTrouble::kBadAccess},
                                             {"illegal instruction", DeviceTrouble::kBadAccess},
                                             {"system not yet initialized", DeviceTrouble::kNotReady},
                                             {"driver version is insufficient", DeviceTrouble::kOldDriver}});

}  // namespace

DeviceTrouble trouble_said(std::string_view words) {
  const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                 [&](const Sign& each) { return words.find(each.words) != std::string_view::npos; });
  return sign == kSigns.end() ? DeviceTrouble::kOther : sign->trouble;
}

Error device_error(DeviceTrouble trouble, const TroubleFacts& facts, std::string_view otherwise) {
  const auto words = words_of(trouble, facts);
  return {ErrorKind::kEnvironment, words.fact, words.hint + "; " + std::string(otherwise)};
}

}  // namespace lockstep
