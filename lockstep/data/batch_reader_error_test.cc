// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/batch_reader.h"

namespace lockstep {
namespace {

/// A source in which each sample holds its own id.
class Numbers : public SampleSource {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "number #" + std::to_string(id); }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    if (before_read) before_read(key.id);
    std::memcpy(to[0], &key.id, sizeof key.id);
  }

  std::function<void(std::int64_t)> before_read;

 private:
  std::int64_t size_;
  std::vector<Field> fields_ = {{"input", "I64", {}}};
};

BatchMemory memory_of(std::int64_t samples) {
  auto block = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(samples * 8));
  return {.fields = {block->data()}, .owner = block};
}

void expect_error(const std::function<void()>& call, ErrorKind kind, const std::string& text) {
  try {
    call();
    FAIL() << "no error, want: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(std::string(error.what()), text);
  }
}

TEST(BatchReaderErrors, NameTheSampleInTheBatchThatHoldsIt) {
  for (const int workers : {0, 1, 4}) {
    Numbers source(100);
    std::atomic<bool> is_broken = true;
    source.before_read = [&](std::int64_t id) {
      if (is_broken && (id == 35 || id == 38)) {
        throw Error(ErrorKind::kIo, "read of 4 bytes gave 3, want 4", "copy the file again");
      }
    };
    const BatchReaderOptions options{.global_batch = 20, .shuffle = false, .workers = workers, .prefetch = 4};
    BatchReader loader(source, options, memory_of);
    EXPECT_EQ(loader.next()->index, 0);
    const std::string text = "number #35: read of 4 bytes gave 3, want 4\n  hint: copy the file again";
    expect_error([&] { loader.next(); }, ErrorKind::kIo, text);
    expect_error([&] { loader.next(); }, ErrorKind::kIo, text);
    is_broken = false;
    loader.seek(0, 1);
    const auto batch = loader.next();
    EXPECT_EQ(batch->ids.front(), 20);
    for (std::size_t row = 0; row < 20; ++row) {
      EXPECT_EQ(std::memcmp(batch->memory.fields[0] + row * 8, &batch->ids[row], 8), 0);
    }
    EXPECT_EQ(loader.next()->index, 2);
  }
}

TEST(BatchReaderErrors, AreBugsWhereTheyAreNoErrorsOfOurs) {
  Numbers source(10);
  source.before_read = [](std::int64_t id) {
    if (id == 4) throw std::runtime_error("surprise");
  };
  BatchReader loader(source, {.global_batch = 10, .workers = 2}, memory_of);
  expect_error([&] { loader.next(); }, ErrorKind::kBug, "number #4: surprise");
}

TEST(BatchReaderErrors, NameTheOptionThatIsWrong) {
  const Numbers source(10);
  const auto made_with = [&](BatchReaderOptions options) {
    return [&source, options] { BatchReader loader(source, options, memory_of); };
  };
  expect_error(made_with({.global_batch = 0}), ErrorKind::kUsage, "global_batch is 0, want 1 or more");
  expect_error(made_with({.workers = -2}), ErrorKind::kUsage, "workers is -2, want 0 or more, or -1 to choose");
  expect_error(made_with({.workers = 2, .prefetch = 0}), ErrorKind::kUsage,
               "prefetch is 0, want 1 or more\n  hint: workers = 0 reads nothing ahead");
  expect_error(made_with({.shard = {2, 2}}), ErrorKind::kUsage,
               "shard 2 of 2, want an index from 0 to one below the count");
  expect_error(made_with({.global_batch = 11, .drop_last = true}), ErrorKind::kUsage,
               "global_batch is 11 with drop_last, want at most the data set's 10 samples\n"
               "  hint: without drop_last the short batch is used");
  const Numbers empty(0);
  expect_error([&] { BatchReader loader(empty, {}, memory_of); }, ErrorKind::kData,
               "the data set is empty, want at least one sample\n  hint: look at data.path and data.split");
}

TEST(BatchReaderErrors, NameAPlaceOutsideTheEpoch) {
  const Numbers source(10);
  BatchReader loader(source, {.global_batch = 3}, memory_of);
  EXPECT_EQ(loader.batches(), 4);
  expect_error([&] { loader.seek(0, 5); }, ErrorKind::kUsage, "seek to batch 5, want 0 to 4");
  expect_error([&] { loader.seek_place(0, 11); }, ErrorKind::kUsage, "seek to place 11, want 0 to 10");
  expect_error([&] { loader.seek(-1, 0); }, ErrorKind::kUsage, "seek to epoch -1, want 0 or more");
}

TEST(BatchReaderErrors, TellOfMemoryForTheWrongNumberOfFields) {
  const Numbers source(10);
  BatchReader loader(source, {.global_batch = 3}, [](std::int64_t) { return BatchMemory{}; });
  expect_error([&] { loader.next(); }, ErrorKind::kUsage, "the allocator gave memory for 0 fields, want 1");
}

}  // namespace
}  // namespace lockstep
