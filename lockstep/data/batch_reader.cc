// SPDX-License-Identifier: Apache-2.0
// How workers and the caller share the batches. `tasks` holds the batches in order of delivery. The caller's thread
// alone appends to it and takes from its front. A worker takes the first task with unclaimed rows, claims a chunk of
// them under the mutex, and decodes it with the mutex released. So several workers decode one batch, and they finish
// the front batch before they begin the next.
//
// A task's rows go from unclaimed to claimed to finished. `claimed` and `finished` count them, and the mutex guards
// both. Between the two, the claimant alone writes the rows' ids and memory. When all rows are finished, next() may
// deliver the batch. If the front batch has unclaimed rows, next() decodes too instead of waiting.
//
// A read that throws ends its chunk, and the other chunks are still decoded. The task keeps the failure of its lowest
// row, so the error does not depend on the number of workers. next() throws it with the sample's name, and leaves the
// task in place, so each further call throws it again. A seek to another place, or after a failure, drops all tasks. It
// tells workers to stop within their chunk and waits until none is decoding, since they write into the tasks' memory.
#include "lockstep/data/batch_reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/epoch_order.h"
#include "lockstep/data/wait_note.h"

namespace lockstep {
namespace {

/// Rows [begin, end) of a batch, which one thread decodes at a time.
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Failure {
  std::int64_t row = 0;
  std::exception_ptr error;
};

/// A batch that is being read. State::mutex guards `claimed`, `finished` and `failure`. Until a row is finished, its id
/// and memory belong to the thread that has claimed it.
struct Task {
  LoadedBatch batch{};
  EpochOrder order;
  std::int64_t part_begin = 0;
  std::int64_t rows_before = 0;  ///< Of this reader, in this epoch.
  std::int64_t chunk_rows = 1;
  std::int64_t claimed = 0;
  std::int64_t finished = 0;
  std::optional<Failure> failure{};

  std::int64_t rows() const { return static_cast<std::int64_t>(batch.ids.size()); }
  bool is_claimed() const { return claimed == rows(); }
  bool is_decoded() const { return finished == rows(); }

  Chunk claim() {
    const Chunk chunk{claimed, std::min(claimed + chunk_rows, rows())};
    claimed = chunk.end;
    return chunk;
  }
};

/// The sample that a thread is at. State::mutex guards `task`.
struct Reading {
  const Task* task = nullptr;
  std::atomic<std::int64_t> id{-1};
};

/// The position of a batch: its epoch and its first index in the epoch's order.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t place = 0;

  bool operator==(const Position&) const = default;
};

// A batch has so many chunks that workers end it at nearly the same time, but so few that claiming them costs almost
// nothing.
constexpr std::int64_t kChunksPerThread = 4;

void require(bool holds, const std::string& fact, const std::string& hint = {}) {
  if (!holds) throw Error(ErrorKind::kUsage, fact, hint);
}

BatchReaderOptions checked(const SampleSource& source, BatchReaderOptions options) {
  if (source.size() < 1) {
    throw Error(ErrorKind::kData, "the data set is empty, want at least one sample",
                "look at data.path and data.split");
  }
  require(options.workers >= -1, "workers is " + std::to_string(options.workers) + ", want 0 or more, or -1 to choose");
  if (source.is_stream()) {
    options.workers = 0;
    options.shuffle = false;
  }
  if (options.workers == -1) options.workers = source.is_in_memory() ? 0 : 2;
  const auto rows = std::max<std::int64_t>(1, part_of({0, options.global_batch}, options.shard).size());
  if (options.prefetch == -1) {
    options.prefetch =
        static_cast<int>(std::max<std::int64_t>(2, (std::int64_t{2} * options.workers + rows - 1) / rows));
  }
  require(options.workers == 0 || options.prefetch >= 1,
          "prefetch is " + std::to_string(options.prefetch) + ", want 1 or more", "workers = 0 reads nothing ahead");
  if (options.workers == 0) options.prefetch = 0;
  require(batches_in_epoch(source.size(), options.global_batch, options.drop_last) > 0,
          "global_batch is " + std::to_string(options.global_batch) + " with drop_last, want at most the data set's " +
              std::to_string(source.size()) + " samples",
          "without drop_last the short batch is used");
  return options;
}

}  // namespace

