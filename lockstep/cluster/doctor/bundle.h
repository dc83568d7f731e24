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

/// What a support ticket needs: the report, the job's variables, script and logs, the machine, the profile, and what
/// `scontrol`, `nvidia-smi` and `rocm-smi` say. Long logs are cut in their middle. Secrets are taken out.
///
/// `report` is what was printed, `version` that of this program.
std::vector<BundleFile> bundle_files(const DoctorContext& of, const std::string& report, const std::string& version);

/// Writes them as a compressed tar where the name ends in .tar.gz or .tgz, else as a folder; readable by the user
/// alone.
///
/// Throws: Error(kIo) where that fails; Error(kUsage) where `path` is there already.
void write_bundle(const std::filesystem::path& path, const std::vector<BundleFile>& files);

/// `text` without values of what is named like a token, key, password or secret, without passwords in addresses, and
/// without the values that such variables have in `env`, wherever they stand.
std::string without_secrets(std::string_view text, const Environment& env);

/// A claim: a variable of this name holds a secret.
bool is_secret(std::string_view name);

}  // namespace lockstep
