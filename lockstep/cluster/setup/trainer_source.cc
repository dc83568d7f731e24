// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/setup/trainer_source.h"

#include <unistd.h>

#include <system_error>
#include <vector>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_source_tree(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "layers.txt", ignored) && fs::exists(folder / "CMakeLists.txt", ignored);
}

fs::path unpacked(const fs::path& bundle, const Environment& env) {
  const auto name = bundle.filename().string();
  const auto folder = cache_folder(env) / "source" / name.substr(0, name.find(".tar"));
  std::error_code error;
  const bool is_newer =
      fs::exists(folder, error) && fs::last_write_time(bundle, error) > fs::last_write_time(folder, error);
  if (is_source_tree(folder) && !is_newer) return folder;
  const auto made = folder.parent_path() / ("." + folder.filename().string() + "." + std::to_string(::getpid()));
  make_folder(made);
  const auto result = run_process(
      {"tar", "-xf", bundle.string(), "-C", made.string(), "--strip-components", "1", "--no-same-owner"}, env);
  if (result.exit_code == 0) {
    fs::remove_all(folder, error);
    fs::rename(made, folder, error);
    if (!error) fs::last_write_time(folder, fs::file_time_type::clock::now(), error);
  }
  fs::remove_all(made, error);
  if (is_source_tree(folder)) return folder;
  throw Error(ErrorKind::kEnvironment,
              "'" + bundle.string() + "' could not be unpacked: " + std::string(trimmed(result.errors)),
              "is it whole, and is there room in '" + folder.parent_path().string() + "'? LOCKSTEP_CACHE moves that");
}

}  // namespace

fs::path source_tree(const fs::path& program, std::string_view version, const Environment& env) {
  std::error_code ignored;
  if (const auto given = env.get("LOCKSTEP_SOURCE")) {
    if (is_source_tree(*given)) return fs::absolute(*given).lexically_normal();
    if (fs::is_regular_file(*given, ignored)) return unpacked(fs::absolute(*given), env);
    throw Error(ErrorKind::kEnvironment, "LOCKSTEP_SOURCE is '" + *given + "', want Lockstep's source folder or bundle",
                "unset it to take the bundle beside lockstep");
  }
  const auto folder = program.parent_path();
  const auto tree = (folder / "../../..").lexically_normal();
  if (is_source_tree(tree)) return tree.has_filename() ? tree : tree.parent_path();
  const std::string bundle = "lockstep-" + std::string(version) + ".tar.gz";
  for (const auto& place : {folder / bundle, (folder / "../share/lockstep" / bundle).lexically_normal()}) {
    if (fs::is_regular_file(place, ignored)) return unpacked(place, env);
  }
  throw Error(
      ErrorKind::kEnvironment,
      "there are no sources of Lockstep: no " + bundle + " beside '" + program.string() + "' or in ../share/lockstep",
      "LOCKSTEP_SOURCE names the bundle or the source folder; `make dist` makes the bundle");
}

std::string build_script(const fs::path& source, const fs::path& build, const fs::path& torch, int jobs,
                         const std::string& python) {
  const auto quoted = [](const fs::path& path) { return shell_quoted(path.string()); };
  return "set -e\n"
         "command -v cmake > /dev/null || { echo 'there is no cmake'; exit 90; }\n"
         "found=$(cmake --version | sed -n '1s/[^0-9]*\\([0-9.]*\\).*/\\1/p')\n"
         "[ \"$(printf '%s\\n' 3.25 \"$found\" | sort -V | head -n 1)\" = 3.25 ] ||\n"
         "  { echo \"cmake is $found, want 3.25 or newer\"; exit 91; }\n"
         "command -v \"${CXX:-c++}\" > /dev/null || command -v g++ > /dev/null || { echo 'there is no C++ compiler'; "
         "exit 92; }\n"
         "unset generator; command -v ninja > /dev/null && generator=Ninja\n"
         "jobs=" +
         std::to_string(jobs) +
         "\n"
         // Compiling a file that includes torch.h takes up to 2 GB of memory.
         "most=$(awk '/^MemAvailable:/ { n = int($2 / 2097152); print n < 1 ? 1 : n }' /proc/meminfo)\n"
         "[ \"$jobs\" -le \"$most\" ] || jobs=$most\n"
         "cmake -S " +
         quoted(source) + " -B " + quoted(build) +
         " -G \"${generator:-Unix Makefiles}\" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DLOCKSTEP_TORCH=" +
         quoted(torch) + (python.empty() ? "" : " -DLOCKSTEP_PYTHON=" + quoted(python)) +
         " 2>&1\n"
         "exec cmake --build " +
         quoted(build) + " --parallel \"$jobs\" --target lockstep-train 2>&1\n";
}

std::string_view build_needs() {
  return "it needs cmake 3.25 or newer and a C++20 compiler (GCC 12, Clang 15), from a module or from pip and conda";
}

}  // namespace lockstep
