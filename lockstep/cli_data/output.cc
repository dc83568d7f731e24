// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/output.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <span>

#include "lockstep/base/file.h"

namespace lockstep {

void print_text(const std::string& text) {
  write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
}

void print_line(const nlohmann::ordered_json& object) {
  // A file's name need not be UTF-8.
  print_text(object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lockstep
