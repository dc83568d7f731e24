// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/stage_pack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <span>
#include <system_error>

#include "lockstep/base/checksum.h"
#include "lockstep/base/elf.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A temporary folder. The destructor removes it.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) { make_folder(path_); }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path beside(const fs::path& pack, const std::string& ending) {
  return pack.parent_path() / ("." + pack.filename().string() + "." + std::to_string(::getpid()) + ending);
}

void add_to_key(Xxh3Stream& stream, const std::string& name, const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) throw io_error("look at", path, errno);
  std::string line = name + '\0' + std::to_string(status.st_mode) + ' ';
  if (S_ISREG(status.st_mode)) {
    line += std::to_string(status.st_size) + ' ' + std::to_string(status.st_mtim.tv_sec) + '.' +
            std::to_string(status.st_mtim.tv_nsec);
  } else if (S_ISLNK(status.st_mode)) {
    line += fs::read_symlink(path).string();
  }
  stream.update(std::as_bytes(std::span(line)));
}

void run_tar(std::vector<std::string> flags, const fs::path& pack, const Environment& env) {
  make_folder(pack.parent_path());
  const auto made = beside(pack, ".tmp");
  std::vector<std::string> command = {"tar", "--create", "--file", made.string()};
  command.insert(command.end(), flags.begin(), flags.end());
  const auto result = run_process(command, env);
  std::error_code error;
  if (result.exit_code == 0) fs::rename(made, pack, error);
  if (result.exit_code == 0 && !error) return;
  fs::remove(made, error);
  throw Error(ErrorKind::kEnvironment,
              "tar could not make '" + pack.string() + "': " + std::string(trimmed(result.errors)),
              "is there room? LOCKSTEP_CACHE names another folder for packs");
}

bool is_of_the_system(const fs::path& library) {
  static constexpr std::array kFolders = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
  return std::ranges::any_of(kFolders, [&](const char* folder) { return library.string().starts_with(folder); });
}

std::vector<fs::path> libraries_of(const fs::path& file, const Environment& env) {
  auto variables = env.all();
  variables["LD_TRACE_LOADED_OBJECTS"] = "1";
  const bool is_program = file.filename().string().find(".so") == std::string::npos;
  const auto command = is_program ? std::vector<std::string>{file.string()}
                                  : std::vector<std::string>{"/lib64/ld-linux-x86-64.so.2", file.string()};
  return libraries_in(run_process(command, Environment(std::move(variables))).output);
}

/// Whole folders are packed and not single files. LibTorch and NVIDIA's libraries open further libraries in their own
/// folder by name.
std::map<std::string, fs::path> files_of(const fs::path& trainer, const Environment& env) {
  std::map<std::string, fs::path> files;
  std::vector<fs::path> open = {trainer};
  // The libraries that the trainer opens at run time. They are in its own folder, or in the installation's folder of
  // libraries.
  const auto own = trainer.parent_path();
  std::error_code none;
  for (const auto& folder : {own, (own / LOCKSTEP_LIBRARIES_FROM_PROGRAMS).lexically_normal()}) {
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.path().filename().string().starts_with("liblockstep_")) open.push_back(entry.path());
    }
  }
  while (!open.empty()) {
    const auto file = open.back();
    open.pop_back();
    for (const auto& library : libraries_of(file, env)) {
      if (!files.emplace(library.filename().string(), library).second) continue;
      const auto folder = library.parent_path();
      const bool is_torch = library.filename() == "libtorch_cpu.so";
      if (!is_torch && folder.string().find("/nvidia/") == std::string::npos) continue;
      for (const auto& entry : fs::directory_iterator(folder)) {
        const auto name = entry.path().filename().string();
        const bool is_python = name.starts_with("libtorch_python") || name.starts_with("libshm");
        if (is_python || !files.emplace(name, entry.path()).second) continue;
        if (name == "libtorch_cuda.so" || name == "libtorch_hip.so") open.push_back(entry.path());
      }
    }
    if (file != trainer) files.emplace(file.filename().string(), file);
  }
  return files;
}

}  // namespace

std::string key_of(const std::vector<fs::path>& roots) {
  Xxh3Stream stream;
  for (const auto& root : roots) {
    std::vector<fs::path> paths = {root};
    std::error_code error;
    if (fs::is_directory(root)) {
      fs::recursive_directory_iterator it(root, error);
      for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) paths.push_back(it->path());
    }
    if (error) throw io_error("read", root, error.value());
    std::ranges::sort(paths);
    for (const auto& path : paths) add_to_key(stream, path.string(), path);
  }
  return stream.digest128_hex().substr(0, 16);
}

void pack_folder(const fs::path& folder, const fs::path& pack, const Environment& env) {
  run_tar({"--directory", folder.string(), "."}, pack, env);
}

std::vector<fs::path> libraries_in(const std::string& loader_output) {
  std::vector<fs::path> found;
  for (const auto& line : split(loader_output, '\n')) {
    const auto arrow = line.find(" => ");
    if (arrow == std::string::npos) continue;
    const auto target = line.substr(arrow + 4, line.rfind(" (") - arrow - 4);
    if (target == "not found") {
      throw Error(ErrorKind::kEnvironment,
                  "the library " + std::string(trimmed(line.substr(0, arrow))) + " of the training half is not found",
                  "`lockstep doctor` says why; build it again with `lockstep setup`");
    }
    if (!is_of_the_system(target)) found.emplace_back(target);
  }
  return found;
}

std::string with_own_folder(std::string program, const std::string& search_path) {
  static constexpr std::string_view kOwn{"$ORIGIN\0", 8};
  if (search_path.empty()) return program;
  const auto at = program.find(search_path + '\0');
  if (at == std::string::npos || search_path.size() + 1 < kOwn.size()) {
    throw Error(ErrorKind::kEnvironment,
                "the training half looks for libraries in '" + search_path + "', which cannot be replaced by $ORIGIN",
                "stage the environment that holds its PyTorch instead: --stage ENV");
  }
  program.replace(at, kOwn.size(), kOwn);
  return program;
}

void pack_program(const fs::path& trainer, const fs::path& pack, const Environment& env) {
  const ScratchFolder folder(beside(pack, ".folder"));
  for (const auto& [name, file] : files_of(trainer, env)) fs::create_symlink(file, folder.path() / name);
  // A trainer that `lockstep setup` has built is in another folder than `lockstep`.
  const auto beside_it = trainer.parent_path() / "lockstep";
  fs::create_symlink(fs::exists(beside_it) ? beside_it : this_program(), folder.path() / "lockstep");
  const auto elf = shared_library(trainer);
  const auto copy = folder.path() / trainer.filename();
  write_whole(copy, with_own_folder(text_of_file(trainer), elf ? joined(elf->run_path, ":") : std::string()), false);
  fs::permissions(copy, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                            fs::perms::others_exec);
  run_tar({"--dereference", "--directory", folder.path().string(), "."}, pack, env);
}

}  // namespace lockstep