struct BatchReader::State {
  State(const SampleSource& from, const BatchReaderOptions& checked_options, BatchAllocator allocator);

  void run_worker(const std::stop_token& stop, Reading& reading);
  Task* unclaimed_task();
  void decode(Task& task, std::unique_lock<std::mutex>& lock, Reading& reading);
  std::optional<Failure> rows_read(Task& task, Chunk chunk, Reading& reading) const;
  void wait_for_worker(const Task& task, std::unique_lock<std::mutex>& lock);
  void schedule(int count);
  Task task_at(Position position) const;
  IndexRange batch_at(std::int64_t place) const;
  std::int64_t rows_before(std::int64_t place) const;
  bool is_epoch_end(std::int64_t place) const;
  bool is_first_task(Position position);
  void drop_tasks();
  [[noreturn]] void throw_named(const Task& task) const;

  const SampleSource& source;
  const BatchReaderOptions options;
  const BatchAllocator allocate;
  std::vector<std::size_t> field_bytes;

  Position upcoming;   ///< The position that next() returns, ends of epochs included.
  Position scheduled;  ///< The position that schedule() appends.

  std::mutex mutex;
  std::condition_variable_any work_added;
  std::condition_variable chunk_ended;
  std::deque<Task> tasks;  ///< In order of delivery. The mutex guards it. Only the caller's thread adds and removes
                           ///< tasks.
  int decoding = 0;        ///< Chunks that threads are at. Guarded.
  std::atomic<bool> is_dropping = false;
  std::deque<Reading> readings;  ///< One for each worker, and the caller's own as the last.

  std::vector<std::jthread> threads;
};

BatchReader::State::State(const SampleSource& from, const BatchReaderOptions& checked_options, BatchAllocator allocator)
    : source(from), options(checked_options), allocate(std::move(allocator)) {
  for (const Field& field : source.fields()) field_bytes.push_back(field.bytes());
  for (int i = 0; i <= options.workers; ++i) readings.emplace_back();
  try {
    for (int i = 0; i < options.workers; ++i) {
      auto& reading = readings[static_cast<std::size_t>(i)];
      threads.emplace_back([this, &reading](const std::stop_token& stop) { run_worker(stop, reading); });
    }
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kEnvironment,
                "worker " + std::to_string(threads.size()) + " of " + std::to_string(options.workers) +
                    " did not start: " + error.code().message(),
                "set fewer data.workers, or raise the limit on threads (ulimit -u)");
  }
}

void BatchReader::State::run_worker(const std::stop_token& stop, Reading& reading) {
  std::unique_lock lock(mutex);
  while (work_added.wait(lock, stop, [this] { return unclaimed_task() != nullptr; })) {
    Task* task = unclaimed_task();
    decode(*task, lock, reading);
  }
}

/// Returns the first batch with unclaimed rows. The caller holds the mutex.
Task* BatchReader::State::unclaimed_task() {
  if (is_dropping.load(std::memory_order_relaxed)) return nullptr;
  const auto found = std::ranges::find_if(tasks, [](const Task& task) { return !task.is_claimed(); });
  return found == tasks.end() ? nullptr : &*found;
}

