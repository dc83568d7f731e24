// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/output.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <span>

#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"

namespace lockstep {

void print_text(const std::string& text) {
  write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
}

void print_line(const nlohmann::ordered_json& object) {
  // The name of a file may have bytes that are not UTF-8. JSON cannot hold them, so they are replaced.
  print_text(json_text(object) + "\n");
}

}  // namespace lockstep
