// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/watch_parent.h"

#include <system_error>

#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"

namespace lockstep {
namespace {

std::filesystem::path parent_file(const std::filesystem::path& run_dir) { return run_dir / "watch" / "parent"; }

}  // namespace

WatchParent::WatchParent(const std::filesystem::path& run_dir, const ProcessIdentity& self)
    : path_(parent_file(run_dir)) {
  make_folder(path_.parent_path());
  write_whole(path_, self.to_json() + "\n", false);
}

WatchParent::~WatchParent() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::optional<ProcessIdentity> living_watch_parent(const std::filesystem::path& run_dir, const ProcessIdentity& self) {
  auto parent = ProcessIdentity::from_json(text_or_nothing(parent_file(run_dir)));
  if (parent && liveness(*parent, self) == Liveness::kDead) return std::nullopt;
  return parent;
}

}  // namespace lockstep