/// Claims a chunk of `task` and decodes it, with the mutex released meanwhile.
void BatchReader::State::decode(Task& task, std::unique_lock<std::mutex>& lock, Reading& reading) {
  const Chunk chunk = task.claim();
  reading.id.store(-1, std::memory_order_relaxed);
  reading.task = &task;
  ++decoding;
  // Each worker that found work wakes the next worker, so the caller wakes only one.
  const bool is_more_left = unclaimed_task() != nullptr;
  lock.unlock();
  if (is_more_left) work_added.notify_one();
  std::optional<Failure> failure = rows_read(task, chunk, reading);
  lock.lock();
  reading.task = nullptr;
  --decoding;
  if (failure && (!task.failure || failure->row < task.failure->row)) task.failure = std::move(failure);
  task.finished += chunk.end - chunk.begin;
  if (task.is_decoded() || is_dropping.load(std::memory_order_relaxed)) chunk_ended.notify_one();
}

std::optional<Failure> BatchReader::State::rows_read(Task& task, Chunk chunk, Reading& reading) const {
  const auto* const note = &reading == &readings.back() ? WaitNote::current() : nullptr;
  std::int64_t row = chunk.begin;
  try {
    const std::span<std::int64_t> ids(task.batch.ids);
    task.order.take(task.part_begin + chunk.begin, ids.subspan(chunk.begin, chunk.end - chunk.begin));
    std::vector<std::byte*> to = task.batch.memory.fields;
    for (std::size_t f = 0; f < to.size(); ++f) to[f] += static_cast<std::size_t>(row) * field_bytes[f];
    for (; row < chunk.end && !is_dropping.load(std::memory_order_relaxed); ++row) {
      reading.id.store(ids[row], std::memory_order_relaxed);
      if (note != nullptr) note->tell(ids[row]);
      source.read({.seed = options.seed, .epoch = task.batch.epoch, .id = ids[row], .ordinal = task.rows_before + row},
                  to);
      for (std::size_t f = 0; f < to.size(); ++f) to[f] += field_bytes[f];
    }
    return {};
  } catch (...) {
    return Failure{row, std::current_exception()};
  }
}

/// Returns once a chunk has ended, perhaps one of another batch. The caller holds the mutex.
void BatchReader::State::wait_for_worker(const Task& task, std::unique_lock<std::mutex>& lock) {
  const auto* const note = WaitNote::current();
  if (note == nullptr) return chunk_ended.wait(lock);
  if (chunk_ended.wait_for(lock, std::chrono::seconds(1)) != std::cv_status::timeout) return;
  const auto at = std::ranges::find(readings, &task, &Reading::task);
  if (at != readings.end()) note->tell(at->id.load(std::memory_order_relaxed));
}

/// Appends tasks until `count` batches are being read.
void BatchReader::State::schedule(int count) {
  while (static_cast<int>(tasks.size()) < count) {
    Task task = task_at(scheduled);
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    work_added.notify_one();
    scheduled.place = batch_at(scheduled.place).end;
    if (is_epoch_end(scheduled.place)) scheduled = {scheduled.epoch + 1, 0};
  }
}

IndexRange BatchReader::State::batch_at(std::int64_t place) const {
  return {place, place + std::min(options.global_batch, source.size() - place)};
}

bool BatchReader::State::is_epoch_end(std::int64_t place) const {
  return batch_at(place).size() < (options.drop_last ? options.global_batch : 1);
}

std::int64_t BatchReader::State::rows_before(std::int64_t place) const {
  const auto whole = place / options.global_batch * part_of({0, options.global_batch}, options.shard).size();
  return whole + part_of({0, place % options.global_batch}, options.shard).size();
}

Task BatchReader::State::task_at(Position position) const {
  const IndexRange whole = batch_at(position.place);
  const IndexRange part = part_of(whole, options.shard);
  Task task{.order = EpochOrder(source.size(), options.seed, position.epoch, options.shuffle),
            .part_begin = part.begin,
            .rows_before = rows_before(position.place)};
  task.batch.epoch = position.epoch;
  task.batch.index = position.place / options.global_batch;
  task.batch.first_place = position.place;
  task.batch.global_samples = whole.size();
  task.batch.ids.resize(static_cast<std::size_t>(part.size()));
  task.batch.memory = allocate(part.size());
  require(task.batch.memory.fields.size() == field_bytes.size(),
          "the allocator gave memory for " + std::to_string(task.batch.memory.fields.size()) + " fields, want " +
              std::to_string(field_bytes.size()));
  const std::int64_t chunks = options.workers > 0 ? kChunksPerThread * options.workers : 1;
  task.chunk_rows = std::max<std::int64_t>(1, (part.size() + chunks - 1) / chunks);
  return task;
}

