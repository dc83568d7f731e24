// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/data_fetch.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/download.h"
#include "lockstep/format/torch/zip_unpack.h"
#include "lockstep/launch/process.h"
#include "lockstep/observe/work_bar.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

FileDescriptor locked(const fs::path& folder) {
  FileDescriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) throw io_error("open", folder, errno);
  // Some file systems have no locks. On these, another fetch into the same folder is not noticed.
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error(ErrorKind::kEnvironment, folder.string() + ": another process fetches into it", "wait for its end");
  }
  return lock;
}

std::string address_of(const std::string& base, const std::string& name) {
  std::string url = base.starts_with('/') ? "file://" + base : base;
  if (!url.ends_with('/')) url += '/';
  return url + name;
}

std::string sum_text(const std::string& sum, std::uint64_t bytes) {
  return "sha256 " + sum + " (" + std::to_string(bytes) + " bytes)";
}

/// Checks size and checksum of the downloaded file `part`. Returns nothing if they are right, else what is wrong.
std::optional<std::string> difference(const fs::path& part, const OnlineFile& file, const Environment& env) {
  const std::string sum = sha256_of(part, env);
  if (sum == file.sha256) return {};
  return "has " + sum_text(sum, fs::file_size(part)) + ", want " + sum_text(file.sha256, file.bytes);
}

class Fetcher {
 public:
  Fetcher(const OnlineSet& set, fs::path folder, const Context& context)
      : set_(set), folder_(std::move(folder)), context_(context) {}

  void fetch(const OnlineFile& file, const std::vector<std::string>& bases, FetchedSet& result) {
    const fs::path path = folder_ / file.name;
    if (fs::exists(path)) {
      if (const auto fact = difference(path, file, context_.env)) {
        throw Error(ErrorKind::kData, path.string() + ": is there already, but " + *fact,
                    "remove it, or fetch into another folder");
      }
      return;
    }
    const fs::path part = path.string() + ".part";
    const std::uint64_t before = fs::exists(part) ? fs::file_size(part) : 0;
    for (const std::string& base : bases) {
      try {
        fetch_from(address_of(base, file.name), file, part);
        result.bytes += file.bytes - std::min(before, file.bytes);
        result.fetched.push_back(file.name);
        if (::rename(part.c_str(), path.c_str()) != 0) throw io_error("rename", part, errno);
        sync_folder(folder_);
        return;
      } catch (const Error& error) {
        if (&base == &bases.back() || error.kind() == ErrorKind::kEnvironment) throw;
        context_.log.warning(std::string(error.what()) + "\n  trying the next address");
      }
    }
  }

  void unpack() {
    const fs::path beside = folder_ / ("." + set_.unpacks_to + ".unpacking");
    fs::remove_all(beside);
    make_folder(beside);
    for (const OnlineFile& file : set_.files) unpack(folder_ / file.name, beside);
    if (!fs::is_directory(beside / set_.unpacks_to)) {
      throw Error(ErrorKind::kData, "the files of '" + set_.name + "' hold no folder '" + set_.unpacks_to + "'",
                  "unpacks_to names the one that they hold");
    }
    const fs::path to = folder_ / set_.unpacks_to;
    if (::rename((beside / set_.unpacks_to).c_str(), to.c_str()) != 0) throw io_error("rename", beside, errno);
    sync_folder(folder_);
    fs::remove_all(beside);
    for (const OnlineFile& file : set_.files) fs::remove(folder_ / file.name);
  }

 private:
  void fetch_from(const std::string& url, const OnlineFile& file, const fs::path& part) {
    const bool is_continued = fs::exists(part) && fs::file_size(part) > 0;
    get(url, file, part);
    auto fact = difference(part, file, context_.env);
    if (fact && is_continued) {
      // The checksum may be wrong because of the part that an earlier call left. So try once more from the beginning.
      fs::remove(part);
      get(url, file, part);
      fact = difference(part, file, context_.env);
    }
    if (!fact) return;
    fs::remove(part);
    throw Error(ErrorKind::kData, url + ": what came " + *fact,
                "a proxy's page instead of the file, or another version of it: name a mirror with --from URL");
  }

  void get(const std::string& url, const OnlineFile& file, const fs::path& part) {
    if (fs::exists(part) && fs::file_size(part) == file.bytes) return;
    WorkBar bar(progress_options(2, 0, context_.env), file.name);
    download(url, part, context_.env, [&](std::uint64_t bytes) { bar.show(bytes, file.bytes); });
  }

  void unpack(const fs::path& archive, const fs::path& to) {
    if (archive.extension() == ".zip") {
      WorkBar bar(progress_options(2, 0, context_.env), "unpacking " + archive.filename().string());
      unpack_zip(archive, to, [&](std::uint64_t done, std::uint64_t all) { bar.show(done, all); });
      return;
    }
    // tar itself refuses names that lead out of the folder.
    const ProcessResult result = run_process({"tar", "-xzf", archive.string(), "-C", to.string()}, context_.env);
    if (result.exit_code == 0) return;
    const ErrorKind kind = result.exit_code == 127 ? ErrorKind::kEnvironment : ErrorKind::kIo;
    throw Error(kind, archive.string() + " cannot be unpacked: " + std::string(trimmed(result.errors)),
                "is there space for it? the archive stays, and the same command goes on from it");
  }

  const OnlineSet& set_;
  fs::path folder_;
  const Context& context_;
};

}  // namespace

FetchedSet fetch(const OnlineSet& set, const fs::path& folder, const std::string& mirror, const Context& context) {
  make_folder(folder);
  const FileDescriptor lock = locked(folder);
  FetchedSet result{.path = set.unpacks_to.empty() ? folder : folder / set.unpacks_to, .bytes = 0, .fetched = {}};
  if (!set.unpacks_to.empty() && fs::exists(result.path)) return result;
  const std::vector<std::string> bases = mirror.empty() ? set.from : std::vector<std::string>{mirror};
  Fetcher fetcher(set, folder, context);
  for (const OnlineFile& file : set.files) fetcher.fetch(file, bases, result);
  if (!set.unpacks_to.empty()) fetcher.unpack();
  return result;
}

}  // namespace lockstep::cli
