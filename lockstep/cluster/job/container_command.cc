// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/container_command.h"

#include <algorithm>

#include "lockstep/base/shell_text.h"

namespace lockstep {
namespace {

/// Returns "DIR:DIR" for "DIR", for runtimes that need both paths of a bind.
std::string both_sides(const std::string& bind) {
  return bind.find(':') == std::string::npos ? bind + ":" + bind : bind;
}

std::vector<std::string> binds_of(const JobPlan& plan) {
  std::vector<std::string> binds = plan.container.binds;
  const auto add = [&](const std::filesystem::path& path) {
    const auto text = path.string();
    const bool is_inside =
        std::ranges::any_of(binds, [&](const auto& bind) { return text == bind || text.starts_with(bind + "/"); });
    if (!text.empty() && !is_inside) binds.push_back(text);
  };
  add(plan.paths.work_dir);
  add(plan.paths.run_dir);
  add(plan.paths.lockstep.parent_path());
  add(plan.paths.trainer.parent_path());
  return binds;
}

/// True if the container runtime knows --nv and --rocm, and the user gave neither.
bool takes_device_flag(const JobPlan& plan) {
  const auto& runtime = plan.container.runtime;
  const bool is_given = std::ranges::any_of(
      plan.container.flags, [](const auto& flag) { return flag == "--nv" || flag == "--nvccli" || flag == "--rocm"; });
  return !is_given && (runtime == "apptainer" || runtime == "singularity");
}

bool needs_nv(const JobPlan& plan) {
  return takes_device_flag(plan) && plan.backend == "cuda" && plan.size.devices > 0;
}

/// True if the flag can be chosen only on the node, because the profile does not know the devices, or because the image
/// may lack ROCm.
bool asks_node(const JobPlan& plan) {
  if (!takes_device_flag(plan) || plan.backend == "cuda") return false;
  return plan.backend.empty() || (plan.size.devices > 0 && !plan.has_container_modules);
}

}  // namespace

std::vector<std::string> device_flag_lines(const JobPlan& plan) {
  if (!asks_node(plan)) return {};
  const std::string look = plan.container.runtime + " exec " + shell_quoted(plan.container.image) +
                           " find / -xdev -name 'libamdhip64.so*' -print -quit 2> /dev/null";
  const std::string rocm = "[ -e /dev/kfd ] && [ -z \"$(" + look + ")\" ]; then";
  if (!plan.backend.empty()) return {"gpu=()", "if " + rocm, "  gpu=(--rocm)", "fi"};
  return {"gpu=()", "if [ -e /proc/driver/nvidia ]; then", "  gpu=(--nv)", "elif " + rocm, "  gpu=(--rocm)", "fi"};
}

bool is_image_file(const std::string& image, const std::string& runtime) {
  if (image.find("://") != std::string::npos) return false;
  return runtime != "shifter" && runtime != "podman-hpc";
}

std::vector<std::string> container_command(const JobPlan& plan) {
  const auto& runtime = plan.container.runtime;
  const auto image = shell_quoted(plan.container.image);
  std::vector<std::string> lines;
  const auto add_flags = [&] {
    if (!plan.container.flags.empty()) lines.push_back(shell_quoted(plan.container.flags));
  };
  if (runtime == "shifter") {
    lines.push_back("shifter --image=" + image);
    add_flags();
    for (const auto& bind : plan.container.binds) lines.push_back("--volume=" + shell_expanding(both_sides(bind)));
    return lines;
  }
  if (runtime == "podman-hpc") {
    lines.emplace_back("podman-hpc run --rm --gpu --workdir=\"$PWD\"");
    add_flags();
    // This container runtime passes no variables on by itself, so they are named. A name with a star stands for all
    // variables with this prefix.
    lines.emplace_back("--env='SLURM_*' --env='LOCKSTEP_*' --env='NCCL_*' --env='FI_*'");
    for (const auto& each : plan.own_env) lines.push_back("--env=" + shell_quoted(each.substr(0, each.find('='))));
    for (const auto& bind : binds_of(plan)) lines.push_back("-v " + shell_expanding(both_sides(bind)));
    lines.push_back(image);
    return lines;
  }
  lines.push_back(runtime + " exec");
  add_flags();
  if (needs_nv(plan)) lines.emplace_back("--nv");
  if (asks_node(plan)) lines.emplace_back("\"${gpu[@]}\"");
  for (const auto& bind : binds_of(plan)) lines.push_back("-B " + shell_expanding(bind));
  lines.push_back(image);
  return lines;
}

}  // namespace lockstep
