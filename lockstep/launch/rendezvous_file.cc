// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rendezvous_file.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 10;

void require_job(const Placement& at) {
  if (!at.job.empty()) return;
  throw Error(ErrorKind::kEnvironment,
              at.source + " started " + std::to_string(at.world) +
                  " ranks but neither MASTER_ADDR and MASTER_PORT nor a job is set, so they cannot find each other",
              "set MASTER_ADDR and MASTER_PORT, or start with `lockstep launch` or srun");
}

// NFS remembers that a name is missing until the folder is opened again.
void look_again(const fs::path& folder) {
  if (DIR* opened = ::opendir(folder.c_str())) ::closedir(opened);
}

}  // namespace

fs::path rendezvous_folder(const fs::path& run_dir, const Environment& env) {
  const fs::path parent = run_dir.empty() ? fs::path(env.get("LOCKSTEP_RUNS").value_or("runs")) : run_dir;
  return fs::absolute(parent).lexically_normal() / ".meeting";
}

RendezvousFile::RendezvousFile(const fs::path& folder, std::string key) {
  std::ranges::replace(key, '/', '_');
  path_ = folder / key;
}

RendezvousFile RendezvousFile::for_ranks(const Placement& at, const fs::path& folder) {
  require_job(at);
  return {folder, at.source + "-" + at.job + "-" + std::to_string(at.restart)};
}

RendezvousFile RendezvousFile::for_program(const Placement& at, const Environment& env, const fs::path& folder) {
  require_job(at);
  std::string key = "exec-" + at.source + "-" + at.job;
  const auto launcher = env.get("SLURM_SRUN_COMM_PORT");
  if (launcher && !env.get("SLURM_HET_SIZE")) key += "-" + *launcher;
  return {folder, std::move(key)};
}

void RendezvousFile::publish(const Endpoint& master) {
  const auto folder = path_.parent_path();
  made_parents_ = missing_folders(folder.parent_path());
  const std::string text = master.address + " " + std::to_string(master.port) + "\n";
  is_published_ = true;
  for (int attempt = 1;; ++attempt) {
    try {
      make_folder(folder);
      write_whole(path_, text, /*durable=*/false);
      return;
    } catch (const Error&) {
      // Another run may have removed the empty folder before this run wrote its file, so both steps are tried again.
      if (attempt == kAttempts || fs::exists(folder)) throw;
    }
  }
}

std::optional<Endpoint> RendezvousFile::read() const {
  const auto folder = path_.parent_path();
  for (const auto& each : {folder.parent_path().parent_path(), folder.parent_path(), folder}) look_again(each);
  if (::access(path_.c_str(), R_OK) != 0) return std::nullopt;
  try {
    const std::string text = text_of_file(path_);
    const auto parts = split(trimmed(text), ' ');
    const auto port = parts.size() == 2 ? parsed_int<int>(parts[1]) : std::nullopt;
    if (port) return Endpoint{parts[0], *port};
  } catch (const Error&) {
    // Another process has removed the file since the folder was listed.
  }
  return std::nullopt;
}

void RendezvousFile::remove() const {
  if (!is_published_) return;
  ::unlink(path_.c_str());
  ::rmdir(path_.parent_path().c_str());
  for (const auto& folder : made_parents_) {
    if (::rmdir(folder.c_str()) != 0) return;
  }
}

}  // namespace lockstep
