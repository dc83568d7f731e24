// SPDX-License-Identifier: Apache-2.0
// How one network is compiled for a whole job. Rank 0 traces the network. The trace gives the key of the cache. If the
// cache has no file of this key, rank 0 starts a Python interpreter that compiles the trace. The interpreter writes the
// file under a temporary name and renames it, so two jobs with the same key cannot harm each other. Then all ranks look
// for the file. A rank that does not see it gets its bytes from rank 0. If the processor or LibTorch of any rank cannot
// run the file, all ranks train the plain network. Then they measure both networks at the same time, as they will
// train. Rank 0 keeps the sums of the times in KEY.N.speed, for N ranks on its node, and decides. It also writes the
// outcome into the run folder, where a process in the place of a dead one finds it.
#include "lockstep/cli_train/compile_ahead.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/checksum.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli_train/pass_speed.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/launch/node_folder.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/python_program.h"
#include "lockstep/models/compiled_pass.h"
#include "lockstep/models/traced_network.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Less than the ten minutes after which a starting rank counts as stuck.
constexpr std::chrono::seconds kLongest{540};
constexpr int kStages = 4;                // More stages would only add calls.
constexpr double kFirstBucket = 1 << 20;  // Bytes, or the size of a bucket if that is smaller.
constexpr const char* kState = "compiled.is_used";

/// A reason to train the plain network.
struct Reason {
  std::string text;
};

enum class Seen : std::int64_t { kWhole, kMissing, kOtherMachine, kUnusable };

// Returns the instruction sets that compiled code may use, from /proc/cpuinfo.
std::string machine_of(const RankDevice& device) {
  if (!device.is_cpu()) return device.facts.name + " " + device.backend->runtime().runtime;
  std::string found;
  for (const auto& line : split(text_of_file("/proc/cpuinfo"), '\n')) {
    if (line.empty() && !found.empty()) break;  // The next core begins.
    if (line.starts_with("flags") || line.starts_with("Features") || line.starts_with("model name"))
      found += line + "\n";
  }
  return found;
}

std::string digest_of(const std::string& text) {
  Xxh3Stream stream;
  stream.update(std::as_bytes(std::span(text)));
  return stream.digest128_hex();
}

fs::path private_cache(const Environment& env) {
  const auto cache = cache_folder(env);
  make_folder(cache);
  make_private_folder(cache / "compiled");
  return cache / "compiled";
}

std::optional<bool> was_compiled(const fs::path& snapshot) {
  if (snapshot.empty()) return std::nullopt;
  const auto state = nlohmann::json::parse(text_of_file(snapshot / "state.json"), nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("numbers") || !state["numbers"].contains(kState)) return std::nullopt;
  return state["numbers"][kState] != 0;
}

void require_compilable(const Recipe& recipe, int world) {
  const auto name = recipe.text("model.name");
  if (name.find(':') != std::string::npos && !name.starts_with("plugin:")) {
    throw Reason{"model.name is " + name.substr(0, name.find(':')) +
                 ":…, and python/compile_model.py compiles such a class"};
  }
  if (recipe.text("trainer.strategy") == "dp") throw Reason{"trainer.strategy is dp"};
  if (recipe.flag("trainer.sync_batchnorm")) throw Reason{"trainer.sync_batchnorm has layers talk to other ranks"};
  const bool is_global = recipe.has("data.global_batch");
  if (is_global && recipe.integer("data.global_batch") % world != 0) {
    throw Reason{"data.global_batch is " + std::to_string(recipe.integer("data.global_batch")) + ", which " +
                 std::to_string(world) + " ranks cannot share equally"};
  }
}

Precision precision_of(const CompileRequest& request) {
  return precision_named(request.recipe.text("trainer.precision"));
}

