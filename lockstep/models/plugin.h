// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/version.h>

#include <filesystem>
#include <memory>

#include "lockstep/models/network.h"

namespace lockstep {

/// A network from a shared library of one's own: `model.name = "plugin:libnet.so"`. In one source of it:
///
///     struct Net : lockstep::Network { explicit Net(const lockstep::NetworkOptions& options); … };
///     LOCKSTEP_NETWORK_PLUGIN(Net)
///
/// built against the LibTorch that `lockstep-train` runs on, which is checked before anything of it is called: another
/// one would lay tensors out otherwise.
/// Throws: Error(kIo) where the library cannot be read; Error(kEnvironment) for another LibTorch, Lockstep or
/// compiler's library; what the network's constructor throws.
std::shared_ptr<Network> make_plugin_network(const std::filesystem::path& file, const NetworkOptions& options);

/// What a plugin says of itself, as plain C.
struct PluginFacts {
  int interface_version;
  const char* torch_version;
  const char* standard_library;
};

inline constexpr int kPluginInterface = 1;

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
