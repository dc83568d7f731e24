// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "lockstep/base/error.h"
#include "lockstep/launch/host_list.h"

int main(int argc, char** argv) {
  try {
    for (const auto& host : lockstep::expanded_hosts(argc > 1 ? argv[1] : "node[001-003]")) {
      std::cout << host << "\n";
    }
  } catch (const lockstep::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return lockstep::exit_code(error.kind());
  }
}
