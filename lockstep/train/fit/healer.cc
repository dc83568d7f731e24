// SPDX-License-Identifier: Apache-2.0
// How a training goes on after a rank has died.
//
// Each rank counts its finished updates. No rank can finish update u + 1 before every rank has sent its gradients of
// it, which a rank does after its own update u. So two ranks differ by one update at most, and the later one is right,
// because its gradients held everybody's samples. After a death all ranks connect again. The lowest rank with the
// latest update gives its state to all ranks with an earlier one: the newcomer, and survivors that are one update
// behind.
//
// The work that follows an update (log, validation, save) may be interrupted too, and some ranks may have done more of
// it than others. So every rank returns to the moment after the update (Noted) and does all of this work again.
// Listeners are told each event only once, and extensions are told an epoch's end only once.
//
// Some numbers are known to one rank only: its sums of losses and metrics, its digest, its buffers and its listeners'
// numbers. An interrupted forward pass has changed them already. So each rank writes them into memory of its parent,
// after the forward pass and before it sends gradients. A process that takes the rank's place finds them there.
#include "lockstep/train/fit/healer.h"

#include <torch/torch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/module_tensors.h"
#include "lockstep/train/fit/run_events.h"
#include "lockstep/train/shared_restore.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr int kMostTries = 20;
constexpr std::int64_t kNothing = -1;

std::unique_ptr<RankMemory> memory_for(const TrainedModel& model, const StepOptions& options) {
  const auto& group = model.group();
  if (!group.can_rejoin() || options.heal == Toggle::kOff || options.replicas > 1) return nullptr;
  const bool has_own_errors = options.parallel.compression.kind == Compression::kPowerSgd;
  if (has_own_errors && options.heal == Toggle::kOn) {
    throw Error(ErrorKind::kRecipe, "trainer.heal is on, but with trainer.compression powersgd no rank can be replaced",
                "leave it at auto, or choose another compression");
  }
  const bool is_possible = !has_own_errors && (group.device().is_cpu() || options.heal == Toggle::kOn);
  return is_possible ? RankMemory::of_process(Environment::of_process()) : nullptr;
}

}  // namespace

Healer::Healer(TrainedModel& model, LossCounter& losses, SnapshotKeeper& keeper, const Participants& participants,
               const StepOptions& options)
    : model_(model),
      losses_(losses),
      keeper_(keeper),
      participants_(participants),
      options_(options),
      memory_(memory_for(model, options)),
      owes_listeners_(model.group().is_newcomer()) {}

std::vector<at::Tensor> Healer::buffers() const { return tensors_of(model_.module().named_buffers()); }

void Healer::begin(const TrainingState& state) {
  if (!is_on()) return;
  if (!owes_step_end_) {
    note_forward(state.step, state.digest);
    noted_.first_step = state.step;
    noted_.first_samples = state.samples;
    note_update(state, 0);
  } else if (!memory_->find(state.step)) {
    note_forward(state.step, state.digest);
  }
  memory_->arm();
}

void Healer::note_forward(std::int64_t next_step, const SampleDigest& digest) {
  if (!is_on()) return;
  RankPart part{.losses = losses_.sums(), .digest = digest, .metrics = model_.module().metrics().sums(), .numbers = {}};
  for (const auto* listener : participants_.listeners()) {
    for (const auto& [name, value] : listener->state()) part.numbers[listener->name() + "." + name] = value;
  }
  auto tensors = buffers();
  for (auto& each : tensors) each = each.cpu();  // Without a copy if it is there already.
  write_record(part, tensors, memory_->begin(next_step, record_bytes(part, tensors)));
  memory_->commit(next_step);
}

void Healer::note_update(const TrainingState& state, std::int64_t samples) {
  if (!is_on()) return;
  noted_.state = state;
  noted_.scheduler = model_.scheduler().state();
  noted_.saved = keeper_.saved();
  noted_.samples = samples;
  noted_.has_heard = false;
  // The reducer finds its buckets in the first step.
  if (samples > 0 && layout_.empty()) layout_ = model_.parallel().layout();
  is_whole_ = true;
}

void Healer::note_epoch_heard(const std::string& number) {
  if (!is_on()) return;
  noted_.state.numbers[number] = 1;
  noted_.has_heard = true;
}

TrainingState Healer::heal() {
  for (int tries = 1;; ++tries) {
    model_.disconnect();
    for (const auto& each : model_.weights()) each.mutable_grad().reset();
    model_.group().rejoin();
    try {
      return share();
    } catch (const Error& error) {
      // Another rank has died while the ranks connected.
      if (error.kind() != ErrorKind::kPeer || tries == kMostTries) throw;
    }
  }
}

