// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/bundle.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/cluster/profile/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLogs = 64;
constexpr std::size_t kMostOfFile = std::size_t{512} << 10U;  // Of its beginning, and as much of its end.
constexpr std::size_t kShortestSecret = 6;                    // A shorter value stands in ordinary words.
constexpr std::size_t kTarBlock = 512;
constexpr const char* kLeftOut = "[left out]";

constexpr std::array<std::string_view, 10> kSecretWords = {"TOKEN",      "KEY",        "PASSWORD", "SECRET", "PASSWD",
                                                           "PASSPHRASE", "CREDENTIAL", "COOKIE",   "_AUTH",  "_PWD"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the end of the value that begins at `at`. A value ends at its closing quote or at the next white space.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    const auto close = text.find(text[at], at + 1);
    const auto line = text.find('\n', at);
    return std::min(close == std::string_view::npos ? text.size() : close + 1, line);
  }
  return std::min(text.find_first_of(" \t\r\n,;&|)", at), text.size());
}

/// Returns the beginning of the value that follows a name which ends at `at`. Returns `at` if the name has no value.
std::size_t begin_of_value(std::string_view text, std::size_t at, bool is_option) {
  std::size_t after = at;
  if (after < text.size() && (text[after] == '"' || text[after] == '\'')) ++after;
  while (after < text.size() && text[after] == ' ') ++after;
  if (after < text.size() && (text[after] == '=' || text[after] == ':')) {
    ++after;
    while (after < text.size() && text[after] == ' ') ++after;
    return after;
  }
  return is_option && after > at ? after : at;  // "--api-key VALUE"
}

std::string without_named(std::string_view text) {
  std::string clean;
  std::size_t at = 0;
  while (at < text.size()) {
    if (!is_word(text[at])) {
      clean += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto name = text.substr(at, end - at);
    const bool is_option = at > 0 && text[at - 1] == '-';
    clean += name;
    at = end;
    if (!is_secret(name)) continue;
    const auto begin = begin_of_value(text, end, is_option);
    if (begin == end || begin >= text.size() || text[begin] == '\n') continue;
    clean += text.substr(end, begin - end);
    clean += kLeftOut;
    at = end_of_value(text, begin);
  }
  return clean;
}

/// "https://user:word@host" without the word.
std::string without_passwords(std::string text) {
  for (auto at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const auto end = text.find_first_of(" \t\n/'\"", at + 3);
    const auto sign = text.find('@', at + 3);
    const auto colon = text.find(':', at + 3);
    if (sign == std::string::npos || colon == std::string::npos || colon > sign || sign > end) continue;
    text.replace(colon + 1, sign - colon - 1, kLeftOut);
  }
  return text;
}

void replace_all(std::string& text, const std::string& what) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), kLeftOut);
    at += std::strlen(kLeftOut);
  }
}

std::string cut(std::string text) {
  if (text.size() <= 2 * kMostOfFile) return text;
  const auto left_out = text.size() - 2 * kMostOfFile;
  return text.substr(0, kMostOfFile) + "\n[" + human_bytes(left_out) + " left out]\n" +
         text.substr(text.size() - kMostOfFile);
}

std::string environment_text(const Environment& env) {
  std::string text;
  for (const auto& [name, value] : env.all()) text += name + "=" + (is_secret(name) ? kLeftOut : value) + "\n";
  return text;
}

std::string layout_text(const DoctorContext& of) {
  const auto& at = of.at;
  return "source " + at.source + "\nrank " + std::to_string(at.rank) + " of " + std::to_string(at.world) +
         "\nlocal rank " + std::to_string(at.local_rank) + " of " + std::to_string(at.local_world) + "\nnode " +
         std::to_string(at.node_rank) + " of " + std::to_string(at.nodes) + "\njob " + at.job + "\nhosts " +
         joined(at.hosts, " ") + "\nCPUs " + list_of(of.system.allowed) + "\n";
}

std::string machine_text(const DoctorContext& of) {
  std::string text = "host " + of.host + "\n";
  for (const auto& each : of.system.interfaces) {
    text += each.name + (each.is_up ? " up " : " down ") + joined(each.addresses, " ") + "\n";
  }
  for (const char* file : {"/proc/version", "/proc/self/limits", "/proc/meminfo", "/proc/driver/nvidia/version",
                           "/sys/module/amdgpu/version", "/etc/os-release", "/proc/self/mountinfo"}) {
    const auto content = text_or_nothing(of.at_root(file));
    if (!content.empty()) text += std::string("\n") + file + "\n" + content;
  }
  return text;
}

