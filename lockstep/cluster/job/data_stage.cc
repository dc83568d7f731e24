// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/data_stage.h"

#include <system_error>

#include "lockstep/base/absolute_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/script_parts.h"
#include "lockstep/cluster/job/stage.h"
#include "lockstep/cluster/job/stage_pack.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A shell script that runs once on each node. $1 is the folder, and $2 the bytes of the packed file. For a while the
/// disk must hold both the file and its unpacked content.
const std::vector<std::string> kLookForRoom = {
    "free=$(df --output=avail -B1 \"${1%/*}\" | tail -n 1) || exit 0", "[ \"$free\" -lt $((2 * $2)) ] || exit 0",
    "echo \"lockstep: error: $SLURMD_NODENAME has $free bytes free on ${1%/*}, want $((2 * $2)) for the data and their "
    "pack\" >&2",
    "exit 4"};

/// A shell script that runs once on each node. $1 is the folder with results, and $2 their destination.
const std::vector<std::string> kCopyBack = {"[ -d \"$1\" ] && [ -n \"$(ls -A \"$1\")\" ] || exit 0",
                                            "mkdir -p \"$2/$SLURMD_NODENAME\" && cp -R \"$1/.\" "
                                            "\"$2/$SLURMD_NODENAME/\""};

void add_failure(ScriptText& out, const std::string& what) {
  add_stage_failure(out, what, "LOCKSTEP_DATA_HERE", "--stage-data");
}

}  // namespace

JobData job_data(const std::string& word, const fs::path& packs, bool is_here, const Profile& profile) {
  JobData data;
  if (word.empty()) return data;
  const auto colon = word.find(':');
  if (colon != std::string::npos) data.inside = word.substr(colon + 1);
  data.from = absolute_folder(word.substr(0, colon));
  if (colon != std::string::npos && !data.inside.starts_with('/')) {
    throw Error(ErrorKind::kUsage, "--stage-data: '" + data.inside + "' is not an absolute path in the container",
                "DIR:/INSIDE, or DIR alone: the program finds it under $LOCKSTEP_DATA");
  }
  std::error_code ignored;
  const bool is_there = fs::is_directory(data.from, ignored);
  if (!is_there && is_here) {
    throw Error(ErrorKind::kUsage, "--stage-data: there is no folder '" + data.from.string() + "'",
                "name the folder that holds the data");
  }
  const auto disk = node_disk(profile);
  data.folder = disk.folder + "/lockstep-data-$SLURM_JOB_ID";
  data.flag = disk.flag;
  data.pack = packs / ("data-" + fit_for_a_file(data.from.filename().string()) +
                       (is_there ? "-" + key_of({data.from}) : std::string()) + ".tar");
  return data;
}

bool make_pack(const JobData& data, const Environment& env) {
  std::error_code ignored;
  if (data.from.empty() || fs::exists(data.pack, ignored)) return false;
  pack_folder(data.from, data.pack, env);
  return true;
}

std::string staged_path(const JobData& data, const fs::path& path) {
  const auto inner = path.lexically_normal().lexically_relative(data.from).string();
  if (inner.empty() || inner.starts_with("..")) {
    throw Error(
        ErrorKind::kUsage,
        "--stage-data: the recipe's data.path '" + path.string() + "' does not lie in '" + data.from.string() + "'",
        "name that folder, or one above it");
  }
  return inner == "." ? "$LOCKSTEP_DATA" : "$LOCKSTEP_DATA/" + inner;
}

std::string add_data(ScriptText& out, const JobPlan& plan, const std::string& on_exit) {
  const auto& data = plan.data;
  if (data.from.empty()) return on_exit;
  const auto per_node = step_on_each_node(plan);
  const auto pack = shell_quoted(data.pack.string());
  out.paragraph(
      "The data go to each node's own disk as one file. What the program leaves in $LOCKSTEP_RESULTS there comes "
      "back.");
  out.line("export LOCKSTEP_DATA_HERE=" + shell_expanding(data.folder));
  out.line("export LOCKSTEP_DATA=" + (data.inside.empty() ? "$LOCKSTEP_DATA_HERE" : shell_quoted(data.inside)));
  out.line("export LOCKSTEP_RESULTS=$LOCKSTEP_DATA_HERE-results");
  out.quoted_lines("copy_back", kCopyBack);
  out.line("end_data() {");
  out.line("  [ -z \"$data_ended\" ] || return 0");
  out.line("  data_ended=1");
  out.line("  " + per_node + " bash -c \"$copy_back\" copy_back \"$LOCKSTEP_RESULTS\" " +
           shell_quoted((plan.paths.run_dir / "results").string()) + " ||");
  out.line("    echo \"lockstep: error: what lies in $LOCKSTEP_RESULTS on the nodes could not be copied back\" >&2");
  out.line("  " + per_node +
           " rm -rf \"$LOCKSTEP_DATA_HERE\" \"$LOCKSTEP_DATA_HERE.tar\" \"$LOCKSTEP_RESULTS\" || true");
  out.line("}");
  out.line("data_ended=");
  const auto at_end = on_exit + "end_data; ";
  out.line("trap '" + at_end + "' EXIT");
  out.quoted_lines("look_for_room", kLookForRoom);
  out.line(per_node + " bash -c \"$look_for_room\" look_for_room \"$LOCKSTEP_DATA_HERE\" \"$(stat -c %s " + pack +
           " || echo 0)\" || {");
  add_failure(out, "the nodes have no room for '" + data.pack.string() + "'");
  out.line("sbcast --force " + pack + " \"$LOCKSTEP_DATA_HERE.tar\" || {");
  add_failure(out, "sbcast could not put '" + data.pack.string() + "' on the nodes as $LOCKSTEP_DATA_HERE.tar");
  out.quoted_lines("unpack_data", unpack_lines({}, {"mkdir -p \"$2\""}));
  out.line(per_node + " bash -c \"$unpack_data\" unpack \"$LOCKSTEP_DATA_HERE\" \"$LOCKSTEP_RESULTS\" || {");
  add_failure(out, "$LOCKSTEP_DATA_HERE.tar could not be unpacked on each node");
  return at_end;
}

void add_end_of_data(ScriptText& out, const JobPlan& plan) {
  if (!plan.data.from.empty()) out.line("end_data");
}

}  // namespace lockstep
