// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr int kMostCpus = 65536;

/// A set of CPUs as the kernel's calls take it, large enough for kMostCpus.
struct KernelSet {
  KernelSet() : bits(CPU_ALLOC(kMostCpus), [](cpu_set_t* set) { CPU_FREE(set); }) { CPU_ZERO_S(size, bits.get()); }

  std::size_t size = CPU_ALLOC_SIZE(kMostCpus);
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> bits;
};

[[noreturn]] void fail(std::string_view text, std::string_view wanted) {
  throw Error(ErrorKind::kEnvironment, "'" + std::string(text) + "' is not a set of CPUs, want " + std::string(wanted));
}

}  // namespace

CpuSet cpus_of_list(std::string_view text) {
  CpuSet cpus;
  text = trimmed(text);
  if (text.empty()) return cpus;
  for (const auto& range : split(text, ',')) {
    const auto ends = split(range, '-');
    const auto first = parsed_int<int>(ends.front());
    const auto last = parsed_int<int>(ends.back());
    if (ends.size() > 2 || !first || !last || *first < 0 || *first > *last || *last >= kMostCpus) {
      fail(text, "a list such as 0-3,8");
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpus.end(), cpu);
  }
  return cpus;
}

CpuSet cpus_of_mask(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  const bool is_hex = std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (digits.empty() || !is_hex || digits.size() * 4 > kMostCpus) fail(text, "a hexadecimal mask such as 0x00fe");
  CpuSet cpus;
  int lowest = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, lowest += 4) {
    const int value = std::stoi(std::string(1, *digit), nullptr, 16);
    for (int bit = 0; bit < 4; ++bit) {
      if ((value & (1 << bit)) != 0) cpus.insert(lowest + bit);
    }
  }
  return cpus;
}

std::string list_of(const CpuSet& cpus) {
  std::string text;
  for (auto first = cpus.begin(); first != cpus.end();) {
    auto next = std::next(first);
    int last = *first;
    while (next != cpus.end() && *next == last + 1) last = *next++;
    text += (text.empty() ? "" : ",") + std::to_string(*first);
    if (last != *first) text += "-" + std::to_string(last);
    first = next;
  }
  return text;
}

CpuSet common(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
  return both;
}

CpuSet cpus_of_process() {
  const KernelSet found;
  if (::sched_getaffinity(0, found.size, found.bits.get()) != 0) {
    throw Error(ErrorKind::kEnvironment, std::string("sched_getaffinity failed: ") + std::strerror(errno));
  }
  CpuSet cpus;
  const int count = CPU_COUNT_S(found.size, found.bits.get());
  for (int cpu = 0; static_cast<int>(cpus.size()) < count; ++cpu) {
    if (CPU_ISSET_S(cpu, found.size, found.bits.get())) cpus.insert(cpus.end(), cpu);
  }
  return cpus;
}

CpuSet bind_process(const CpuSet& cpus) {
  const KernelSet wanted;
  for (const int cpu : cpus) CPU_SET_S(cpu, wanted.size, wanted.bits.get());
  if (::sched_setaffinity(0, wanted.size, wanted.bits.get()) != 0) return {};
  return cpus_of_process();
}

}  // namespace lockstep
