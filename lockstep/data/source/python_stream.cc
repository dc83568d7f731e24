// SPDX-License-Identifier: Apache-2.0
// How a stream of samples comes from Python. For each pass over the data set the server forks PythonData::workers
// worker processes. Each iterates over the data set. It lays one sample after the other into slots of memory that it
// shares with this process, at most kSlots ahead. For each sample it sends an empty message, and at its end
// {"end": count}. This process answers each sample that it has taken by a byte, so that its slot may be used again.
//
// A reader may decode on several threads, so `mutex_` lets one of them at a time read the stream.
// python/lockstep_host/streams.py is the other side.
#include "lockstep/data/source/python_stream.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostSlots = 64;
constexpr std::size_t kMostBytes = std::size_t{32} << 20;  // Size of one worker's memory, at most.
constexpr std::int64_t kCompared = 3;                      // First samples by which two workers are compared.

/// One process in the middle of a pass.
struct Runner {
  PythonWorker worker;
  std::int64_t taken = 0;
  std::uint64_t beginning = 0;  ///< Checksum of the worker's first samples.
  bool has_ended = false;
};

class PythonStream final : public SampleSource {
 public:
  PythonStream(std::shared_ptr<PythonServer> server, std::string split, const Json& part)
      : server_(std::move(server)), split_(std::move(split)), size_(part.at("size")), classes_(part.at("classes")) {
    for (const auto& each : part.at("fields")) {
      fields_.push_back({each.at("name"), each.at("dtype"), each.at("shape").get<std::vector<std::int64_t>>()});
      bytes_ += fields_.back().bytes();
    }
    slots_ = std::clamp<std::size_t>(kMostBytes / std::max<std::size_t>(bytes_, 1), 2, kMostSlots);
  }

  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  bool is_stream() const override { return true; }
  std::string name_of(std::int64_t id) const override {
    return "place " + std::to_string(id) + " of the stream " + server_->data().function + " (" + split_ + ")";
  }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const std::lock_guard lock(mutex_);
    const auto ordinal = std::max<std::int64_t>(key.ordinal, 0);
    if (runners_.empty() || key.epoch != epoch_ || ordinal < next_) begin(key);
    while (next_ < ordinal) take({});
    take(to);
  }

 private:
  void begin(const SampleKey& key) const {
    seed_ = key.seed;
    epoch_ = key.epoch;
    next_ = 0;
    pass_ = 0;
    start_pass();
  }

  void start_pass() const {
    runners_.clear();
    turn_ = 0;
    const auto workers = std::max(server_->data().workers, 1);
    for (int i = 0; i < workers; ++i) {
      const Json stream = {{"worker", i},   {"workers", workers}, {"slots", slots_},
                           {"seed", seed_}, {"epoch", epoch_},    {"pass", pass_}};
      runners_.push_back({.worker = server_->fork({{"split", split_}, {"stream", stream}}, slots_ * bytes_)});
    }
  }

  // Goes to the next worker that has a sample, and returns it. Returns null if none has one.
  Runner* next_runner() const {
    for (std::size_t tried = 0; tried < runners_.size(); ++tried) {
      auto& runner = runners_[turn_];
      turn_ = (turn_ + 1) % runners_.size();
      if (!runner.has_ended) runner.has_ended = !runner.worker.next_message().is_null();
      if (!runner.has_ended) return &runner;
    }
    return nullptr;
  }

  // If `to` is empty, the sample is skipped.
  void take(std::span<std::byte* const> to) const {
    auto* runner = next_runner();
    if (runner == nullptr) {
      require_some();
      ++pass_;
      start_pass();
      runner = next_runner();
      if (runner == nullptr) require_some();
    }
    const auto slot = static_cast<std::size_t>(runner->taken) % slots_;
    const auto* from = runner->worker.memory() + slot * bytes_;
    if (runner->taken < kCompared) compare(*runner, from);
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::memcpy(to[i], from, fields_[i].bytes());
      from += fields_[i].bytes();
    }
    constexpr std::byte kTaken{1};
    runner->worker.send(&kTaken, 1);
    ++runner->taken;
    ++next_;
  }

  void require_some() const {
    if (std::ranges::any_of(runners_, [](const auto& each) { return each.taken > 0; })) return;
    throw Error(ErrorKind::kData, "it gives no samples in epoch " + std::to_string(epoch_),
                "does each worker get some? There are " + std::to_string(runners_.size()) + " on each of " +
                    std::to_string(server_->data().world) + " ranks: lower data.workers, or make more shards");
  }

  // If a data set does not divide its samples among workers, each sample comes as often as there are workers.
  void compare(Runner& runner, const std::byte* sample) const {
    runner.beginning = mixed(runner.beginning, xxh3_64({sample, bytes_}));
    if (runner.taken + 1 < kCompared) return;
    for (const auto& other : runners_) {
      if (&other == &runner || other.taken < kCompared || other.beginning != runner.beginning) continue;
      throw Error(ErrorKind::kData, "two workers begin with the same samples",
                  "share the data out by torch.utils.data.get_worker_info(), as for PyTorch's DataLoader, or set "
                  "data.workers = 1");
    }
  }

  std::shared_ptr<PythonServer> server_;
  std::string split_;
  std::int64_t size_ = 0;
  std::int64_t classes_ = 0;
  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  std::size_t slots_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<Runner> runners_;
  mutable std::size_t turn_ = 0;  ///< Index of the worker that gives the next sample.
  mutable std::uint64_t seed_ = 0;
  mutable std::int64_t epoch_ = 0;
  mutable std::int64_t pass_ = 0;  ///< Number of passes over the data set in this epoch, so far.
  mutable std::int64_t next_ = 0;  ///< Number of the next sample in the epoch.
};

}  // namespace

std::shared_ptr<const SampleSource> python_stream(std::shared_ptr<PythonServer> server, std::string split,
                                                  const Json& part) {
  return std::make_shared<PythonStream>(std::move(server), std::move(split), part);
}

}  // namespace lockstep
