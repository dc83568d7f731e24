// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// One file of a bundle.
struct BundleFile {
  std::string name{};  ///< "logs/job.log"
  std::string text{};
};

/// Collects the files that a support ticket needs: the report, the job's variables, script and logs, facts of the
/// machine, the profile, and the output of `scontrol`, `nvidia-smi` and `rocm-smi`. Long logs are cut in their middle.
/// Secrets are removed.
///
/// `report` is the printed report, `version` this program's version.
std::vector<BundleFile> bundle_files(const DoctorContext& of, const std::string& report, const std::string& version);

/// Writes the files as a compressed tar if the name ends in .tar.gz or .tgz, else as a folder. Only the user can read
/// it.
///
/// Throws: Error(kIo) if a file cannot be written; Error(kUsage) if `path` exists already.
void write_bundle(const std::filesystem::path& path, const std::vector<BundleFile>& files);

/// Returns `text` without secrets. It removes values of names like token, key, password or secret, and passwords in
/// addresses. The values that such variables have in `env` are also removed, wherever they occur in the text.
std::string without_secrets(std::string_view text, const Environment& env);

/// True if a variable of this name holds a secret.
bool is_secret(std::string_view name);

}  // namespace lockstep
