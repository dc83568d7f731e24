// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/verify.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// State shared by the threads.
struct Search {
  const SampleSource& source;
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::vector<BadSample> bad;     ///< Guarded.
  std::exception_ptr unforeseen;  ///< Guarded.

  void try_sample(std::int64_t id, std::span<std::byte* const> to) {
    try {
      source.read({.seed = 0, .epoch = 0, .id = id}, to);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kIo) throw;
      const std::lock_guard lock(mutex);
      bad.push_back({.id = id, .name = source.name_of(id), .fact = error.what()});
    }
  }

  /// Reads samples until none are left, and calls `after_each` after each sample.
  void run(const std::function<void(std::int64_t)>& after_each) {
    try {
      std::vector<std::vector<std::byte>> memory;
      std::vector<std::byte*> to;
      for (const Field& field : source.fields()) to.push_back(memory.emplace_back(field.bytes()).data());
      for (std::int64_t id = next++; id < source.size(); id = next++) {
        try_sample(id, to);
        after_each(id + 1);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      unforeseen = std::current_exception();
      next = source.size();
    }
  }
};

}  // namespace

std::vector<BadSample> bad_samples(const SampleSource& source, int threads,
                                   const std::function<void(std::int64_t done)>& tell) {
  if (threads < 1) throw Error(ErrorKind::kUsage, "threads is " + std::to_string(threads) + ", want 1 or more");
  Search search{.source = source, .next = 0, .mutex = {}, .bad = {}, .unforeseen = {}};
  const std::int64_t between = std::max<std::int64_t>(source.size() / 100, 1);
  std::int64_t told = 0;
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&] { search.run([](std::int64_t) {}); });
    search.run([&](std::int64_t done) {
      if (done - told < between) return;
      told = done;
      tell(done);
    });
  }
  if (search.unforeseen) std::rethrow_exception(search.unforeseen);
  tell(source.size());
  std::ranges::sort(search.bad, {}, &BadSample::id);
  return search.bad;
}

}  // namespace lockstep