std::optional<TrainingState> Healer::try_to_heal() {
  try {
    return heal();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kPeer) throw;
    return std::nullopt;
  }
}

void Healer::restore_first(TrainingState& first) const {
  first.step = noted_.first_step;
  first.samples = noted_.first_samples;
}

TrainingState Healer::share() {
  auto& group = model_.group();
  keeper_.wait_for_copy();
  const auto own = is_whole_ ? 2 * noted_.state.step + (noted_.has_heard ? 1 : 0) : kNothing;
  const auto all = group.all_gather(own);
  const auto best = std::ranges::max_element(all);
  if (*best == kNothing) {
    throw Error(ErrorKind::kEnvironment, "a rank was lost while no other one had a whole state",
                "start again with --resume auto, which goes on from the newest snapshot");
  }
  const auto root = static_cast<int>(best - all.begin());
  const bool is_new = own != *best;
  is_whole_ = !is_new;
  const auto numbers = group.broadcast_text(group.rank() == root ? text() : "", root);
  if (is_new) take(numbers);
  take_tensors(root, is_new);
  auto options = options_.parallel;
  options.are_weights_shared = true;
  if (!layout_.empty()) options.layout = layout_;
  model_.connect(std::move(options));
  take_own_part();
  model_.scheduler().restore(noted_.scheduler);
  keeper_.restore_saved(noted_.saved);
  ++noted_.state.numbers[kHealingsNumber];
  group.await_device();  // If the sender dies, a device gives no error, and the weights are incomplete.
  is_whole_ = true;
  owes_step_end_ = true;
  // Nobody leaves before all have the state. Otherwise the one that sent it could die while others still lack a part.
  group.all_gather(0);
  return noted_.state;
}

std::string Healer::text() const {
  Json object{{"state", state_text(noted_.state)},
              {"scheduler", noted_.scheduler},
              {"samples", noted_.samples},
              {"first_step", noted_.first_step},
              {"first_samples", noted_.first_samples},
              {"has_heard", noted_.has_heard},
              {"holds", keeper_.is_held()},
              {"layout", layout_}};
  if (const auto* scaler = model_.scaler()) object["scaler"] = scaler->state();
  if (noted_.saved) object["saved"] = {noted_.saved->step, noted_.saved->epoch};
  return object.dump();
}

void Healer::take(const std::string& text) {
  using Numbers = std::map<std::string, double>;
  const auto object = Json::parse(text);
  noted_ = {.state = parsed_state(object.at("state"), "the state of a living rank"),
            .scheduler = object.at("scheduler").get<Numbers>(),
            .saved = std::nullopt,
            .samples = object.at("samples"),
            .first_step = object.at("first_step"),
            .first_samples = object.at("first_samples"),
            .has_heard = object.at("has_heard")};
  noted_.state.digest = {};
  if (object.contains("saved")) noted_.saved = {object["saved"].at(0), object["saved"].at(1)};
  if (object.contains("scaler")) model_.scaler()->restore(object["scaler"].get<Numbers>());
  keeper_.set_held(object.at("holds"));
  layout_ = object.at("layout").get<BucketLayout>();
}

void Healer::take_tensors(int root, bool is_new) {
  auto& group = model_.group();
  share_weights(model_.module(), group, root);
  // On a device the counts of updates are there, and not in the optimizer's state.
  auto* const update = model_.device_update();
  if (update != nullptr && !is_new) update->settle();
  if (is_new) model_.optimizer().state().clear();
  share_optimizer(model_.module(), model_.optimizer(), group, root, is_new);
  if (update != nullptr && is_new) update->forget();
  if (participants_.extensions().empty()) return;
  const auto tensors = share_tensors(keeper_.tensors_of_extensions(), group, root);
  if (!is_new) return;
  keeper_.restore_extensions(tensors);
  // A newcomer's are started once the rest of it is there.
  if (owes_listeners_) return;
  for (auto* extension : participants_.extensions()) extension->start(model_.module());
}

// Without a record the sums begin anew. Then the dead rank's memory is lost too, and with it its part of this epoch's
// mean loss.
void Healer::take_own_part() {
  RankPart part;
  if (const auto record = memory_->find(noted_.state.step)) {
    part = read_record(*record, buffers());
  } else {
    Log(2, "lockstep: ")
        .warning("rank " + std::to_string(model_.group().rank()) +
                 " goes on without the sums of the lost process: its memory has none of step " +
                 std::to_string(noted_.state.step));
  }
  losses_.restore(part.losses);
  model_.module().metrics().restore(std::move(part.metrics));
  noted_.state.digest = part.digest;
  if (!owes_listeners_) return;
  keeper_.restore_listeners(part.numbers);
  owes_listeners_ = false;
}

}  // namespace lockstep
