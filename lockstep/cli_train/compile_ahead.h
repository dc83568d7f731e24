// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "lockstep/cli_train/trainer_process.h"
#include "lockstep/comm/group.h"
#include "lockstep/data/source/data_sets.h"
#include "lockstep/observe/events.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// The training whose network is compiled.
struct CompileRequest {
  const Recipe& recipe;
  const DataSets& sets;
  const TrainerProcess& process;
  std::filesystem::path run_dir;        ///< Keeps the outcome for a process that takes the place of a dead one.
  std::filesystem::path resume_from{};  ///< A snapshot. Empty for a fresh run.
};

/// The outcome of `model.compiled = "auto"` or "always".
struct CompiledAhead {
  std::filesystem::path file;  ///< For make_compiled_network(). Empty if the plain network trains.
  std::string note;            ///< One line: what was compiled, or why nothing was.
  bool is_change = false;      ///< True if the snapshot's run had a compiled network, and this one has none.
};

/// Compiles the recipe's network with the user's Python interpreter, or takes it from the cache. Rank 0 compiles for
/// all ranks. The cache is `compiled` in the cache folder, which only this user can read. A file's name there is a
/// digest of the network's operations, the batch, the precision, the device and PyTorch's version. If anything fails,
/// the plain network trains, and the note says why.
///
/// With "auto" on CPUs, all ranks then measure whether the compiled network is faster, and the slower one is left out.
/// The result is kept beside the file, so that later runs make the same choice. A deterministic training measures
/// nothing.
///
/// Collective: yes, but a newcomer (Group::is_newcomer()) reads the outcome from the run folder. Blocks: until rank 0
/// has compiled, at most 9 minutes.
CompiledAhead compile_ahead(const CompileRequest& request, Group& group);

/// Records in a run's snapshots whether its network was compiled. So a resumed run can
/// tell whether it computes in the same order.
class CompiledChoice final : public Listener {
 public:
  explicit CompiledChoice(bool is_used) : is_used_(is_used) {}
  std::string name() const override { return "compiled"; }
  std::map<std::string, double> state() const override { return {{"is_used", is_used_ ? 1 : 0}}; }

 private:
  bool is_used_;
};

}  // namespace lockstep
