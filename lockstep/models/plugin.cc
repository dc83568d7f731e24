// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/plugin.h"

#include <dlfcn.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

template <typename Function>
Function symbol_of(void* library, const char* name, const std::string& file) {
  auto* found = ::dlsym(library, name);
  if (found == nullptr) {
    throw Error(ErrorKind::kEnvironment, "'" + file + "' has no " + name + ": it is not a Lockstep plugin",
                "end one of its sources with LOCKSTEP_NETWORK_PLUGIN(Net)");
  }
  return reinterpret_cast<Function>(found);
}

void require_same(const std::string& file, const char* what, const std::string& found, const std::string& wanted) {
  if (found == wanted) return;
  throw Error(ErrorKind::kEnvironment,
              "'" + file + "' was built with " + what + " " + found + ", lockstep-train with " + wanted,
              "build both with the same one");
}

}  // namespace

// The library is never closed, since it has the network's code.
std::shared_ptr<Network> make_plugin_network(const std::filesystem::path& file, const NetworkOptions& options) {
  const auto name = file.string();
  if (!std::filesystem::exists(file)) {
    throw Error(ErrorKind::kIo, "model.name: there is no file '" + name + "'", "build the plugin first");
  }
  auto* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::kEnvironment, "'" + name + "' cannot be loaded: " + ::dlerror(),
                "build it against the LibTorch that lockstep-train runs on");
  }
  const auto facts = *symbol_of<const PluginFacts* (*)()>(library, "lockstep_plugin_facts", name)();
  require_same(name, "interface", std::to_string(facts.interface_version), std::to_string(kPluginInterface));
  require_same(name, "LibTorch", facts.torch_version, TORCH_VERSION);
  require_same(name, "the standard library", facts.standard_library, LOCKSTEP_STANDARD_LIBRARY);
  const auto make =
      symbol_of<void (*)(const NetworkOptions*, std::shared_ptr<Network>*)>(library, "lockstep_plugin_network", name);
  std::shared_ptr<Network> network;
  try {
    make(&options, &network);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kRecipe,
                "'" + name + "' threw while it made its network: " + std::string(first_line(error.what())),
                "fix the plugin, or change its settings in the recipe");
  }
  if (!network) {
    throw Error(ErrorKind::kEnvironment, "'" + name + "' made no network", "let lockstep_plugin_network make one");
  }
  return network;
}

}  // namespace lockstep
