// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A network of your own in a shared library, which a recipe names as `model.name = "plugin:libnet.so"`.
///
///     struct Net : lockstep::Network {
///       explicit Net(const lockstep::NetworkOptions& options)
///           : fc(register_module("fc", torch::nn::Linear(options.input_shape.at(0), options.classes))) {}
///       at::Tensor forward(const at::Tensor& input) override { return fc->forward(input); }
///       torch::nn::Linear fc;
///     };
///     LOCKSTEP_NETWORK_PLUGIN(Net)

#include <torch/version.h>

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// Loads a network from a shared library. One source of this library must have LOCKSTEP_NETWORK_PLUGIN(Net).
///
/// The library must be built with the same LibTorch as `lockstep-train`, since another version may have another layout
/// of its classes. This is checked before any of its code is called.
/// Throws: Error(kIo) if the library cannot be read; Error(kEnvironment) for another LibTorch, Lockstep or C++ standard
/// library, and what the network's constructor throws.
std::shared_ptr<Network> make_plugin_network(const std::filesystem::path& file, const NetworkOptions& options);

/// The versions that a plugin was built with, as plain C.
struct PluginFacts {
  int interface_version;
  const char* torch_version;
  const char* standard_library;
};

inline constexpr int kPluginInterface = 2;

}  // namespace lockstep

#define LOCKSTEP_NETWORK_PLUGIN(Net)                                                                                   \
  extern "C" __attribute__((visibility("default"))) const lockstep::PluginFacts* lockstep_plugin_facts() {             \
    static const lockstep::PluginFacts facts = {lockstep::kPluginInterface, TORCH_VERSION, LOCKSTEP_STANDARD_LIBRARY}; \
    return &facts;                                                                                                     \
  }                                                                                                                    \
  extern "C" __attribute__((visibility("default"))) void lockstep_plugin_network(                                      \
      const lockstep::NetworkOptions* options, std::shared_ptr<lockstep::Network>* network) {                          \
    *network = std::make_shared<Net>(*options);                                                                        \
  }

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define LOCKSTEP_STANDARD_LIBRARY "libstdc++, new ABI"
#elif defined(_LIBCPP_VERSION)
#define LOCKSTEP_STANDARD_LIBRARY "libc++"
#else
#define LOCKSTEP_STANDARD_LIBRARY "libstdc++, old ABI"
#endif