at::Tensor batch_for(const CompileRequest& request, const Group& group) {
  const auto& recipe = request.recipe;
  const bool is_global = recipe.has("data.global_batch");
  const auto samples = recipe.integer(is_global ? "data.global_batch" : "data.batch") / (is_global ? group.world() : 1);
  auto shape = request.sets.schema.fields.at(0).shape;
  shape.insert(shape.begin(), samples);
  const bool is_text = recipe.text("data.kind") == "text";
  const auto type = is_text ? at::kLong : weights_type(precision_of(request));
  auto batch = at::zeros(shape, at::TensorOptions(group.device().device).dtype(type));
  const bool is_image = batch.dim() == 4 && wants_channels_last(recipe, group.device());
  return is_image ? batch.contiguous(at::MemoryFormat::ChannelsLast) : batch;
}

std::shared_ptr<Network> network_on_device(const CompileRequest& request, const Group& group) {
  auto network = network_to_train(request.recipe, request.sets, group.device(), request.process.python);
  network->to(group.device().device);
  return network;
}

TracedNetwork traced(const CompileRequest& request, const Group& group) {
  return trace_network(*network_on_device(request, group), batch_for(request, group));
}

std::vector<std::string> compile_command(const CompileRequest& request, const Group& group, const fs::path& trace,
                                         const fs::path& out) {
  const double patience = 0.8 * request.recipe.real("trainer.collective_timeout");
  const auto limit = std::clamp<std::int64_t>(static_cast<std::int64_t>(patience), 1, kLongest.count());
  const double bucket = request.recipe.real("trainer.bucket_mb") * kFirstBucket;
  return {users_python(request.process.env),
          (python_host_folder() / "compile.py").string(),
          trace.string(),
          out.string(),
          "--precision=" + request.recipe.text("trainer.precision"),
          std::string("--torch=") + TORCH_VERSION,
          "--threads=" + std::to_string(at::get_num_threads()),
          "--index=" + std::to_string(group.device().is_cpu() ? 0 : group.device().index()),
          "--stages=" + std::to_string(group.world() > 1 ? kStages : 1),
          "--least=" + std::to_string(static_cast<std::int64_t>(std::min(bucket, kFirstBucket))),
          "--limit=" + std::to_string(limit)};
}

std::string last_line(const std::string& text) {
  const auto whole = trimmed(text);
  return std::string(trimmed(whole.substr(whole.rfind('\n') + 1)));
}

// The training goes on without the file.
void write_if_possible(const fs::path& file, const std::string& text) {
  try {
    write_whole(file, text, /*durable=*/false);
  } catch (const Error&) {
  }
}

void compile(const std::vector<std::string>& command, const fs::path& cache, const Environment& env) {
  auto variables = env.all();
  variables.try_emplace("TORCHINDUCTOR_CACHE_DIR", (cache / "inductor").string());
  const auto done = run_process(command, Environment(variables));
  if (done.exit_code == 128 + SIGALRM) throw Reason{"it took longer than " + command.back().substr(8) + " s"};
  if (done.exit_code == 0) return;
  const auto log = cache / "failed.log";
  write_if_possible(log, done.errors);
  throw Reason{command.front() + ": " + last_line(done.errors) + "; all that it wrote is in " + log.string()};
}

