// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// What is known of one system, as data: every field is a key of a profile's TOML file, explained by `profile_schema()`.
// An empty text or list, and a 0, mean that nothing is known. A profile gives defaults: what a node says of itself and
// what the user says come before it.

struct ProfileAbout {
  std::string description;
  std::string site;
  std::string machine;
  std::string date;  ///< When the facts were looked up.
  std::vector<std::string> sources;
  std::vector<std::string> unverified;  ///< Keys whose values are from memory, or on which the sources differ.
  std::vector<std::string> notes;
};

/// How a machine of this system is recognised; never taken over from a base.
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
  std::string visible;              ///< "one": a task sees its own as index 0. "all": it takes index LOCAL_RANK.
  std::vector<std::int64_t> order;  ///< In which a task with index i sees them, where a job has all of a node's.
  std::vector<std::int64_t> numa;
  std::vector<std::string> cpu_masks;  ///< The cores nearest to each device; they need the whole node.
  bool fast_bf16 = true;
  std::int64_t bus_gbs = 0;                  ///< Bus bandwidth of an all-reduce among a node's devices, in GB/s.
  std::vector<std::string> peak_tflops;      ///< "bf16 312": of one device, by its data sheet.
  std::vector<std::string> training_tflops;  ///< The same as published trainings attain it.
};

struct ProfileNetwork {
  std::string kind;
  std::vector<std::string> interfaces;  ///< In order of preference: each a name, a pattern, or names with commas.
  std::vector<std::string> hcas;
  std::string host_suffix;                ///< What a host's name gets on the fast network: "i".
  std::int64_t node_gbs = 0;              ///< What a node's adapters carry together in one direction, in GB/s.
  std::vector<std::string> expected_log;  ///< What the collectives' log says on the fast network.
};

struct ProfileSlurm {
  std::int64_t nodes = 0;
  bool account_required = false;
  std::string account_form;     ///< For a person: "project_ and nine digits".
  std::string account_pattern;  ///< The same as a regular expression; empty where accounts have any form.
  std::string account;          ///< Charged where nobody names one.
  std::string partition;
  std::string qos;
  std::chrono::seconds time{0};      ///< Asked for where nobody says.
  std::string billing;               ///< What hours are counted of: "node", "device" or "core".
  std::int64_t billed_per_node = 0;  ///< How many of them a whole node has; 0: as many as it has of that.
};

/// For jobs of this many nodes, this much time.
struct NodeLimit {
  int min_nodes = 1;
  int max_nodes = 1;
  std::chrono::seconds time{0};  ///< 0 where it is not known.
};

/// A partition or a QOS: what it lets a job have.
struct ProfileQueue {
  std::vector<NodeLimit> limits;
  bool whole_node = false;       ///< A job has its nodes to itself, and pays for all of them.
  std::int64_t max_devices = 0;  ///< Of one job; 0 for any number.
  bool on_request = false;
  bool chaining = true;  ///< Jobs may follow each other.
  std::string note;
};

/// What a batch script asks for. `{devices}` and the like stand for the job's own numbers.
struct ProfileSbatch {
  std::string devices;
  std::int64_t cores_per_device = 0;  ///< As Slurm counts cores there: hardware threads on some systems.
  std::int64_t cores = 0;             ///< Of a whole node, counted in the same way; for nodes without devices.
  std::string memory;                 ///< Of a whole node, as --mem takes it.
  std::string memory_per_device;
  std::vector<std::string> flags;
  std::vector<std::string> many_nodes;
  std::string export_mode;              ///< "ALL" or "NONE": what of the submitting shell's variables a job gets.
  std::chrono::seconds signal_lead{0};  ///< From the warning to the limit.
  bool requeue = true;                  ///< The site lets a job go back into the queue; else a next one is submitted.
};

struct ProfileSrun {
  std::vector<std::string> flags;
  std::vector<std::string> devices;      ///< Where there is one task for each device.
  std::vector<std::string> whole_nodes;  ///< Where the job has all of each node.
};

struct ProfileModules {
  std::vector<std::string> before;  ///< Lines of shell.
  std::vector<std::string> load;    ///< Names, for one `module load`.
  std::vector<std::string> after;
  std::vector<std::string> container;  ///< Lines instead of all those where the job runs in a container.
  bool torch = false;                  ///< `load` brings a Python with PyTorch.
};

struct ProfileContainer {
  std::string runtime;      ///< "apptainer", "singularity", "shifter" or "podman-hpc".
  std::string image;        ///< The site's own.
  bool by_default = false;  ///< Python programs without an environment of their own run in `image`.
  std::vector<std::string> binds;
  std::vector<std::string> flags;
  std::string many_nodes_note;  ///< What an image on several nodes lacks, and the way out: said at submission.
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
  std::int64_t call_us = 0;  ///< What one file-system call costs there, in microseconds.
  std::string stripe;
  bool internet = true;  ///< Compute nodes reach it.
};

struct ProfileSoftware {
  std::string torch;
  std::string build_image;
  std::string tensorboard;
  std::string tunnel;  ///< "ssh -L {port}:{node}:{port} {login}"
  std::string login;   ///< Where a person logs in; empty: the host that submits.
  std::string telemetry;
};

using ProfileEnv = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string name;
  std::string base;  ///< The profile that this one starts from; "generic" where it names none.
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
  ProfileEnv env;                            ///< For every job; what is set already stays.
  ProfileEnv env_one_node;                   ///< For a job on one node, over `env`.
  ProfileEnv env_many_nodes;                 ///< For a job on several.
  std::vector<std::string> cache_variables;  ///< Each is to name a folder on the node, this job's own.
  ProfileContainer container;
  ProfileStorage storage;
  ProfileSoftware software;

  /// "lumi-g.toml:31" for each key that some file gave.
  std::map<std::string, std::string, std::less<>> origins;
  /// Where a key's value came from; the profile's name where no file gave one.
  std::string origin(std::string_view key) const;
};

/// What an hour on one node costs, in the site's own unit.
struct NodeBilling {
  std::string unit;     ///< "node-hours", "GPU-hours" or "core-hours".
  double per_hour = 1;  ///< Of the part of the node that the job has.
};

/// Returns the price of `devices` and `cores` of a node: their larger share of it, or all of it if the job has the node
/// to itself. A profile that knows neither devices nor cores counts whole nodes.
NodeBilling node_billing(const Profile& profile, int devices, int cores, bool has_whole_node);

/// Returns the QOS or else the partition, as the profile knows it; a null pointer if it knows neither.
const ProfileQueue* known_queue(const Profile& profile, const std::string& qos, const std::string& partition);

/// The image that `--container site` means.
///
/// Throws: Error(kEnvironment) if the profile names none.
const std::string& site_image(const Profile& profile);

/// The variables of a job on so many nodes: `env` with `env_one_node` or `env_many_nodes` over it.
ProfileEnv env_for(const Profile& profile, int nodes);

}  // namespace lockstep