void add_tools(const DoctorContext& of, std::vector<BundleFile>& files) {
  if (!of.system.run) return;
  std::vector<std::pair<std::string, std::vector<std::string>>> tools = {
      {"slurm-version.txt", {"sinfo", "--version"}},
      {"nvidia-smi.txt", {"nvidia-smi", "-q"}},
      {"nvidia-topology.txt", {"nvidia-smi", "topo", "-m"}},
      {"rocm-smi.txt", {"rocm-smi", "--showall"}},
      {"libraries.txt", {"ldconfig", "-p"}}};
  if (const auto job = of.env.get("SLURM_JOB_ID")) tools.push_back({"job.txt", {"scontrol", "show", "job", *job}});
  for (auto& [name, command] : tools) {
    command.insert(command.begin(), {"timeout", "10"});
    const auto answer = of.system.run(command);
    if (answer.exit_code == 0) files.push_back({"tools/" + name, answer.output});
  }
}

void add_run(const DoctorContext& of, std::vector<BundleFile>& files) {
  std::vector<fs::path> paths = of.run.logs;
  if (!of.run.run_dir.empty()) {
    for (const char* name : {"job.sh", "job.json", "recipe.toml", "layout.json", "result.json"}) {
      paths.push_back(of.run.run_dir / name);
    }
    for (const auto& name : names_in(of.at_root(of.run.run_dir) / "logs")) {
      if (paths.size() < kMostLogs) paths.push_back(of.run.run_dir / "logs" / name);
    }
  }
  for (const auto& path : paths) {
    auto text = text_or_nothing(of.at_root(path));
    const bool is_log = path.parent_path().filename() == "logs";
    if (!text.empty()) files.push_back({(is_log ? "run/logs/" : "run/") + path.filename().string(), std::move(text)});
  }
}

/// Returns a header of the ustar format. Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::string tar_header(const BundleFile& file, const std::string& folder) {
  const auto name = (folder + "/" + file.name).substr(0, 99);
  std::array<char, kTarBlock> block{};
  const auto put = [&](std::size_t at, const std::string& text) { std::copy(text.begin(), text.end(), &block.at(at)); };
  const auto octal = [](std::uint64_t value, int digits) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "%0*llo", digits, static_cast<unsigned long long>(value));
    return std::string(text.data());
  };
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  put(0, name);
  put(100, "0000600");
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(file.text.size(), 11));
  put(136, octal(static_cast<std::uint64_t>(now.count()), 11));
  put(148, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  std::uint64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6));
  block.at(154) = '\0';
  return {block.begin(), block.end()};
}

void write_archive(const fs::path& path, const std::vector<BundleFile>& files) {
  const auto folder = split(path.filename().string(), '.').front();
  std::string tar;
  for (const auto& file : files) {
    tar += tar_header(file, folder) + file.text;
    tar.append((kTarBlock - file.text.size() % kTarBlock) % kTarBlock, '\0');
  }
  tar.append(2 * kTarBlock, '\0');
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw io_error("write", path, errno);
  const std::unique_ptr<gzFile_s, decltype(&::gzclose)> out(::gzdopen(fd, "wb"), &::gzclose);
  const auto size = static_cast<unsigned>(tar.size());
  if (!out || ::gzwrite(out.get(), tar.data(), size) != static_cast<int>(size) ||
      ::gzflush(out.get(), Z_FINISH) != Z_OK) {
    throw io_error("write", path, errno);
  }
}

void write_folder(const fs::path& path, const std::vector<BundleFile>& files) {
  make_folder(path);
  ::chmod(path.c_str(), 0700);
  for (const auto& file : files) {
    make_folder((path / file.name).parent_path());
    write_whole(path / file.name, file.text, /*durable=*/false);
  }
}

}  // namespace

bool is_secret(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::ranges::any_of(kSecretWords, [&](auto word) { return upper.find(word) != std::string::npos; });
}

std::string without_secrets(std::string_view text, const Environment& env) {
  std::string clean = without_passwords(without_named(text));
  for (const auto& [name, value] : env.all()) {
    if (is_secret(name) && value.size() >= kShortestSecret) replace_all(clean, value);
  }
  return clean;
}

std::vector<BundleFile> bundle_files(const DoctorContext& of, const std::string& report, const std::string& version) {
  std::vector<BundleFile> files = {{"report.json", report},
                                   {"version.txt", version + "\n"},
                                   {"environment.txt", environment_text(of.env)},
                                   {"layout.txt", layout_text(of)},
                                   {"machine.txt", machine_text(of)},
                                   {"profile.toml", to_toml(of.profile, /*with_origin=*/true)}};
  add_run(of, files);
  add_tools(of, files);
  for (auto& file : files) file.text = without_secrets(cut(std::move(file.text)), of.env);
  return files;
}

void write_bundle(const fs::path& path, const std::vector<BundleFile>& files) {
  const auto name = path.filename().string();
  std::error_code none;
  if (fs::exists(path, none)) {
    throw Error(ErrorKind::kUsage, "'" + path.string() + "' is there already", "name a bundle that is not there yet");
  }
  if (name.ends_with(".tar.gz") || name.ends_with(".tgz")) {
    write_archive(path, files);
  } else {
    write_folder(path, files);
  }
}

}  // namespace lockstep
