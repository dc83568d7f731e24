// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/train_command.h"

#include <fcntl.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/own_file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli_train/compile_ahead.h"
#include "lockstep/cli_train/python_start.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_data.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/cli_train/run_record.h"
#include "lockstep/format/snapshot/held_snapshot.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/observe/early_stopping.h"
#include "lockstep/observe/event_file.h"
#include "lockstep/observe/metrics.h"
#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/progress.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/observe/run_lock.h"
#include "lockstep/snapshot/snapshot_lock.h"
#include "lockstep/train/profiler_trace.h"
#include "lockstep/train/weight_average.h"

namespace lockstep {
namespace {

// Rank 0 decides by its view of the files and broadcasts the result, since the others' view of a shared file system may
// lag behind.
std::optional<std::filesystem::path> resume_point(const TrainRequest& request, const RunFolder& folder,
                                                  const Log& log) {
  if (request.resume == "none") return std::nullopt;
  if (request.resume != "auto") {
    const std::filesystem::path given = request.resume;
    if (std::error_code ignored; std::filesystem::exists(given / "MANIFEST", ignored)) {
      verify_snapshot(given);
      return given;
    }
  }
  const bool is_auto = request.resume == "auto";
  auto snapshots = is_auto ? folder.snapshots() : std::filesystem::path(request.resume);
  if (!is_auto && snapshots.filename() != "snapshots") snapshots /= "snapshots";
  check_may_read(snapshots);
  bool any_skipped = false;
  const auto on_skip = [&](const SnapshotEntry& entry, const std::string& reason) {
    any_skipped = true;
    log.warning("skipped " + entry.path.string() + ": " + reason);
  };
  const auto newest = newest_whole_snapshot(snapshots, on_skip, state_fault);
  if (newest) return newest->path;
  if (any_skipped) {
    throw Error(ErrorKind::kData, "no snapshot in '" + snapshots.string() + "' is whole",
                "start from scratch with --resume none; the damaged ones are kept");
  }
  if (!is_auto) {
    throw Error(ErrorKind::kIo, "'" + request.resume + "' is not a snapshot and holds none",
                "`lockstep snapshot ls` lists a run's");
  }
  return std::nullopt;
}

nlohmann::json layout_json(const Placement& placement) {
  return {{"world", placement.world},   {"nodes", placement.nodes}, {"local_world", placement.local_world},
          {"source", placement.source}, {"hosts", placement.hosts}, {"job", placement.job}};
}

nlohmann::ordered_json final_object(const FitResult& result, const Placement& placement, const RunFolder& folder,
                                    const TrainerOptions& options) {
  const auto metric = [&](const std::string& name) -> nlohmann::ordered_json {
    const auto it = result.state.metrics.find(name);
    if (it == result.state.metrics.end()) return nullptr;
    return it->second;
  };
  const auto& from = options.snapshot.resume_from;
  return {{"schema", 1},
          {"run_dir", folder.path().string()},
          {"world", placement.world},
          {"epochs", result.state.epoch},
          {"steps", result.state.step},
          {"samples", result.state.samples},
          {"train_loss", metric("train_loss")},
          {"val_loss", metric("val_loss")},
          {"val_accuracy", metric("val_accuracy")},
          {"weights_digest", result.weights_digest},
          {"sample_digest", result.state.digest.hex()},
          {"time_to_first_step_s",
           result.time_to_first_step_s ? nlohmann::ordered_json(*result.time_to_first_step_s) : nullptr},
          {"samples_per_second", result.samples_per_second},
          {"resumed_from", from ? nlohmann::ordered_json(from->string()) : nullptr},
          {"stopped_by", result.stopped_by}};
}

// Rank 0 names the run folder if it has no name yet, and every rank gets the name.
std::string agreed_run_dir(const TrainRequest& request, const Recipe& recipe, Group& group, const Environment& env) {
  std::string run_dir = request.run_dir;
  if (run_dir.empty() && group.is_main()) {
    run_dir = run_dir_at(recipe.name(), std::chrono::system_clock::now(), env).string();
  }
  return group.broadcast_text(run_dir);
}

// The objects that only rank 0 has while the run lives: the lock of the run folder, and the listeners that write into
// the folder.
struct MainRank {
  MainRank(const RunFolder& folder, const Recipe& recipe, const Environment& env)
      : lock(folder.path(), ProcessIdentity::of_process(env)),
        metrics(folder.metrics()),
        progress(progress_options(2, recipe.integer("observe.log_every"), env)) {
    clear_left_overs(folder.snapshots(), lock);
    if (recipe.flag("observe.tensorboard")) tensorboard.emplace(folder.path(), ProcessIdentity::of_process(env));
    if (!recipe.has("early_stopping.monitor")) return;
    early_stopping.emplace(EarlyStoppingOptions{.monitor = recipe.text("early_stopping.monitor"),
                                                .wants_max = recipe.text("early_stopping.mode") == "max",
                                                .patience = recipe.integer("early_stopping.patience"),
                                                .min_delta = recipe.real("early_stopping.min_delta")});
  }

