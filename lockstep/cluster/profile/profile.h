// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The facts about one cluster, as data. Every field is a key of a profile's TOML file, which `profile_schema()`
// explains. An empty text or list, and a 0, mean unknown. A profile gives defaults. A node's own facts and the user's
// settings override them.

struct ProfileAbout {
  std::string description;
  std::string site;
  std::string machine;
  std::string date;  ///< When the facts were looked up.
  std::vector<std::string> sources;
  std::vector<std::string> unverified;  ///< Keys whose values are from memory, or on which the sources differ.
  std::vector<std::string> notes;
};

/// How to recognise a machine of this cluster. A profile does not inherit these rules from its base.
struct ProfileDetect {
  std::vector<std::string> env;    ///< "NAME" that is set, or "NAME=value".
  std::vector<std::string> files;  ///< "/path=its whole content".
  std::vector<std::string> paths;  ///< A path that is there.
  std::vector<std::string> hosts;  ///< Regular expressions, searched for in the host's name.
  std::string slurm_cluster;       ///< Slurm's ClusterName, in lower case.
};

struct ProfileNode {
  std::string cpu;
  std::int64_t cores = 0;
  std::int64_t usable_cores = 0;
  std::vector<std::int64_t> reserved_cores;
  std::int64_t numa_domains = 0;
  std::int64_t memory_gib = 0;
};

/// A node's devices, as Slurm and the device's runtime count them. Lists are by device.
struct ProfileDevices {
  std::int64_t count = 0;
  std::string name;
  std::string arch;
  std::int64_t memory_gib = 0;
  std::string backend;              ///< "cuda" or "rocm".
  std::string visible;              ///< "one" if a task sees its own as index 0. "all" if it takes index LOCAL_RANK.
  std::vector<std::int64_t> order;  ///< In which a task with index i sees them, if a job has all of a node's.
  std::vector<std::int64_t> numa;
  std::vector<std::string> cpu_masks;  ///< The cores nearest to each device. They need the whole node.
  bool fast_bf16 = true;
  std::int64_t bus_gbs = 0;                  ///< Bus bandwidth of an all-reduce among a node's devices, in GB/s.
  std::vector<std::string> peak_tflops;      ///< Of one device, from its data sheet, such as "bf16 312".
  std::vector<std::string> training_tflops;  ///< The same as published trainings attain it.
};

struct ProfileNetwork {
  std::string kind;
  std::vector<std::string> interfaces;  ///< In order of preference. Each is a name, a pattern, or names with commas.
  std::vector<std::string> hcas;
  std::string host_suffix;                ///< Suffix of a host name on the high-speed network, such as "i".
  std::int64_t node_gbs = 0;              ///< Bandwidth of all of a node's adapters together, in one direction, in
                                          ///< GB/s.
  std::vector<std::string> expected_log;  ///< Text in the log of the collectives that shows the high-speed network.
};

struct ProfileSlurm {
  std::int64_t nodes = 0;
  bool account_required = false;
  std::string account_form;     ///< For people, such as "project_ and nine digits".
  std::string account_pattern;  ///< The same as a regular expression. Empty if accounts have any form.
  std::string account;          ///< The default account.
  std::string partition;
  std::string qos;
  std::chrono::seconds time{0};      ///< The default time limit.
  std::string billing;               ///< The unit of billing, "node", "device" or "core".
  std::int64_t billed_per_node = 0;  ///< Billed units of a whole node. 0 means as many as it has of that unit.
};

/// A rule: jobs with this many nodes may take this much time.
struct NodeLimit {
  int min_nodes = 1;
  int max_nodes = 1;
  std::chrono::seconds time{0};  ///< 0 if it is not known.
};

/// A partition or a QOS, with the limits of its jobs.
struct ProfileQueue {
  std::vector<NodeLimit> limits;
  bool whole_node = false;       ///< A job has its nodes to itself, and pays for all of them.
  std::int64_t max_devices = 0;  ///< Of one job. 0 for any number.
  bool on_request = false;
  bool chaining = true;  ///< Jobs may follow each other.
  std::string note;
};

/// The flags of a batch script. `{devices}` and the like stand for the job's own numbers.
struct ProfileSbatch {
  std::string devices;
  std::int64_t cores_per_device = 0;  ///< As Slurm counts cores there, which are hardware threads on some clusters.
  std::int64_t cores = 0;             ///< Cores of a whole node, counted in the same way, for nodes without devices.
  std::string memory;                 ///< Of a whole node, as --mem takes it.
  std::string memory_per_device;
  std::vector<std::string> flags;
  std::vector<std::string> many_nodes;
  std::string export_mode;              ///< "ALL" or "NONE", the part of the submitting shell's variables that a job
                                        ///< gets.
  std::chrono::seconds signal_lead{0};  ///< From the warning to the limit.
  bool requeue = true;                  ///< The site lets a job go back into the queue. Else a next one is submitted.
};

