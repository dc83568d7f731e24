// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text_format.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// curl(1), EXIT CODES.
constexpr int kNoProxy = 5;
constexpr int kNoHost = 6;
constexpr int kNoConnection = 7;
constexpr int kHttpError = 22;
constexpr int kNoRanges = 33;
constexpr std::array<int, 7> kBroken = {16, 18, 28, 52, 55, 56, 92};
constexpr int kNotThere = 127;
// wget(1), EXIT STATUS.
constexpr int kWgetNetwork = 4;

/// Opens the file for appending, so that a download continues at its end.
class PartFile {
 public:
  explicit PartFile(const fs::path& path) : path_(path) {
    file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!file_) throw io_error("open", path, errno);
    bytes_ = fs::file_size(path);
  }

  std::uint64_t bytes() const { return bytes_; }

  void add(std::string_view text) {
    write_all(file_.get(), std::as_bytes(std::span(text)), path_);
    bytes_ += text.size();
  }

  void clear() {
    if (::ftruncate(file_.get(), 0) != 0) throw io_error("empty", path_, errno);
    bytes_ = 0;
  }

 private:
  fs::path path_;
  FileDescriptor file_;
  std::uint64_t bytes_ = 0;
};

std::vector<std::string> curl_command(const std::string& url, std::uint64_t from) {
  std::vector<std::string> command = {"curl", "--fail", "--location", "--silent", "--show-error", "--globoff"};
  // A redirect may lead from http to https, but never from https to http.
  const std::string redirects = url.starts_with("https:") ? "=https" : "=http,https";
  command.insert(command.end(), {"--proto", "=http,https,file", "--proto-redir", redirects});
  command.insert(command.end(), {"--connect-timeout", "30", "--speed-limit", "1", "--speed-time", "60"});
  if (from > 0) command.insert(command.end(), {"--continue-at", std::to_string(from)});
  command.insert(command.end(), {"--url", url});
  return command;
}

std::vector<std::string> wget_command(const std::string& url) {
  return {"wget", "--quiet", "--tries=1", "--timeout=60", "--output-document=-", url};
}

Error failure(const std::string& url, const std::string& said, int code) {
  const std::string name = url.substr(url.rfind('/') + 1);
  std::string hint = "run the same command again: it goes on where it stopped";
  if (code == kNoProxy || code == kNoHost || code == kNoConnection || code == kWgetNetwork) {
    hint = "compute nodes often have no network: fetch on a login node, behind a proxy set https_proxy; or copy " +
           name + " there by other means and run this again";
  } else if (code == kHttpError) {
    hint = "the file may have moved: name a mirror with --from URL";
  }
  return {ErrorKind::kIo, url + " cannot be fetched: " + (said.empty() ? "no reason given" : said), hint};
}

void download_by_wget(const std::string& url, PartFile& part, const Environment& env,
                      const std::function<void(std::string_view)>& take) {
  // wget does not report whether a server honoured a range, so each attempt starts from the file's beginning.
  part.clear();
  const ProcessResult result = run_process(wget_command(url), env, take);
  if (result.exit_code == kNotThere) {
    throw Error(ErrorKind::kEnvironment, "neither curl nor wget is in PATH, want one of them to fetch " + url,
                "install curl, or copy the file there by other means and run this again");
  }
  if (result.exit_code != 0) {
    const std::string said(last_line(result.errors));
    throw failure(url, said.empty() ? "wget ended with " + std::to_string(result.exit_code) : said, result.exit_code);
  }
}

}  // namespace

void download(const std::string& url, const fs::path& path, const Environment& env,
              const std::function<void(std::uint64_t bytes)>& tell) {
  PartFile part(path);
  const auto take = [&](std::string_view text) {
    part.add(text);
    tell(part.bytes());
  };
  while (true) {
    const std::uint64_t before = part.bytes();
    const ProcessResult result = run_process(curl_command(url, before), env, take);
    if (result.exit_code == 0) return;
    if (result.exit_code == kNotThere) return download_by_wget(url, part, env, take);
    // Status 416 means that the part is as long as the file, or longer.
    const bool is_beyond = result.exit_code == kHttpError && result.errors.find("416") != std::string::npos;
    const bool cannot_go_on = before > 0 && (result.exit_code == kNoRanges || is_beyond);
    const bool is_broken = std::ranges::find(kBroken, result.exit_code) != kBroken.end() && part.bytes() > before;
    if (cannot_go_on) {
      part.clear();
    } else if (!is_broken) {
      throw failure(url, std::string(last_line(result.errors)), result.exit_code);
    }
  }
}

std::string sha256_of(const fs::path& path, const Environment& env) {
  const ProcessResult result = run_process({"sha256sum", "--", path.string()}, env);
  if (result.exit_code == kNotThere) {
    throw Error(ErrorKind::kEnvironment, "sha256sum is not in PATH, want it to check what was fetched",
                "install coreutils");
  }
  // If the file's name has special characters, sha256sum prints a backslash before the checksum.
  const std::string sum = result.output.substr(result.output.starts_with('\\') ? 1 : 0, 64);
  if (result.exit_code != 0 || sum.size() != 64) {
    throw Error(ErrorKind::kIo,
                "sha256sum cannot read " + path.string() + ": " + std::string(last_line(result.errors)));
  }
  return sum;
}

}  // namespace lockstep::cli
