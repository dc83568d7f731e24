// SPDX-License-Identifier: Apache-2.0
// A plugin that was built against another LibTorch.
struct PluginFacts {
  int interface_version;
  const char* torch_version;
  const char* standard_library;
};

extern "C" const PluginFacts* lockstep_plugin_facts() {
  static const PluginFacts facts = {2, "1.13.0", "libstdc++, old ABI"};
  return &facts;
}