struct ProfileSrun {
  std::vector<std::string> flags;
  std::vector<std::string> devices;      ///< If there is one task for each device.
  std::vector<std::string> whole_nodes;  ///< Flags if the job has whole nodes.
};

struct ProfileModules {
  std::vector<std::string> before;  ///< Lines of shell.
  std::vector<std::string> load;    ///< Names, for one `module load`.
  std::vector<std::string> after;
  std::vector<std::string> container;  ///< Shell commands instead of all of these if the job runs in a container.
  bool torch = false;                  ///< `load` brings a Python interpreter with PyTorch.
};

struct ProfileContainer {
  std::string runtime;      ///< "apptainer", "singularity", "shifter" or "podman-hpc".
  std::string image;        ///< The site's own.
  bool by_default = false;  ///< True if Python programs without an environment run in `image`.
  std::vector<std::string> binds;
  std::vector<std::string> flags;
  std::string many_nodes_note;  ///< Limits of an image on several nodes, and the workaround. Printed at submission.
};

/// Folders may hold `{user}`, `{project}` and $NAME.
struct ProfileStorage {
  std::string home;
  bool home_is_small = false;  ///< Too small for what PyTorch and Hugging Face download.
  std::string project;
  std::string scratch;
  std::string flash;
  std::string node_local;
  bool node_local_is_memory = false;
  std::string node_local_large;  ///< A disk that a job gets with `node_local_large_flag`.
  std::string node_local_large_flag;
  std::int64_t purge_days = 0;
  std::int64_t call_us = 0;  ///< Time of one file-system call there, in microseconds.
  std::string stripe;
  bool internet = true;  ///< Compute nodes reach it.
};

struct ProfileSoftware {
  std::string torch;
  std::string build_image;
  std::string tensorboard;
  std::string tunnel;  ///< "ssh -L {port}:{node}:{port} {login}"
  std::string login;   ///< The login host. Empty for the host that submits.
  std::string telemetry;
};

using ProfileEnv = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string name;
  std::string base;  ///< The profile that this one starts from. "generic" if it names none.
  ProfileAbout about;
  ProfileDetect detect;
  ProfileNode node;
  ProfileDevices devices;
  ProfileNetwork network;
  ProfileSlurm slurm;
  std::map<std::string, ProfileQueue, std::less<>> partitions;
  std::map<std::string, ProfileQueue, std::less<>> qos;
  ProfileSbatch sbatch;
  ProfileSrun srun;
  ProfileModules modules;
  ProfileEnv env;                            ///< Variables of every job. They do not replace variables that are set.
  ProfileEnv env_one_node;                   ///< For a job on one node, over `env`.
  ProfileEnv env_many_nodes;                 ///< For a job on several.
  std::vector<std::string> cache_variables;  ///< Each is to name a folder on the node, this job's own.
  ProfileContainer container;
  ProfileStorage storage;
  ProfileSoftware software;

  /// The origin, such as "lumi-g.toml:31", of each key that a file sets.
  std::map<std::string, std::string, std::less<>> origins;
  /// Returns the origin of a key's value. If no file sets the key, it is the profile's name.
  std::string origin(std::string_view key) const;
};

/// The price of an hour on one node, in the site's own unit.
struct NodeBilling {
  std::string unit;     ///< "node-hours", "GPU-hours" or "core-hours".
  double per_hour = 1;  ///< Of the part of the node that the job has.
};

/// Returns the price of `devices` and `cores` of a node. The price is proportional to the larger of the two shares of
/// the node. If the job has the node alone, it pays for the whole node. A profile that knows neither devices nor cores
/// counts whole nodes.
NodeBilling node_billing(const Profile& profile, int devices, int cores, bool has_whole_node);

/// Returns the profile's entry for the QOS, or else for the partition. Null if the profile has neither.
const ProfileQueue* known_queue(const Profile& profile, const std::string& qos, const std::string& partition);

/// Returns the path of the image that `--container site` means.
///
/// Throws: Error(kEnvironment) if the profile names no image.
const std::string& site_image(const Profile& profile);

/// Returns the variables for a job on `nodes` nodes: those of `env`, overridden by `env_one_node` or `env_many_nodes`.
ProfileEnv env_for(const Profile& profile, int nodes);

}  // namespace lockstep