// A full disk may have left an incomplete file.
bool is_whole(const fs::path& file) {
  if (!fs::exists(file)) return false;
  try {
    require_loadable(file);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The last word, the time limit, does not change what is compiled, nor does the path of the interpreter.
std::string key_of(const TracedNetwork& trace, const std::vector<std::string>& command, const RankDevice& device) {
  const auto host = python_host_folder();
  std::vector<std::string> parts(command.begin() + 2, command.end() - 1);
  parts.insert(parts.end(),
               {trace.text, machine_of(device), text_of_file(host / "passes.py"), text_of_file(host / "compile.py")});
  return digest_of(joined(parts, "\n"));
}

struct Made {
  fs::path file;
  std::string note;
};

Made file_of_rank_zero(const CompileRequest& request, const Group& group) {
  const auto log = rank_log(group.placement());
  require_compilable(request.recipe, group.world());
  const auto trace = traced(request, group);
  const auto cache = private_cache(request.process.env);
  const auto file = cache / (key_of(trace, compile_command(request, group, "", ""), group.device()) + ".pt2");
  if (is_whole(file)) return {file, "trains with the compiled network " + file.string()};
  log.info("compiling the network, once for this network, batch, device and PyTorch");
  const auto trace_file = cache / (file.stem().string() + "." + std::to_string(::getpid()) + ".trace");
  write_whole(trace_file, trace.archive, /*durable=*/false);
  const auto start = Clock::now();
  try {
    compile(compile_command(request, group, trace_file, file), cache, request.process.env);
  } catch (...) {
    std::error_code ignored;
    fs::remove(trace_file, ignored);
    throw;
  }
  fs::remove(trace_file);
  return {file, "trains with the network compiled in " +
                    std::to_string(static_cast<int>(seconds_between(start, Clock::now()))) + " s, kept as " +
                    file.string()};
}

Seen seen(const nlohmann::json& made, const RankDevice& device, std::string& why) {
  if (made.at("machine") != machine_of(device)) return Seen::kOtherMachine;
  const fs::path file = made.at("file").get<std::string>();
  std::error_code ignored;
  if (!fs::exists(file, ignored) || digest_of(text_of_file(file)) != made.at("digest").get<std::string>())
    return Seen::kMissing;
  try {
    require_loadable(file);
    return Seen::kWhole;
  } catch (const Error& error) {
    why = error.fact();
    return Seen::kUnusable;
  }
}

bool any(const std::vector<std::int64_t>& all, Seen what) {
  return std::ranges::find(all, static_cast<std::int64_t>(what)) != all.end();
}

fs::path own_copy(const fs::path& file, const Environment& env) { return private_cache(env) / file.filename(); }

// If the copy cannot be written, the next look for the file does not find it.
void keep_copy(nlohmann::json& made, const std::string& bytes, const Environment& env) {
  try {
    const auto own = own_copy(made.at("file").get<std::string>(), env);
    write_whole(own, bytes, /*durable=*/false);
    made["file"] = own.string();
  } catch (const Error&) {
  }
}

// Returns the path of the compiled file on this rank. Throws Reason on all ranks if one of them cannot use the file.
fs::path shared_file(nlohmann::json made, Group& group, const Environment& env) {
  std::string why;
  auto all = group.all_gather(static_cast<std::int64_t>(seen(made, group.device(), why)));
  if (any(all, Seen::kMissing)) {
    const bool is_mine_missing =
        all.at(static_cast<std::size_t>(group.rank())) == static_cast<std::int64_t>(Seen::kMissing);
    const auto bytes = group.broadcast_text(group.is_main() ? text_of_file(made.at("file").get<std::string>()) : "");
    if (is_mine_missing) keep_copy(made, bytes, env);
    all = group.all_gather(static_cast<std::int64_t>(seen(made, group.device(), why)));
  }
  if (any(all, Seen::kOtherMachine)) throw Reason{"the ranks' processors or devices differ"};
  if (any(all, Seen::kUnusable)) {
    const auto first = std::ranges::find(all, static_cast<std::int64_t>(Seen::kUnusable)) - all.begin();
    throw Reason{group.broadcast_text(why, static_cast<int>(first))};
  }
  if (any(all, Seen::kMissing)) throw Reason{"not every rank can read the compiled file"};
  return made.at("file").get<std::string>();
}

std::string milliseconds(double seconds) { return fixed(1000 * seconds, 2) + " ms"; }

// Returns both times of a pass, added up over the ranks, in seconds.
PassSeconds measured(const CompileRequest& request, Group& group, const fs::path& file) {
  group.barrier();
  const auto own = pass_seconds([&] { return network_on_device(request, group); }, file, batch_for(request, group),
                                precision_of(request));
  auto sums = torch::tensor({own.plain, own.compiled}, torch::kDouble);
  group.all_reduce_sum(sums);
  return {.plain = sums[0].item<double>(), .compiled = sums[1].item<double>()};
}

std::string json_of(const PassSeconds& speed) {
  return nlohmann::json{{"plain_s", speed.plain}, {"compiled_s", speed.compiled}}.dump() + "\n";
}

std::optional<PassSeconds> kept_speed(const fs::path& speed) {
  const auto kept = nlohmann::json::parse(text_or_nothing(speed), nullptr, /*allow_exceptions=*/false);
  if (!kept.is_object() || !kept.contains("plain_s") || !kept.contains("compiled_s")) return std::nullopt;
  if (!kept["plain_s"].is_number() || !kept["compiled_s"].is_number()) return std::nullopt;
  return PassSeconds{.plain = kept["plain_s"], .compiled = kept["compiled_s"]};
}

// Throws Reason on all ranks if the compiled network is slower.
void require_faster(const CompileRequest& request, Group& group, const fs::path& file) {
  const auto speed = fs::path(file).replace_extension(std::to_string(group.placement().local_world) + ".speed");
  std::optional<PassSeconds> kept;
  if (group.is_main()) kept = kept_speed(speed);
  if (group.broadcast_text(kept ? "kept" : "").empty()) {
    kept = measured(request, group, file);
    if (group.is_main()) write_if_possible(speed, json_of(*kept));
  }
  std::string why;
  if (group.is_main() && kept->compiled >= kept->plain) {
    why = "on this CPU it is faster, " + milliseconds(kept->plain / group.world()) + " a pass instead of " +
          milliseconds(kept->compiled / group.world());
  }
  why = group.broadcast_text(why);
  if (!why.empty()) throw Reason{why};
}

bool wants_measurement(const CompileRequest& request, const Group& group, bool is_resumed) {
  return request.recipe.word("model.compiled") == "auto" && group.device().is_cpu() && !is_resumed &&
         !request.recipe.flag("trainer.deterministic");
}

fs::path outcome_file(const CompileRequest& request) { return request.run_dir / "compiled.json"; }

// The other ranks train already, so the outcome is that of their start.
CompiledAhead outcome_of_run(const CompileRequest& request) {
  const auto kept = nlohmann::json::parse(text_of_file(outcome_file(request)));
  fs::path file = kept.at("file").get<std::string>();
  std::error_code ignored;
  if (!file.empty() && !fs::exists(file, ignored)) file = own_copy(file, request.process.env);
  return {file, kept.at("note").get<std::string>(), false};
}

CompiledAhead agreed(const CompileRequest& request, Group& group) {
  std::string text;
  if (group.is_main()) {
    nlohmann::json made = nlohmann::json::object();
    const auto before = was_compiled(request.resume_from);
    made["is_resumed"] = before.value_or(false);
    try {
      if (before && !*before) throw Reason{"the snapshot is of a run that trains the plain network"};
      const auto [file, note] = file_of_rank_zero(request, group);
      made.update({{"file", file.string()},
                   {"note", note},
                   {"digest", digest_of(text_of_file(file))},
                   {"machine", machine_of(group.device())}});
    } catch (const Reason& reason) {
      made["why"] = reason.text;
    } catch (const Error& error) {
      made["why"] = error.fact();
    } catch (const std::exception& error) {
      made["why"] = first_line(error.what());
    }
    text = json_text(made);
  }
  const auto made = nlohmann::json::parse(group.broadcast_text(text));
  const bool is_resumed = made.at("is_resumed");
  std::string why = made.value("why", "");
  if (why.empty()) {
    try {
      const auto file = shared_file(made, group, request.process.env);
      if (wants_measurement(request, group, is_resumed)) require_faster(request, group, file);
      return {file, made.at("note").get<std::string>(), false};
    } catch (const Reason& reason) {
      why = reason.text;
    }
  }
  return {{},
          "model.compiled is " + request.recipe.word("model.compiled") + ", and the plain network trains: " + why,
          is_resumed};
}

}  // namespace

CompiledAhead compile_ahead(const CompileRequest& request, Group& group) {
  if (group.is_newcomer()) return outcome_of_run(request);
  auto outcome = agreed(request, group);
  on_rank_zero(group, [&] {
    const nlohmann::json text{{"file", outcome.file.string()}, {"note", outcome.note}};
    write_whole(outcome_file(request), json_text(text) + "\n", /*durable=*/false);
  });
  return outcome;
}

}  // namespace lockstep
