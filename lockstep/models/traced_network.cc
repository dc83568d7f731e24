// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/traced_network.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/device/dtype.h"

namespace lockstep {
namespace {

nlohmann::ordered_json described(const std::string& name, const at::Tensor& tensor) {
  return {{"name", name},
          {"dtype", dtype_name(tensor.scalar_type())},
          {"shape", tensor.sizes().vec()},
          {"stride", tensor.strides().vec()},
          {"trained", tensor.requires_grad()}};
}

// A tied weight counts once, under its first name, as in Python.
nlohmann::ordered_json described_once(const torch::OrderedDict<std::string, at::Tensor>& named,
                                      torch::jit::Stack& inputs) {
  auto all = nlohmann::ordered_json::array();
  std::set<const void*> seen;
  for (const auto& each : named) {
    if (!seen.insert(each.value().unsafeGetTensorImpl()).second) continue;
    all.push_back(described(each.key(), each.value()));
    inputs.emplace_back(each.value());
  }
  return all;
}

}  // namespace

TracedNetwork trace_network(Network& network, const at::Tensor& batch) {
  torch::jit::Stack inputs;
  nlohmann::ordered_json facts;
  facts["parameters"] = described_once(network.named_parameters(), inputs);
  facts["buffers"] = described_once(network.named_buffers(), inputs);
  facts["batch"] = described("", batch);
  facts["device"] = c10::DeviceTypeName(batch.device().type(), /*lower_case=*/true);
  inputs.emplace_back(batch);
  const torch::NoGradGuard no_grad;
  network.train(true);
  try {
    const auto run = [&](const torch::jit::Stack&) { return torch::jit::Stack{network.forward(batch)}; };
    const auto [state, outputs] =
        torch::jit::tracer::trace(inputs, run, [](const at::Tensor&) { return std::string(); });
    torch::jit::Module module("Traced");
    // The first argument of a TorchScript method is its module.
    state->graph->insertInput(0, "self")->setType(module.type());
    auto* function = module._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*module.type()->name(), "forward"), state->graph);
    module.type()->addMethod(function);
    std::ostringstream archive;
    module.save(archive, {{"facts.json", facts.dump()}});
    return {archive.str(), state->graph->toString(/*print_source_locations=*/false) + facts.dump()};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUsage,
                "the network's operations cannot be recorded: " + std::string(first_line(error.what())),
                "train it without model.compiled");
  }
}

}  // namespace lockstep
