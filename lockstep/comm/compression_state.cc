// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/compression_state.h"

#include <torch/torch.h>

#include <vector>

namespace lockstep {
namespace {

bool differs_by_rank(const std::string& name) { return name.starts_with("error."); }

// Gathers a tensor of all ranks in the host's memory. The device's memory may be too small for the parts of all ranks.
at::Tensor gather_tensor(const at::Tensor& own, c10d::ProcessGroup& process) {
  std::vector<at::Tensor> input = {own.detach().to(at::kCPU).contiguous()};
  std::vector<std::vector<at::Tensor>> output;
  at::Tensor all;
  if (process.getRank() == 0) {
    auto shape = own.sizes().vec();
    shape.insert(shape.begin(), process.getSize());
    all = at::empty(shape, input[0].options());
    output.push_back(all.unbind(0));
  }
  process.gather(output, input)->wait();
  return all;
}

}  // namespace

CompressionState gather_compression(const CompressionState& own, c10d::ProcessGroup* process) {
  CompressionState out;
  for (const auto& [name, tensor] : own) {
    if (process != nullptr && differs_by_rank(name)) {
      const auto all = gather_tensor(tensor, *process);
      if (all.defined()) out[name] = all;
    } else if (process == nullptr || process->getRank() == 0) {
      const auto copy = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
      out[name] = differs_by_rank(name) ? copy.unsqueeze(0) : copy;
    }
  }
  return out;
}

at::Tensor own_compression(const std::string& name, const at::Tensor& saved, int rank, int world) {
  if (!differs_by_rank(name) || saved.dim() < 3) return saved.clone();
  return saved.size(0) == world ? saved[rank].clone() : saved.mean(0);
}

}  // namespace lockstep
