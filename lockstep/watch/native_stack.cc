// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/native_stack.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/elf.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

std::string folder_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

/// True if the process has a handler for the signal. Otherwise the signal would end it.
bool handles(pid_t pid, int signal) {
  for (const auto& line : split(text_or_nothing(folder_of(pid) + "/status"), '\n')) {
    if (!line.starts_with("SigCgt:")) continue;
    const auto digits = trimmed(std::string_view(line).substr(7));
    std::uint64_t caught = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), caught, 16);
    return signal > 0 && signal <= 64 && (caught >> static_cast<unsigned>(signal - 1) & 1U) != 0;
  }
  return false;
}

/// Sends the process the signal. If that cannot be done, returns the reason.
std::string ask(const PageLayout& page, pid_t pid) {
  const int signal = page.stack_signal.load(std::memory_order_acquire);
  const pid_t thread = page.thread.load(std::memory_order_relaxed);
  const bool is_second = page.magic.load(std::memory_order_acquire) == PageLayout::kMagic;
  if (!is_second || signal <= 0) return "the program writes no stack";
  const char state = process_state(pid);
  if (state == 'T' || state == 't') return "a stopped process writes no stack";
  if (state == '?' || state == 'Z') return "the process has ended";
  if (!handles(pid, signal)) return "the program writes no stack";
  if (::syscall(SYS_tgkill, pid, thread, signal) != 0) return "the thread is gone, or may not be asked";
  return {};
}

/// Waits in short naps, so that waiting takes no time from the process that answers.
bool wait_for(const std::function<bool()>& condition, milliseconds patience) {
  constexpr milliseconds kNap{2};
  const auto until = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

std::string no_answer(pid_t pid) {
  return process_state(pid) == 'D' ? "the process did not answer: it waits for a disk or a device within the kernel"
                                   : "the process did not answer in time";
}

/// A part of a process's memory that maps a file.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< Offset in the file.
  std::string path{};
};

std::vector<Mapping> mappings_of(pid_t pid) {
  std::vector<Mapping> all;
  for (const auto& line : split(text_or_nothing(folder_of(pid) + "/maps"), '\n')) {
    // A line is such as "55e0-55e1 r-xp 00001000 fd:00 1234   /usr/bin/x"
    Mapping each;
    const auto slash = line.find('/');
    const auto words = split(line, ' ');
    if (slash == std::string::npos || words.size() < 3) continue;
    const auto dash = words[0].find('-');
    const auto hex = [](std::string_view digits, std::uint64_t& to) {
      return std::from_chars(digits.data(), digits.data() + digits.size(), to, 16).ec == std::errc{};
    };
    if (dash == std::string::npos) continue;
    const std::string_view range = words[0];
    if (!hex(range.substr(0, dash), each.begin) || !hex(range.substr(dash + 1), each.end)) continue;
    if (!hex(words[2], each.offset)) continue;
    each.path = line.substr(slash);
    all.push_back(std::move(each));
  }
  return all;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

/// Returns the path of a file of the process, also if it lies in another mount namespace, as in a container.
std::string seen_by(pid_t pid, const std::string& path) {
  const auto inside = folder_of(pid) + "/root" + path;
  return ::access(inside.c_str(), R_OK) == 0 ? inside : path;
}

}  // namespace

std::vector<std::string> name_addresses(pid_t pid, const std::vector<std::uint64_t>& addresses) {
  const auto mappings = mappings_of(pid);
  std::vector<std::string> names;
  std::map<std::string, std::pair<std::vector<std::uint64_t>, std::vector<std::size_t>>> by_file;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto address = addresses[i];
    const auto at =
        std::ranges::find_if(mappings, [&](const auto& each) { return address >= each.begin && address < each.end; });
    if (at == mappings.end()) {
      names.push_back(hexadecimal(address));
      continue;
    }
    const auto offset = address - at->begin + at->offset;
    names.push_back(std::filesystem::path(at->path).filename().string() + "+" + hexadecimal(offset));
    by_file[at->path].first.push_back(offset);
    by_file[at->path].second.push_back(i);
  }
  for (const auto& [path, found] : by_file) {
    const auto functions = function_names(seen_by(pid, path), found.first);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      if (!functions[i].empty()) names[found.second[i]] = functions[i];
    }
  }
  return names;
}

ThreadStack read_native_stack(const PageLayout& page, pid_t pid, milliseconds patience) {
  const auto before = page.stack_lock.load(std::memory_order_acquire);
  if (page.text_descriptor.load(std::memory_order_relaxed) > 0) return {.note = "the program writes no native stack"};
  if (auto why = ask(page, pid); !why.empty()) return {.note = std::move(why)};
  const auto has_answered = [&] {
    const auto now = page.stack_lock.load(std::memory_order_acquire);
    return now > before && now % 2 == 0;
  };
  if (!wait_for(has_answered, patience)) return {.note = no_answer(pid)};
  const auto count = std::min<std::uint64_t>(page.frame_count.load(std::memory_order_relaxed), PageLayout::kMostFrames);
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < count; ++i) addresses.push_back(page.frames.at(i).load(std::memory_order_relaxed));
  return {.frames = name_addresses(pid, addresses)};
}

std::vector<std::string> faulthandler_frames(std::string_view text) {
  std::vector<std::string> frames;
  for (const auto& line : split(text, '\n')) {
    // A line is such as "  File "/x/train.py", line 31 in step".
    constexpr std::string_view kFile = "  File \"";
    constexpr std::string_view kLine = "\", line ";
    if (!line.starts_with(kFile)) {
      if (!frames.empty()) break;
      continue;
    }
    const auto end = line.rfind(kLine);
    const auto in = line.rfind(" in ");
    if (end == std::string::npos || in == std::string::npos || in < end) continue;
    const auto path = line.substr(kFile.size(), end - kFile.size());
    const auto number = line.substr(end + kLine.size(), in - end - kLine.size());
    frames.push_back(line.substr(in + 4) + " (" + std::filesystem::path(path).filename().string() + ":" + number + ")");
  }
  return frames;
}

ThreadStack read_text_stack(const PageLayout& page, pid_t pid, milliseconds patience) {
  const int descriptor = page.text_descriptor.load(std::memory_order_relaxed);
  if (page.magic.load(std::memory_order_acquire) != PageLayout::kMagic || descriptor <= 0) return {};
  const auto path = folder_of(pid) + "/fd/" + std::to_string(descriptor);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto size = [&] {
    struct stat status {};
    return ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : off_t{-1};
  };
  const auto before = size();
  if (!file || before < 0) return {.note = "the file of its Python stack cannot be read"};
  if (auto why = ask(page, pid); !why.empty()) return {.note = std::move(why)};
  if (!wait_for([&] { return size() > before; }, patience)) return {.note = no_answer(pid)};
  // The process writes its stack in pieces. So this waits until the file no longer grows.
  constexpr milliseconds kRest{20};
  std::string text;
  for (off_t seen = -1; seen != size();) {
    seen = size();
    std::this_thread::sleep_for(kRest);
  }
  std::array<char, 1 << 16> buffer{};
  const auto got = ::pread(file.get(), buffer.data(), buffer.size(), before);
  if (got > 0) text.assign(buffer.data(), static_cast<std::size_t>(got));
  return {.frames = faulthandler_frames(text), .note = text.empty() ? "the file of its Python stack is empty" : ""};
}

}  // namespace lockstep
