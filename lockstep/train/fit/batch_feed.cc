// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/batch_feed.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/wait_note.h"
#include "lockstep/watch/page.h"

namespace lockstep {

BatchFeed::BatchFeed(const TrainingData& data, std::int64_t accumulate, const RankDevice& device)
    : data_(data), accumulate_(accumulate) {
  if (!device.is_cpu()) copies_ = device.backend->copy_stream(device.index());
}

void BatchFeed::seek(std::int64_t epoch, std::int64_t place) {
  ahead_.reset();
  is_first_ = true;
  data_.train().seek(epoch, place);
}

StepBatches BatchFeed::next(std::int64_t place) {
  auto step = ahead_ ? std::move(*ahead_) : read(place);
  ahead_.reset();
  LOCKSTEP_ASSERT(!step.batches.empty());
  if (copies_) {
    for (const auto& batch : step.batches) {
      if (!batch.kept) copies_->receive(batch.fields);
    }
  }
  return step;
}

void BatchFeed::read_ahead(std::int64_t place) {
  if (copies_) ahead_ = read(place);
}

StepBatches BatchFeed::read(std::int64_t place) {
  Page::own().enter(std::exchange(is_first_, false) ? Phase::kStarting : Phase::kLoading);
  const WaitNote note([](std::int64_t id) { Page::own().wait_for_sample(id); });
  StepBatches step;
  for (std::int64_t i = 0; i < accumulate_; ++i) {
    if (i > 0 && place + step.global_samples >= data_.epoch_samples()) break;
    auto batch = data_.train().next();
    if (!batch) break;
    step.global_samples += batch->global_samples;
    if (copies_ && !batch->kept) batch->fields = copies_->send(batch->fields);
    step.batches.push_back(std::move(*batch));
  }
  return step;
}

}  // namespace lockstep