  void listen_to(Trainer& trainer) {
    trainer.add(*record);
    if (tensorboard) trainer.add(*tensorboard);
    trainer.add(metrics);
    trainer.add(progress);
    if (early_stopping) trainer.add(*early_stopping);
    if (compiled) trainer.add(*compiled);
  }

  RunLock lock;
  std::optional<RunRecord> record;
  MetricsFile metrics;
  std::optional<TensorBoardFile> tensorboard;
  Progress progress;
  std::optional<EarlyStopping> early_stopping;
  std::optional<CompiledChoice> compiled;  ///< If the recipe leaves the choice to us.
};

void report(const FitResult& result, const nlohmann::ordered_json& object, const RunFolder& folder, bool as_json) {
  // True if the run has finished for good. A run that was stopped by a signal continues when it is started again.
  if (!result.wants_requeue) folder.finish(json_text(object));
  if (as_json) std::cout << json_text(object) << std::endl;
}

WeightAverageOptions average_of(const Recipe& recipe) {
  WeightAverageOptions options{.from_epoch = recipe.integer("trainer.average_from")};
  if (recipe.text("trainer.average") == "ema") options.decay = recipe.real("trainer.average_decay");
  return options;
}

// Returns the profiler trace of this rank, if the recipe asks for one.
std::unique_ptr<ProfilerTrace> trace_of(const Recipe& recipe, const std::filesystem::path& run_dir, Group& group,
                                        const Log& log) {
  if (!recipe.has("observe.profile")) return nullptr;
  const auto steps = recipe.integers("observe.profile");
  if (steps[0] > steps[1]) {
    throw Error(ErrorKind::kRecipe,
                "observe.profile is [" + std::to_string(steps[0]) + ", " + std::to_string(steps[1]) +
                    "], which ends before it begins",
                "name the first and the last step, as in [100, 105]");
  }
  if (group.rank() >= recipe.integer("observe.profile_ranks")) return nullptr;
  return std::make_unique<ProfilerTrace>(StepTraceOptions{.first = steps[0],
                                                          .last = steps[1],
                                                          .file = rank_trace(run_dir, group.rank()),
                                                          .device = group.device(),
                                                          .await_device = [&group] { group.await_device(); }},
                                         log);
}

// Returns the setting from the recipe of the run that wrote a snapshot. Nothing if that recipe cannot be read.
std::optional<double> bucket_mb_before(const std::filesystem::path& snapshot) {
  try {
    return Recipe::load(snapshot.parent_path().parent_path() / "recipe.toml", Environment()).real("trainer.bucket_mb");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A resumed run keeps its buckets, since the last bits of its sums depend on them.
void note_other_buckets(const std::filesystem::path& snapshot, const Recipe& recipe, int world, const Log& log) {
  const auto state = nlohmann::json::parse(text_of_file(snapshot / "state.json"), nullptr, /*allow_exceptions=*/false);
  const bool keeps_buckets = state.is_object() && state.value("world", 1) == world && state.contains("bucket_layout") &&
                             !state["bucket_layout"].empty();
  const auto before = keeps_buckets ? bucket_mb_before(snapshot) : std::nullopt;
  const double now = recipe.real("trainer.bucket_mb");
  if (!before || *before == now) return;
  log.info("trainer.bucket_mb = " + shortest(now) + ", before " + shortest(*before) +
           ", has no effect: a resumed run keeps its buckets, so that its sums stay the same");
}

// Returns the memory in which the parent holds the newest state. Children of this process must not inherit it.
int held_memory(const Environment& env, const Log& log) {
  if (const auto fd = env.get_int(kHeldMemoryVariable)) {
    const auto memory = static_cast<int>(*fd);
    ::fcntl(memory, F_SETFD, FD_CLOEXEC);
    return memory;
  }
  log.warning(
      "snapshot.in_memory has no effect: this training has no parent to hold its state; start it with `lockstep "
      "train`");
  return -1;
}

NetworkSource network_source(const CompileRequest& request, Group& group, MainRank* main_rank, const Log& log) {
  NetworkSource source{.python = request.process.python};
  if (request.recipe.word("model.compiled").empty()) return source;
  const auto ahead = compile_ahead(request, group);
  source.compiled = ahead.file;
  if (main_rank == nullptr) return source;
  main_rank->compiled.emplace(!ahead.file.empty());
  if (ahead.is_change) {
    log.warning(ahead.note + "; its sums differ in their last bits from those of the run so far");
  } else {
    log.info(ahead.note);
  }
  return source;
}

int run_training(const TrainRequest& request, const Recipe& recipe, Group& group, const TrainerProcess& process) {
  const auto& env = process.env;
  const Log log = rank_log(group.placement());
  // The others go on with the state in their memory.
  const bool is_newcomer = group.is_newcomer();
  const std::string run_dir = agreed_run_dir(request, recipe, group, env);
  const auto trace = trace_of(recipe, run_dir, group, log);
  std::optional<RunFolder> folder;
  std::unique_ptr<MainRank> main_rank;
  std::string resume_from;
  on_rank_zero(group, [&] {
    folder = RunFolder::create(run_dir);
    main_rank = std::make_unique<MainRank>(*folder, recipe, env);
    if (const auto& holder = main_rank->lock.taken_from()) log.warning("took the run folder over from " + *holder);
    const auto from = is_newcomer ? std::nullopt : resume_point(request, *folder, log);
    if (from) resume_from = from->string();
    auto layout = layout_json(group.placement());
    if (process.python != nullptr) layout["python"] = process.python->executable();
    main_rank->record.emplace(*folder, RunRecord::Text{recipe.to_toml(), json_text(layout, 1) + "\n"},
                              is_newcomer || request.resume == "auto", log);
  });
  resume_from = group.broadcast_text(resume_from);

  RecipeData data(recipe, group);
  data.setup();
  auto notes = data.sets().notes;
  const bool has_drawn_table = recipe.text("data.kind") == "csv" && recipe.has("data.split");
  if (group.is_main() && has_drawn_table && !resume_from.empty() && saved_data(resume_from).empty()) {
    log.warning(resume_from + " is of a version that scaled a table by the rows held out too; now they do not count");
  }
  if (group.is_main() && !resume_from.empty()) note_other_buckets(resume_from, recipe, group.world(), log);
  const auto source = network_source({recipe, data.sets(), process, run_dir, resume_from}, group, main_rank.get(), log);
  const auto module = task_of(recipe, data.sets(), group.device(), source, &notes);
  if (group.is_main()) {
    for (const auto& note : notes) log.info(note);
  }
  auto options = trainer_options_of(recipe, std::filesystem::path(run_dir) / "snapshots");
  if (group.is_main() && options.snapshot.in_memory > 0) options.snapshot.memory = held_memory(env, log);
  if (!resume_from.empty()) options.snapshot.resume_from = resume_from;
  Trainer trainer(options);
  std::optional<WeightAverage> average;
  if (recipe.text("trainer.average") != "none") trainer.add(average.emplace(average_of(recipe)));
  if (trace) trainer.add(*trace);
  if (main_rank) main_rank->listen_to(trainer);
  const auto result = trainer.fit(*module, data, group);
  if (group.is_main()) {
    for (const auto& [what, found] : result.found) log.info(what + ": " + found);
  }
  if (main_rank) report(result, final_object(result, group.placement(), *folder, options), *folder, request.json);
  return result.wants_requeue ? kExitStopped : 0;
}

}  // namespace

int run_train(const TrainRequest& request, const TrainerProcess& process) {
  const auto& env = process.env;
  return with_placement(env, [&](const Placement& placement) {
    const Recipe recipe = recipe_of(request, env, own_file());
    become_python_if_needed(recipe, process);
    auto group = join_ranks(recipe, placement, env, request.run_dir);
    return run_training(request, recipe, group, process);
  });
}

}  // namespace lockstep
