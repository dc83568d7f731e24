// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/survey/draft.h"
#include "lockstep/cluster/survey/draft_text.h"

namespace {

/// Cuts the bytes into the answers of a machine, at lines of "==".
lockstep::MachineAnswers answers_in(std::string_view text) {
  lockstep::MachineAnswers answers{.host = "login", .date = "2026-11-23"};
  const std::array parts = {&answers.config,      &answers.partitions, &answers.nodes,   &answers.associations,
                            &answers.user_record, &answers.qos,        &answers.modules, &answers.mounts};
  std::size_t part = 0;
  for (const auto& line : lockstep::split(text, '\n')) {
    if (line == "==") {
      ++part;
    } else if (part < parts.size()) {
      *parts[part] += line + "\n";
    }
  }
  answers.user = {.name = "me", .groups = {"users"}};
  return answers;
}

}  // namespace

/// For any answers, the draft must be a profile that can be read back, unless there is no partition to use.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const auto draft = lockstep::drafted(answers_in(text), "");
    LOCKSTEP_ASSERT(!lockstep::to_toml(draft, "fuzz").empty());
    LOCKSTEP_ASSERT(!lockstep::summary(draft).empty());
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kEnvironment) throw;
  }
  try {
    lockstep::parsed_node_view(text);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
