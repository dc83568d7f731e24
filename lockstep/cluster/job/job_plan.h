// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/flag/limit_signal.h"
#include "lockstep/cluster/job/data_stage.h"
#include "lockstep/cluster/job/stage.h"
#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/record/billing.h"

namespace lockstep {

/// The requested size of a job. The profile fills in what is missing.
struct RequestedShape {
  int nodes = 1;                        ///< The most.
  std::optional<int> least_nodes{};     ///< The job takes what the queue has between this and `nodes`.
  int node_step = 1;                    ///< It takes only the least number and a multiple of this more.
  std::optional<int> devices{};         ///< On each node. 0 for a job without devices.
  std::optional<int> tasks{};           ///< On each node. By default one per device.
  std::optional<int> cores_per_task{};  ///< As Slurm counts cores there.
};

/// The queue of a job, and its time limit.
struct JobQueue {
  std::string account;
  std::string partition;
  std::string qos;
  std::optional<std::chrono::seconds> time{};
  int chain = 0;  ///< Number of jobs that a run may take, one after the other. With 0, as many as a recipe needs, and
                  ///< one for a program.
  std::optional<LimitSignal> signal{};  ///< The signal that a program's ranks get before the time is up.
  int restarts = 0;                     ///< How often a step is started again within a job.
  int spares = 0;                       ///< Nodes that wait for one of the step's to be lost.
  bool goes_on = true;                  ///< A run whose time was up, or that asks for it, is started again.
};

/// The software that the program needs, such as modules, an environment or a container.
struct JobSoftware {
  std::optional<std::vector<std::string>> modules{};  ///< Instead of the profile's.
  std::string conda;                                  ///< An environment, by path or name.
  std::vector<std::string> setup;                     ///< Lines of shell for each task.
  std::vector<std::string> setup_once;                ///< Lines of shell for the job's script.
  std::string container;                              ///< An image.
  std::vector<std::string> binds;
  std::vector<std::string> env;  ///< "NAME=value"
  JobStage stage{};              ///< The files for the nodes' local disks.
  JobData data{};                ///< Data that go there, too.
};

struct JobProgram {
  std::string name;                  ///< For the queue and the run folder, such as "mnist".
  std::vector<std::string> command;  ///< A program and its arguments.
  bool is_recipe = false;            ///< True for `lockstep train`, which stops on a signal with a snapshot, and can
                                     ///< continue.
  bool is_any_size = true;           ///< It may run on fewer nodes than it asks for.
  std::string heal{};                ///< How often a recipe's dead rank is started again, for `exec --heal`.
};

/// The paths that a script names.
struct JobPaths {
  std::filesystem::path run_dir;
  std::filesystem::path work_dir;   ///< The folder that the program starts in.
  std::filesystem::path lockstep;   ///< This program.
  std::string profile;              ///< The name of the profile inside the job, or the absolute path of its file.
  std::string profile_path;         ///< LOCKSTEP_PROFILE_PATH, if it is set.
  std::string host{};               ///< The host that submits.
  std::filesystem::path trainer{};  ///< The training half for the job's container. If empty, the default one.
};

/// Everything that a person has requested for a job.
struct JobRequest {
  RequestedShape shape;
  JobQueue queue;
  JobSoftware software;
  JobProgram program;
  JobPaths paths;
  std::vector<std::string> sbatch;  ///< Further flags, as typed.
};

/// The numbers of a job, after defaults and profile were applied.
struct ResolvedShape {
  int nodes = 1;           ///< The most.
  int least_nodes = 0;     ///< The fewest, if the job takes what the queue has. Else 0, or the same.
  int node_step = 1;       ///< Between two sizes that it takes.
  int devices = 0;         ///< On each node.
  int tasks = 1;           ///< On each node.
  int cores_per_task = 0;  ///< 0 if unknown. Slurm then gives one.
  std::string memory;      ///< Memory of each node, as --mem takes it. Empty for Slurm's default.
  bool has_whole_nodes = false;

  int world() const { return nodes * tasks; }
  bool is_range() const { return least_nodes > 0 && least_nodes < nodes; }
  /// Returns the sizes as sbatch takes them, such as "4", "2-16" or "2-16:2".
  std::string nodes_text() const;
  /// Returns the number of nodes with `spares` more. A job of several sizes has no spare nodes.
  std::string nodes_text(int spares) const;
};

/// One job, with everything that the batch script needs.
struct JobPlan {
  std::string cluster;
  ResolvedShape size;
  JobQueue queue;  ///< With the profile's partition, QOS and time filled in.
  std::chrono::seconds signal_lead{0};
  bool can_requeue = true;          ///< The site lets a job go back into the queue, and this one may.
  std::string devices_flag;         ///< The flag that requests the devices, such as "--gpus-per-node=8". Empty if there
                                    ///< are none.
  std::vector<std::string> sbatch;  ///< Flags beyond those that the fields above mean.
  std::vector<std::string> srun;    ///< The same for the step.
  std::vector<std::string> before;  ///< Shell commands that load modules.
  std::string conda;
  std::map<std::string, std::string> env;
  std::vector<std::string> own_env;  ///< The user's, "NAME=value", over `env`.
  std::vector<std::string> setup;
  std::vector<std::string> setup_once;           ///< Before the tasks, in the batch script.
  std::map<std::string, std::string> downloads;  ///< Variables that name folders for models and data sets.
  JobStage stage{};
  JobData data{};
  ProfileContainer container;          ///< Without an image if the job runs outside a container.
  std::string backend;                 ///< Of the devices, "cuda" or "rocm". Empty if the profile does not know it.
  bool has_container_modules = false;  ///< True if the site's own commands give a container what it needs of the node.
  JobProgram program;
  JobPaths paths;
  bool is_offline = false;       ///< The nodes do not reach the internet.
  bool exports_nothing = false;  ///< The job gets none of the submitting shell's variables.
  std::string tunnel{};          ///< The command that reaches a port of a node, such as "ssh -L {port}:{node}:{port}
                                 ///< {login}".
  JobBilling billing{};          ///< The site's charge for it.
  std::string login{};           ///< The host that a person logs in to.

  bool has_container() const { return !container.image.empty(); }
};

/// Returns the job for `request` on the system of `profile`. What the request leaves open, such as account, partition
/// and memory, comes from the profile.
///
/// Throws: Error(kEnvironment) if the job exceeds a limit of the profile, if an account is needed, or if a node has
///         fewer devices. It gives the limit, its origin and a size that fits. Error(kUsage) for numbers that
///         contradict each other, such as a signal that comes before the job begins, or tasks that cannot share the
///         devices evenly, and for a launcher under one task for each device.
JobPlan job_plan(const JobRequest& request, const Profile& profile);

}  // namespace lockstep
