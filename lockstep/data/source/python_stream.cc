// SPDX-License-Identifier: Apache-2.0
// How a stream of samples comes from Python. For each pass over the data set the server forks PythonData::workers
// processes. Each iterates over it, and lays one sample after the other into the slots of memory that it shares with
// us, at most kSlots ahead. It tells of each by an empty message, and of its end by {"end": count}. We answer each
// sample that we have taken by a byte, so that its slot may be used again.
//
// `mutex_` guards the pass, since a reader may decode on several threads; a stream is read by one of them at a time.
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
constexpr std::size_t kMostBytes = std::size_t{32} << 20;  // Of one worker's memory.
constexpr std::int64_t kCompared = 3;                      // Samples that two workers may not both begin with.

/// One process in the middle of a pass.
struct Runner {
  PythonWorker worker;
  std::int64_t taken = 0;
  std::uint64_t beginning = 0;  ///< Checksum of its first samples.
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

  // Goes to the next worker that has a sample. Null if none has.
  Runner* next_runner() const {
    for (std::size_t tried = 0; tried < runners_.size(); ++tried) {
      auto& runner = runners_[turn_];
      turn_ = (turn_ + 1) % runners_.size();
      if (!runner.has_ended) runner.has_ended = !runner.worker.next_message().is_null();
      if (!runner.has_ended) return &runner;
    }
    return nullptr;
  }

  // An empty `to` skips the sample.
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

  // A data set that does not share itself out among workers gives each sample as often as there are workers.
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
  mutable std::size_t turn_ = 0;  ///< Of the worker that gives the next sample.
  mutable std::uint64_t seed_ = 0;
  mutable std::int64_t epoch_ = 0;
  mutable std::int64_t pass_ = 0;  ///< Within the epoch.
  mutable std::int64_t next_ = 0;  ///< Ordinal of the next sample.
};

}  // namespace

std::shared_ptr<const SampleSource> python_stream(std::shared_ptr<PythonServer> server, std::string split,
                                                  const Json& part) {
  return std::make_shared<PythonStream>(std::move(server), std::move(split), part);
}

}  // namespace lockstep
