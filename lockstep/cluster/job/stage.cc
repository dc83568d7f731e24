// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/stage.h"

#include <system_error>

#include "lockstep/base/absolute_folder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/job/script_parts.h"
#include "lockstep/cluster/job/stage_pack.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

StageKind kind_of(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "pyvenv.cfg", ignored)) return StageKind::kVenv;
  if (fs::is_directory(folder / "conda-meta", ignored)) return StageKind::kConda;
  throw Error(ErrorKind::kUsage,
              "--stage: '" + folder.string() + "' is neither a venv (pyvenv.cfg) nor a conda environment (conda-meta/)",
              "name the environment's own folder, or `lockstep` for the training half with its LibTorch");
}

std::string what_it_is(const JobStage& stage) {
  switch (stage.kind) {
    case StageKind::kConda:
      return "conda environment";
    case StageKind::kVenv:
      return "Python environment";
    default:
      return "program with its LibTorch";
  }
}

/// Escapes text for a sed pattern with bars as delimiters.
std::string sed_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\|.*[]^$&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// Returns shell lines that change the paths in an unpacked environment to its new folder.
std::vector<std::string> moved_lines(const JobStage& stage) {
  if (stage.kind == StageKind::kPrograms) return {};
  const auto old = sed_escaped(stage.from.string());
  return {"# Its scripts name their Python by the old place.", "grep -lIr '^#!.*" + old +
                                                                   "/bin/' \"$made/bin\" | xargs -r -d '\\n' sed -i "
                                                                   "\"1s|" +
                                                                   old + "/bin/|$1/bin/|\""};
}

}  // namespace

NodeDisk node_disk(const Profile& profile) {
  const auto& storage = profile.storage;
  const bool has_large = !storage.node_local_large.empty();
  NodeDisk disk{.folder = has_large ? storage.node_local_large : storage.node_local,
                .flag = has_large ? storage.node_local_large_flag : std::string()};
  if (disk.folder.empty()) disk.folder = "/tmp";
  if (const auto user = disk.folder.find("{user}"); user != std::string::npos) disk.folder.replace(user, 6, "$USER");
  return disk;
}

JobStage job_stage(const StageRequest& request, const Profile& profile) {
  JobStage stage;
  if (request.word.empty()) return stage;
  const auto disk = node_disk(profile);
  stage.folder = disk.folder + "/lockstep-stage-$SLURM_JOB_ID";
  stage.flag = disk.flag;
  std::error_code ignored;
  if (request.word == "lockstep") {
    stage.kind = StageKind::kPrograms;
    stage.from = request.trainer;
    stage.pack = request.packs / ("lockstep-" + key_of({request.trainer}) + ".tar");
    return stage;
  }
  stage.from = absolute_folder(request.word);
  if (!request.is_here && !fs::exists(stage.from, ignored)) {
    stage.kind = StageKind::kConda;
    stage.pack = request.packs / (fit_for_a_file(stage.from.filename().string()) + ".tar");
    return stage;
  }
  if (!fs::is_directory(stage.from, ignored)) {
    throw Error(ErrorKind::kUsage, "--stage: there is no folder '" + stage.from.string() + "'",
                "name a conda environment or a venv by its folder, or `lockstep` for the training half");
  }
  stage.kind = kind_of(stage.from);
  stage.pack = request.packs / (fit_for_a_file(stage.from.filename().string()) + "-" + key_of({stage.from}) + ".tar");
  return stage;
}

std::vector<std::string> unpack_lines(const std::vector<std::string>& unpacked, const std::vector<std::string>& last) {
  std::vector<std::string> lines = {"made=$(mktemp -d \"$1.XXXXXX\") || exit", "trap 'rm -rf \"$made\"' EXIT",
                                    "if [ ! -d \"$1\" ] && tar -xf \"$1.tar\" -C \"$made\"; then"};
  for (const auto& line : unpacked) lines.push_back("  " + line);
  lines.insert(lines.end(), {"  mv -T \"$made\" \"$1\" 2> /dev/null  # one is there already if this fails", "fi",
                             "rm -f \"$1.tar\""});
  lines.insert(lines.end(), last.begin(), last.end());
  lines.emplace_back("[ -d \"$1\" ]");
  return lines;
}

void add_stage_failure(ScriptText& out, const std::string& what, const std::string& variable, const std::string& flag) {
  out.line("  echo \"lockstep: error: " + what + "\" >&2");
  out.line("  echo \"  hint: is there room? srun df -h ${" + variable + "%/*}; or leave out " + flag + "\" >&2");
  out.line("  exit 4");
  out.line("}");
}

bool make_pack(const JobStage& stage, const Environment& env) {
  std::error_code ignored;
  if (stage.kind == StageKind::kNone || fs::exists(stage.pack, ignored)) return false;
  if (stage.kind == StageKind::kPrograms) {
    pack_program(stage.from, stage.pack, env);
  } else {
    pack_folder(stage.from, stage.pack, env);
  }
  return true;
}

void add_staging(ScriptText& out, const JobPlan& plan, const std::string& on_exit) {
  const auto& stage = plan.stage;
  if (stage.kind == StageKind::kNone) return;
  const auto per_node = step_on_each_node(plan);
  const auto fail = [&](const std::string& what) { add_stage_failure(out, what, "LOCKSTEP_STAGED", "--stage"); };
  out.paragraph("The " + what_it_is(stage) +
                " goes to each node's own disk as one file: thousands of ranks that read it file by file wait long.");
  out.line("export LOCKSTEP_STAGED=" + shell_expanding(stage.folder));
  out.line("trap '" + on_exit + per_node + " rm -rf \"$LOCKSTEP_STAGED\" || true' EXIT");
  out.line("sbcast --force " + shell_quoted(stage.pack.string()) + " \"$LOCKSTEP_STAGED.tar\" || {");
  fail("sbcast could not put '" + stage.pack.string() + "' on the nodes as $LOCKSTEP_STAGED.tar");
  out.quoted_lines("unpack", unpack_lines(moved_lines(stage)));
  out.line(per_node + " bash -c \"$unpack\" unpack \"$LOCKSTEP_STAGED\" || {");
  fail("$LOCKSTEP_STAGED.tar could not be unpacked on each node");
}

std::vector<std::string> activation_lines(const JobStage& stage) {
  if (stage.kind == StageKind::kVenv) {
    return {"export VIRTUAL_ENV=\"$LOCKSTEP_STAGED\" PATH=\"$LOCKSTEP_STAGED/bin:$PATH\"", "unset PYTHONHOME"};
  }
  if (stage.kind == StageKind::kConda) {
    return {"export CONDA_PREFIX=\"$LOCKSTEP_STAGED\" PATH=\"$LOCKSTEP_STAGED/bin:$PATH\"", "unset PYTHONHOME",
            "for script in \"$LOCKSTEP_STAGED\"/etc/conda/activate.d/*.sh; do",
            "  [ ! -e \"$script\" ] || . \"$script\" || true", "done"};
  }
  return {};
}

std::optional<std::string> staged_program(const JobStage& stage) {
  if (stage.kind != StageKind::kPrograms) return std::nullopt;
  return "\"$LOCKSTEP_STAGED/lockstep\"";
}

std::string staged_word(const JobStage& stage, const std::string& word) {
  const auto bin = stage.from.string() + "/bin/";
  return word.starts_with(bin) ? word.substr(bin.size()) : word;
}

}  // namespace lockstep
