// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/commands.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "lockstep/base/file.h"

namespace lockstep::cli {

void print_text(const std::string& text) {
  write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
}

void print_json(const nlohmann::json& object) { print_text(object.dump() + "\n"); }

}  // namespace lockstep::cli