/// True if the front task is the batch at `position`. A batch that failed does not count, so a seek to it reads it
/// again.
bool BatchReader::State::is_first_task(Position position) {
  const std::lock_guard lock(mutex);
  if (tasks.empty() || tasks.front().failure) return false;
  return Position{tasks.front().batch.epoch, tasks.front().batch.first_place} == position;
}

void BatchReader::State::drop_tasks() {
  std::deque<Task> dropped;
  {
    std::unique_lock lock(mutex);
    is_dropping.store(true, std::memory_order_relaxed);
    chunk_ended.wait(lock, [this] { return decoding == 0; });
    dropped.swap(tasks);
    is_dropping.store(false, std::memory_order_relaxed);
  }
}

void BatchReader::State::throw_named(const Task& task) const {
  const std::string name = source.name_of(task.batch.ids[static_cast<std::size_t>(task.failure->row)]);
  try {
    std::rethrow_exception(task.failure->error);
  } catch (const Error& error) {
    throw Error(error.kind(), name + ": " + std::string(error.fact()), error.hint());
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kBug, name + ": " + error.what());
  }
}

BatchReader::BatchReader(const SampleSource& source, BatchReaderOptions options, BatchAllocator allocate)
    : state_(std::make_unique<State>(source, checked(source, options), std::move(allocate))) {}

BatchReader::~BatchReader() { state_->drop_tasks(); }

const BatchReaderOptions& BatchReader::options() const { return state_->options; }

std::int64_t BatchReader::batches() const {
  return batches_in_epoch(state_->source.size(), state_->options.global_batch, state_->options.drop_last);
}

void BatchReader::seek(std::int64_t epoch, std::int64_t batch) {
  require(batch >= 0 && batch <= batches(),
          "seek to batch " + std::to_string(batch) + ", want 0 to " + std::to_string(batches()));
  const std::int64_t size = state_->source.size();
  seek_place(epoch, batch > size / state_->options.global_batch ? size : batch * state_->options.global_batch);
}

void BatchReader::seek_place(std::int64_t epoch, std::int64_t place) {
  State& s = *state_;
  require(epoch >= 0, "seek to epoch " + std::to_string(epoch) + ", want 0 or more");
  require(place >= 0 && place <= s.source.size(),
          "seek to place " + std::to_string(place) + ", want 0 to " + std::to_string(s.source.size()));
  s.upcoming = {epoch, place};
  const Position first = s.is_epoch_end(place) ? Position{epoch + 1, 0} : s.upcoming;
  if (!s.is_first_task(first)) {
    s.drop_tasks();
    s.scheduled = first;
  }
  s.schedule(s.options.prefetch);
}

std::optional<LoadedBatch> BatchReader::next() {
  State& s = *state_;
  if (s.is_epoch_end(s.upcoming.place)) {
    s.upcoming = {s.upcoming.epoch + 1, 0};
    return {};
  }
  s.schedule(s.options.prefetch + 1);
  std::unique_lock lock(s.mutex);
  Task& task = s.tasks.front();
  while (!task.is_decoded()) {
    if (task.is_claimed()) {
      s.wait_for_worker(task, lock);
    } else {
      s.decode(task, lock, s.readings.back());
    }
  }
  if (task.failure) s.throw_named(task);
  LoadedBatch batch = std::move(task.batch);
  s.tasks.pop_front();
  s.upcoming.place = s.batch_at(s.upcoming.place).end;
  return batch;
}

}  // namespace lockstep
