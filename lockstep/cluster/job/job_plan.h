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

/// How large a job is asked for. What is left open comes from the profile.
struct RequestedShape {
  int nodes = 1;
  std::optional<int> devices{};         ///< On each node; 0 for a job without.
  std::optional<int> tasks{};           ///< On each node; by default one for each device.
  std::optional<int> cores_per_task{};  ///< As Slurm counts cores there.
};

/// Where a job waits, and for how long it runs.
struct JobQueue {
  std::string account;
  std::string partition;
  std::string qos;
  std::optional<std::chrono::seconds> time{};
  int chain = 0;  ///< Jobs that a run may take, one after the other; 0: as many as a recipe needs, one for a program.
  std::optional<LimitSignal> signal{};  ///< What a program's ranks get before the time is up.
  int restarts = 0;                     ///< How often a program's step is started again within a job.
  bool goes_on = true;                  ///< A run whose time was up, or that asks for it, is started again.
};

/// What has to be in place around the program.
struct JobSoftware {
  std::optional<std::vector<std::string>> modules{};  ///< Instead of the profile's.
  std::string conda;                                  ///< An environment, by path or name.
  std::vector<std::string> setup;                     ///< Lines of shell for each task.
  std::vector<std::string> setup_once;                ///< Lines of shell for the job's script.
  std::string container;                              ///< An image.
  std::vector<std::string> binds;
  std::vector<std::string> env;  ///< "NAME=value"
  JobStage stage{};              ///< What goes to the nodes' own disks.
  JobData data{};                ///< Data that go there, too.
};

struct JobProgram {
  std::string name;                  ///< For the queue and the run folder: "mnist".
  std::vector<std::string> command;  ///< A program and its arguments.
  bool is_recipe = false;            ///< It is `lockstep train`: it stops on a signal, with a snapshot, and goes on.
};

/// The paths that a script names.
struct JobPaths {
  std::filesystem::path run_dir;
  std::filesystem::path work_dir;   ///< Where the program starts.
  std::filesystem::path lockstep;   ///< This program.
  std::string profile;              ///< What names the profile inside the job: its name, or its file's whole path.
  std::string profile_path;         ///< LOCKSTEP_PROFILE_PATH, where one is set.
  std::string host{};               ///< The host that submits.
  std::filesystem::path trainer{};  ///< The training half for the job's container; empty: where it lies by itself.
};

/// All that a person asked for.
struct JobRequest {
  RequestedShape shape;
  JobQueue queue;
  JobSoftware software;
  JobProgram program;
  JobPaths paths;
  std::vector<std::string> sbatch;  ///< Further flags, as typed.
};

/// A job's numbers, each worked out once.
struct ResolvedShape {
  int nodes = 1;
  int devices = 0;         ///< On each node.
  int tasks = 1;           ///< On each node.
  int cores_per_task = 0;  ///< 0 where nothing is known: Slurm then gives one.
  std::string memory;      ///< Of each node, as --mem takes it; empty for Slurm's default.
  bool has_whole_nodes = false;

  int world() const { return nodes * tasks; }
};

/// One job as a value: what the batch script says, and all that it says.
struct JobPlan {
  std::string cluster;
  ResolvedShape size;
  JobQueue queue;  ///< With the profile's partition, QOS and time filled in.
  std::chrono::seconds signal_lead{0};
  bool can_requeue = true;          ///< The site lets a job go back into the queue, and this one may.
  std::string devices_flag;         ///< Asks for the devices: "--gpus-per-node=8"; empty where there are none.
  std::vector<std::string> sbatch;  ///< Flags beyond those that the fields above mean.
  std::vector<std::string> srun;    ///< The same for the step.
  std::vector<std::string> before;  ///< Lines of shell: modules.
  std::string conda;
  std::map<std::string, std::string> env;
  std::vector<std::string> own_env;  ///< The user's, "NAME=value", over `env`.
  std::vector<std::string> setup;
  std::vector<std::string> setup_once;           ///< Before the tasks, in the batch script.
  std::map<std::string, std::string> downloads;  ///< Variables that name folders for models and data sets.
  JobStage stage{};
  JobData data{};
  ProfileContainer container;          ///< Without an image where the job runs outside of one.
  std::string backend;                 ///< Of the devices: "cuda", "rocm", or empty if the profile does not know.
  bool has_container_modules = false;  ///< The site's own lines show a container what it needs of the node.
  JobProgram program;
  JobPaths paths;
  bool is_offline = false;       ///< The nodes do not reach the internet.
  bool exports_nothing = false;  ///< The job gets none of the submitting shell's variables.
  std::string tunnel{};          ///< Reaches a port of a node: "ssh -L {port}:{node}:{port} {login}".
  JobBilling billing{};          ///< What the site charges for it.
  std::string login{};           ///< The host that a person logs in to.

  bool has_container() const { return !container.image.empty(); }
};

/// The job that `request` means on the system of `profile`.
///
/// Throws: Error(kEnvironment) where the job passes a limit of the profile's, where an account is needed, or where a
///         node has fewer devices: with the limit, where it stands, and what would fit. Error(kUsage) for numbers that
///         do not go together, such as a signal that comes before the job begins, or tasks that cannot share the
///         devices evenly, and for a launcher under one task for each device.
JobPlan job_plan(const JobRequest& request, const Profile& profile);

}  // namespace lockstep
