// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/schema.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using enum SettingType;
constexpr auto kAside = SettingRole::kAside;

constexpr double kLargest = 1e9;  // Readers keep these values in an int.

constexpr SettingRule kAtLeast0 = {"at least 0", [](double v) { return v >= 0; }};
constexpr SettingRule kAtLeast1 = {"at least 1", [](double v) { return v >= 1; }};
constexpr SettingRule kCount = {"1 to 1e9", [](double v) { return v >= 1 && v <= kLargest; }};
constexpr SettingRule kAtLeastTwo = {"2 to 1e9", [](double v) { return v >= 2 && v <= kLargest; }};
constexpr SettingRule kCountOr0 = {"0 to 1e9", [](double v) { return v >= 0 && v <= kLargest; }};
constexpr SettingRule kCountOrAuto = {"-1 to 1e9", [](double v) { return v >= -1 && v <= kLargest; }};
constexpr SettingRule kAbove0 = {"above 0", [](double v) { return v > 0; }};
constexpr SettingRule kSpan = {"above 0 and at most 1e9", [](double v) { return v > 0 && v <= 1e9; }};
constexpr SettingRule kShare = {"at least 0 and below 1", [](double v) { return v >= 0 && v < 1; }};
constexpr SettingRule kShareOrCount = {"a share above 0 and below 1, or a number of samples from 1 on",
                                       [](double v) { return v > 0 && (v < 1 || v == std::floor(v)); }};
constexpr SettingRule kShareOrCountOr0 = {"0, a share below 1, or a whole number",
                                          [](double v) { return v >= 0 && (v < 1 || v == std::floor(v)); }};
constexpr SettingRule kWidths = {"each 1 to 1e9", kCount.holds};
constexpr SettingRule kShape = {"one or more, each 1 to 1e9", kCount.holds, {}, {}, 1};
constexpr SettingRule kSteps = {"the first and the last, each 1 to 1e9", kCount.holds, {}, {}, 2, 2};
constexpr SettingRule kBetas = {"two of them, each at least 0 and below 1", kShare.holds, {}, {}, 2, 2};

constexpr std::string_view kResNets = "resnet18 resnet34 resnet50 resnet101 resnet152";

constexpr std::string_view kPythonModel = "python:FILE:CLASS";
constexpr std::string_view kPythonData = "python:FILE:FUNCTION";

constexpr SettingRule one_of(std::string_view names) { return {.names = names}; }
constexpr SettingRule path_or(std::string_view word) { return {.word = word}; }
constexpr SettingTies only_for(std::string_view names) { return {.only_for = names}; }
constexpr SettingTies excluding(std::string_view keys) { return {.excludes = keys}; }
constexpr SettingTies yielding_to(std::string_view keys) { return {.yields_to = keys}; }
constexpr SettingTies same_as(std::string_view key) { return {.same_as = key}; }

// The rows are wrapped by hand, since the formatter would put each field of some rows on a line of its own.
// clang-format off
constexpr auto kRows = std::to_array<SettingRow>({
    {"model.name", kText, kMustBeSet, one_of("mlp cnn resnet18 resnet34 resnet50 resnet101 resnet152 vit_b_16 bert python:FILE:CLASS script:FILE plugin:FILE"), "",
     "the network; the data determines its number of classes"},
    {"model.hidden", kIntegers, "[128]", kWidths, "", "width of each hidden layer, from input to output", only_for("mlp")},
    {"model.stem", kText, "imagenet", one_of("imagenet cifar"), "",
     "first layer: imagenet is a 7 x 7 convolution and pooling; cifar is 3 x 3, for images of about 32 pixels", only_for(kResNets)},
    {"model.zero_init_residual", kFlag, "false", {}, "", "initialize each residual block as the identity", only_for(kResNets)},
    {"model.patch_size", kInteger, "16", kCount, "pixels", "side of a square patch", only_for("vit_b_16")},
    {"model.layers", kInteger, "12", kCount, "", "number of transformer layers", only_for("vit_b_16")},
    {"model.layers", kInteger, "2", kCount, "", "number of transformer layers", only_for("bert")},
    {"model.heads", kInteger, "12", kCount, "", "number of attention heads per layer", only_for("vit_b_16")},
    {"model.heads", kInteger, "2", kCount, "", "number of attention heads per layer", only_for("bert")},
    {"model.width", kInteger, "768", kCount, "", "embedding dimension", only_for("vit_b_16")},
    {"model.width", kInteger, "128", kCount, "", "embedding dimension", only_for("bert")},
    {"model.mlp_dim", kInteger, "3072", kCount, "", "hidden width of each layer's MLP", only_for("vit_b_16")},
    {"model.intermediate", kInteger, "512", kCount, "", "hidden width of each layer's MLP", only_for("bert")},
    {"model.max_positions", kInteger, "512", kCount, "", "longest sequence, in tokens", only_for("bert")},
    {"model.dropout", kReal, "0", kShare, "", "dropout probability", only_for("vit_b_16")},
    {"model.dropout", kReal, "0.1", kShare, "", "dropout probability", only_for("bert")},
    {"model.args.NAME", kAny, "", {}, "", "an argument of the Python class or function, by its name", only_for(kPythonModel)},
    {"model.steps", kText, "own", one_of("own recipe"), "",
     "own: the class's training_step, validation_step and configure_optimizers, if it has them; recipe: its forward, [loss], [optimizer], [scheduler]",
     only_for(kPythonModel)},
    {"model.weights", kPath, "", {}, "", "pretrained weights to start from: safetensors, .pt, .ckpt, a Hugging Face folder or a run",
     {}, kAside},
    {"model.weights_except", kTexts, "", {}, "", "parameters that keep their random initialization, by name pattern: \"fc.*\""},
    {"model.compiled", kPath, "", path_or("auto always"), "",
     "compiled forward and backward pass, as written by python/compile_model.py; auto: have Python compile it, and use it if it is faster", {}, kAside},
    {"model.freeze", kTexts, "", {}, "", "parameters that are not trained, by name pattern: \"layer1.*\""},

    {"data.kind", kText, kMustBeSet, one_of("idx folder cifar10 cifar100 hdf5 text csv synthetic python:FILE:FUNCTION"), "",
     "data format: MNIST's IDX files, a folder of images per class, and so on; synthetic generates samples"},
    {"data.path", kPath, kMustBeSet, {}, "", "folder or file of the data set",
     only_for("idx folder cifar10 cifar100 hdf5 text csv"), kAside},
    {"data.transforms", kTexts, "", {}, "", "transforms of each training image, e.g. \"random_resized_crop(64)\", \"flip\"",
     only_for("idx folder cifar10 cifar100 hdf5")},
    {"data.eval_transforms", kTexts, "", {}, "", "transforms of each validation image; by default data.transforms without the random ones",
     only_for("idx folder cifar10 cifar100 hdf5")},
    {"data.strict", kFlag, "false", {}, "", "end the run at a file that is not an image, instead of leaving it out",
     only_for("folder")},
    {"data.by_content", kFlag, "true", {}, "",
     "recognize an image by its first bytes; false: by its name, without opening it", only_for("folder")},
    {"data.input", kText, "", {}, "", "name of the array of samples; by default x, images, image, data or inputs", only_for("hdf5")},
    {"data.target", kText, "", {}, "", "name of the array of labels; by default y, labels, label or targets", only_for("hdf5")},
    {"data.window", kInteger, "128", kCount, "bytes", "length of one sample", only_for("text")},
    {"data.mask_share", kReal, "0.15", kShare, "", "share of a window's bytes that the model must predict", only_for("text")},
    {"data.label", kText, "", {}, "", "column of the target; by default the last one", only_for("csv")},
    {"data.regression", kFlag, "false", {}, "", "the target is a number to predict, not a class", only_for("csv")},
    {"data.samples", kInteger, "1000", kAtLeast1, "samples", "number of samples to generate", only_for("synthetic")},
    {"data.samples", kInteger, "", kAtLeast1, "samples", "samples of an epoch of an iterable data set, if it has no length", only_for(kPythonData)},
    {"data.classes", kInteger, "2", kCount, "classes", "number of classes", only_for("synthetic")},
    {"data.shape", kIntegers, "[2]", kShape, "", "shape of one sample", only_for("synthetic")},
    {"data.eval_samples", kInteger, "", kAtLeast1, "samples", "samples of its validation, likewise", only_for(kPythonData)},
    {"data.collate", kText, "", one_of("python:FILE:FUNCTION"), "", "a collate function, as PyTorch's DataLoader takes it", only_for(kPythonData)},
    {"data.args.NAME", kAny, "", {}, "", "an argument of the Python data set's function, by its name", only_for(kPythonData)},
    {"data.split", kReal, "", kShareOrCount, "",
     "samples held out for validation if the data set has no validation split; the seed decides which"},
    {"data.batch", kInteger, "32", kCount, "samples", "batch size of each rank", excluding("data.global_batch")},
    {"data.global_batch", kInteger, "", kCount, "samples", "batch size over all ranks", excluding("data.batch")},
    {"data.eval_batch", kInteger, "", kCount, "samples",
     "batch size of each rank in validation, eval and predict; by default 4 times the training batch, at most 256", {}, kAside},
    {"data.shuffle", kFlag, "true", {}, "", "shuffle the samples anew in each epoch; the order depends on seed and epoch only"},
    {"data.drop_last", kFlag, "false", {}, "", "drop the last batch of an epoch if it is incomplete"},
    {"data.workers", kInteger, "-1", kCountOrAuto, "threads",
     "threads of each rank that decode ahead; 0 decodes in the training loop, -1 chooses", {}, kAside},
    {"data.on_device", kText, "auto", one_of("auto on off"), "",
     "cache all samples in GPU memory; auto: if they are few, and differ between epochs only by crops and flips", {}, kAside},

    {"trainer.max_epochs", kInteger, "1", kAtLeast1, "epochs", "end the run after this many epochs",
     yielding_to("trainer.max_steps trainer.max_time")},
    {"trainer.max_steps", kInteger, "", kAtLeast1, "steps", "end the run after this many steps, if this limit comes first"},
    {"trainer.max_time", kDuration, "", kSpan, "", "end the run after this time, if this limit comes first; the time of all its starts counts"},
    {"trainer.accelerator", kText, "auto", one_of("auto cpu gpu"), "", "device type to train on", {}, kAside},
    {"trainer.share_device", kFlag, "false", {}, "", "allow several ranks on one GPU; they then communicate through Gloo", {},
     kAside},
    {"trainer.devices", kInteger, "", kCount, "devices",
     "ranks on each node; by default one per GPU, or one if there is no GPU", {}, kAside},
    {"trainer.num_nodes", kInteger, "", kCount, "nodes",
     "another name for cluster.nodes", same_as("cluster.nodes"), kAside},
    {"trainer.strategy", kText, "auto", one_of("auto single ddp dp"), "",
     "single: one rank; ddp: data-parallel ranks; dp: one rank with a copy of the model on each device", {}, kAside},
    {"trainer.precision", kText, "fp32", one_of("fp64 fp32 tf32 bf16 fp16"), "",
     "arithmetic precision; bf16 and fp16 keep the weights in float32"},
    {"trainer.channels_last", kText, "auto", one_of("auto on off"), "",
     "channels-last memory format for images; auto: in bf16 and fp16, and on a GPU also in tf32"},
    {"trainer.graph", kText, "auto", one_of("auto on off"), "",
     "record a GPU's whole step once as a graph and replay it; auto: if that is possible and faster", {}, kAside},
    {"trainer.accumulate", kInteger, "1", kCount, "batches", "batches whose gradients are accumulated before each update"},
    {"trainer.clip_norm", kReal, "", kAbove0, "",
     "L2 norm to clip gradients to"},
    {"trainer.clip_value", kReal, "", kAbove0, "", "largest absolute value of a gradient element; larger ones are clipped"},
    {"trainer.sync_batchnorm", kFlag, "false", {}, "", "compute BatchNorm statistics over all ranks"},
    {"trainer.deterministic", kFlag, "false", {}, "", "use only deterministic algorithms"},
    {"trainer.find_unused_parameters", kFlag, "false", {}, "", "allow parameters that the loss does not depend on, as in PyTorch's DDP"},
    {"trainer.static_graph", kFlag, "false", {}, "",
     "the unused parameters are the same in every step; find them once"},
    {"trainer.compression", kText, "none", one_of("none fp16 bf16 powersgd"), "",
     "gradient compression: round to fp16 or bf16, or PowerSGD's low-rank matrices"},
    {"trainer.compression_rank", kInteger, "1", kCount, "columns", "rank of PowerSGD's matrices"},
    {"trainer.compression_start", kInteger, "1000", kAtLeastTwo, "steps", "steps without compression before PowerSGD begins"},
    {"trainer.average", kText, "none", one_of("none ema swa"), "",
     "weight averaging: ema over steps, swa over the ends of epochs; validation uses the averaged weights"},
    {"trainer.average_decay", kReal, "0.999", kShare, "", "decay of the EMA per step"},
    {"trainer.average_from", kInteger, "0", kAtLeast0, "epochs", "epoch at which averaging begins"},
    {"trainer.limit_train_batches", kReal, "0", kShareOrCountOr0, "", "limit each epoch to this share, or this number, of its batches; 0 for all"},
    {"trainer.limit_val_batches", kReal, "0", kShareOrCountOr0, "",
     "limit validation likewise; a batch is data.eval_batch, or else 256 samples, over all ranks together"},
    {"trainer.overfit_batches", kInteger, "0", kCountOr0, "batches",
     "train and validate on the first few batches only, to see whether the model can learn them; 0 for all"},
    {"trainer.fast_dev_run", kFlag, "false", {}, "", "smoke test: one batch each of training and validation, nothing saved"},
    {"trainer.seed", kInteger, "0", kAtLeast0, "", "random seed of the initial weights, the order of samples and the split"},
    {"trainer.validate_every", kInteger, "1", kAtLeast0, "epochs", "interval between validations; 0 for none"},
    {"trainer.threads", kInteger, "0", kCountOr0, "threads",
     "compute threads of each rank; 0 for OMP_NUM_THREADS, or an equal share of the cores if that is unset", {}, kAside},
    {"trainer.join_timeout", kDuration, "300", kSpan, "",
     "longest wait for all ranks to join; the variable LOCKSTEP_MEET_TIMEOUT overrides it", {}, kAside},
    {"trainer.collective_timeout", kDuration, "1800", kSpan, "",
     "timeout of one collective; then the run ends with exit code 7", {}, kAside},
    {"trainer.heal", kText, "auto", one_of("auto on off"), "",
     "start a rank that dies again, and give it the state of the others from memory; auto: if its ranks compute on CPUs; on: "
     "on GPUs too, where the host then waits for the gradients before each update", {}, kAside},
    {"trainer.heal_limit", kInteger, "100", kCountOr0, "times", "most ranks that are started again in one run", {}, kAside},
    {"trainer.heal_window", kDuration, "120", kAtLeast0, "",
     "a rank that dies twice within this time is not started again; 0 for no such limit", {}, kAside},
    {"trainer.bucket_mb", kReal, "25", kAbove0, "MiB", "size of a bucket of gradients that are averaged in one all-reduce"},

    {"loss.name", kText, "", one_of("python:FILE:FUNCTION"), "",
     "a Python function of output and target that returns the mean loss; default: cross entropy, or the squared error in a regression"},

    {"metrics.NAME", kText, "", one_of("python:FILE:FUNCTION"), "",
     "val_NAME: a Python function of output and target that returns the batch's mean, or a number for each sample"},

    {"optimizer.name", kText, "sgd", one_of("sgd adam adamw"), "", "optimizer, as PyTorch defines it"},
    {"optimizer.lr", kReal, "0.001", kAtLeast0, "", "learning rate"},
    {"optimizer.momentum", kReal, "0", kAtLeast0, "", "momentum factor", only_for("sgd")},
    {"optimizer.dampening", kReal, "0", {}, "", "dampening of the momentum", only_for("sgd")},
    {"optimizer.nesterov", kFlag, "false", {}, "", "use Nesterov momentum", only_for("sgd")},
    {"optimizer.betas", kReals, "[0.9, 0.999]", kBetas, "",
     "decay rates of the running means of the gradient and of its square", only_for("adam adamw")},
    {"optimizer.eps", kReal, "1e-08", kAtLeast0, "", "term added to the denominator for numerical stability", only_for("adam adamw")},
    {"optimizer.amsgrad", kFlag, "false", {}, "", "use the AMSGrad variant", only_for("adam adamw")},
    {"optimizer.weight_decay", kReal, "0", kAtLeast0, "", "L2 penalty", only_for("sgd adam")},
    {"optimizer.weight_decay", kReal, "0.01", kAtLeast0, "", "decoupled weight decay", only_for("adamw")},

    {"optimizer.groups", kTexts, "", {}, "",
     "parameter groups by name pattern, e.g. \"*.bias weight_decay=0\", \"fc.* lr=0.01\"; the first match counts"},

    {"scheduler.name", kText, "constant", one_of("constant step multistep exponential cosine linear onecycle plateau"), "",
     "learning rate schedule, as PyTorch's scheduler of that name"},
    {"scheduler.interval", kText, "epoch", one_of("epoch step"), "", "unit that the scheduler counts in",
     only_for("constant step multistep exponential cosine linear plateau")},
    {"scheduler.interval", kText, "step", one_of("epoch step"), "", "unit that the scheduler counts in", only_for("onecycle")},
    {"scheduler.warmup", kInteger, "0", kCountOr0, "", "epochs or steps of linear warm-up"},
    {"scheduler.warmup_start_factor", kReal, "0.1", kShare, "", "factor on the learning rate at the start of the warm-up"},
    {"scheduler.step_size", kInteger, "30", kCount, "", "interval between decays of the learning rate", only_for("step")},
    {"scheduler.milestones", kIntegers, kMustBeSet, kWidths, "", "points at which the learning rate is decayed", only_for("multistep")},
    {"scheduler.gamma", kReal, "0.1", kAbove0, "", "factor that the learning rate is multiplied by", only_for("step multistep")},
    {"scheduler.gamma", kReal, "0.95", kAbove0, "", "factor that the learning rate is multiplied by", only_for("exponential")},
    {"scheduler.T_max", kInteger, "", kCount, "", "length of the cosine; by default the whole run", only_for("cosine")},
    {"scheduler.eta_min", kReal, "0", kAtLeast0, "", "final learning rate", only_for("cosine")},
    {"scheduler.start_factor", kReal, "0.3333333333333333", kAbove0, "", "factor on the learning rate at the start", only_for("linear")},
    {"scheduler.end_factor", kReal, "1", kAtLeast0, "", "factor on the learning rate at the end", only_for("linear")},
    {"scheduler.total_iters", kInteger, "5", kCount, "", "length of the linear change", only_for("linear")},
    {"scheduler.max_lr", kReal, kMustBeSet, kAbove0, "", "largest learning rate of the cycle", only_for("onecycle")},
    {"scheduler.total_steps", kInteger, "", kCount, "", "length of the cycle; by default the whole run", only_for("onecycle")},
    {"scheduler.pct_start", kReal, "0.3", kShare, "", "share of the cycle in which the learning rate rises", only_for("onecycle")},
    {"scheduler.div_factor", kReal, "25", kAbove0, "", "the initial learning rate is max_lr divided by this", only_for("onecycle")},
    {"scheduler.final_div_factor", kReal, "10000", kAbove0, "", "the final learning rate is the initial one divided by this", only_for("onecycle")},
    {"scheduler.cycle_momentum", kFlag, "true", {}, "", "cycle the momentum inversely to the learning rate", only_for("onecycle")},
    {"scheduler.base_momentum", kReal, "0.85", kShare, "", "momentum at max_lr", only_for("onecycle")},
    {"scheduler.max_momentum", kReal, "0.95", kShare, "", "momentum at the start and the end of the cycle", only_for("onecycle")},
    {"scheduler.monitor", kText, "val_loss", {}, "", "metric to watch", only_for("plateau")},
    {"scheduler.mode", kText, "min", one_of("min max"), "", "whether a smaller (min) or a larger (max) metric is better", only_for("plateau")},
    {"scheduler.factor", kReal, "0.1", kShare, "", "factor that the learning rate is multiplied by", only_for("plateau")},
    {"scheduler.patience", kInteger, "10", kCountOr0, "", "validations without improvement before it acts", only_for("plateau")},
    {"scheduler.threshold", kReal, "1e-04", kAtLeast0, "", "smallest relative change that counts as an improvement", only_for("plateau")},
    {"scheduler.cooldown", kInteger, "0", kCountOr0, "", "validations to wait after a decay before counting again", only_for("plateau")},
    {"scheduler.min_lr", kReal, "0", kAtLeast0, "", "lower bound of the learning rate", only_for("plateau")},

    {"early_stopping.monitor", kText, "", {}, "", "metric to watch; the run ends when it stops improving"},
    {"early_stopping.mode", kText, "min", one_of("min max"), "", "whether a smaller (min) or a larger (max) metric is better"},
    {"early_stopping.patience", kInteger, "3", kCount, "", "validations without improvement before it acts"},
    {"early_stopping.min_delta", kReal, "0", kAtLeast0, "", "smallest change that counts as an improvement"},

    {"guard.on_nonfinite", kText, "stop", one_of("stop skip rollback ignore"), "",
     "if a gradient is not finite: end the run, skip the step, go back to the newest snapshot's weights, or ignore it", {}, kAside},
    {"guard.every_steps", kInteger, "", kCountOr0, "steps",
     "interval between comparisons of the ranks' weights; 0 for none; by default chosen to cost at most 1 % of the time", {}, kAside},
    {"guard.on_difference", kText, "stop", one_of("stop heal"), "",
     "if ranks' weights differ: end the run, or copy the majority's weights to the others", {}, kAside},

    {"snapshot.monitor", kText, "", {}, "", "metric to watch; the snapshot with the best value is also kept as `best`", {}, kAside},
    {"snapshot.mode", kText, "min", one_of("min max"), "", "whether a smaller (min) or a larger (max) metric is better", {}, kAside},
    {"snapshot.every_epochs", kInteger, "1", kAtLeast0, "epochs",
     "interval between snapshots; 0 for none; a snapshot is always written at the end of a run",
     yielding_to("snapshot.every_steps snapshot.every_minutes"), kAside},
    {"snapshot.every_steps", kInteger, "0", kAtLeast0, "steps", "interval between snapshots; 0 for none", {}, kAside},
    {"snapshot.every_minutes", kReal, "0", kAtLeast0, "minutes", "interval between snapshots; 0 for none", {}, kAside},
    {"snapshot.in_memory", kInteger, "0", kAtLeast0, "steps",
     "interval between copies of the state to the parent process's memory, which it writes if a rank dies; 0 for none", {},
     kAside},
    {"snapshot.keep", kInteger, "3", kCountOr0, "snapshots", "latest snapshots to keep; 0 for all", {}, kAside},
    {"snapshot.keep_every_hours", kReal, "0", kAtLeast0, "hours",
     "of older snapshots, also keep one per this many hours; 0 for none", {}, kAside},

    {"observe.log_every", kInteger, "50", kAtLeast0, "steps",
     "interval between logged losses; 0 for none", {}, kAside},
    {"observe.tensorboard", kFlag, "true", {}, "", "write TensorBoard event files", {}, kAside},
    {"observe.profile", kIntegers, "", kSteps, "", "first and last step that LibTorch's profiler records, into trace/",
     {}, kAside},
    {"observe.profile_ranks", kInteger, "4", kCount, "ranks", "number of ranks that write a trace, from rank 0 on, one file each", {}, kAside},

    {"cluster.name", kText, "", {}, "", "cluster profile, as `lockstep profile ls` names it; by default the one detected",
     {}, kAside},
    {"cluster.nodes", kInteger, "", kCount, "nodes", "number of nodes to request", {}, kAside},
    {"cluster.min_nodes", kInteger, "", kCount, "nodes",
     "fewest nodes that the job accepts, if the queue does not have all of cluster.nodes", {}, kAside},
    {"cluster.node_step", kInteger, "", kCount, "nodes",
     "accept only cluster.min_nodes plus a multiple of this; needs Slurm 23.02 or later", {}, kAside},
    {"cluster.time", kDuration, "", kSpan, "", "time limit of a job; a run continues in the next job", {}, kAside},
    {"cluster.account", kText, "", {}, "", "Slurm account to charge", {}, kAside},
    {"cluster.partition", kText, "", {}, "", "Slurm partition; by default the profile's", {}, kAside},
    {"cluster.qos", kText, "", {}, "", "Slurm quality of service (QOS); by default the profile's", {}, kAside},
    {"cluster.setup", kTexts, "", {}, "", "shell commands that each task runs first, inside the container", {}, kAside},
    {"cluster.setup_once", kTexts, "", {}, "", "shell commands that the job runs once; tasks see what they export", {}, kAside},
    {"cluster.modules", kTexts, "", {}, "", "modules to load, instead of the profile's; [] for none", {}, kAside},
    {"cluster.conda", kText, "", {}, "", "conda environment to activate, by path or name", {}, kAside},
    {"cluster.container", kText, "", {}, "", "container image that tasks run in", {}, kAside},
    {"cluster.binds", kTexts, "", {}, "", "folders to bind into the container, \"DIR\" or \"DIR:INSIDE\"", {}, kAside},
    {"cluster.env", kTexts, "", {}, "", "environment variables of the job, \"NAME=value\"", {}, kAside},
    {"cluster.sbatch", kTexts, "", {}, "", "further sbatch flags", {}, kAside},
});
// clang-format on

constexpr auto kCommon = std::to_array<std::string_view>(
    {"model.name", "data.kind", "data.path", "data.batch", "trainer.max_epochs", "trainer.precision", "trainer.seed",
     "optimizer.name", "optimizer.lr", "scheduler.name", "cluster.nodes", "cluster.time", "cluster.account"});

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

constexpr std::string_view kAnyName = ".NAME";

/// True if `key` is the key of this row, or one of the keys for which a row such as "model.args.NAME" stands.
bool is_key_of(const SettingRow& row, std::string_view key) {
  if (row.key == key) return true;
  if (!stands_for_many(row)) return false;
  const auto stem = row.key.substr(0, row.key.size() - kAnyName.size() + 1);
  return key.starts_with(stem) && key.size() > stem.size();
}

}  // namespace

std::span<const SettingRow> schema() { return kRows; }

std::span<const std::string_view> common_settings() { return kCommon; }

std::vector<const SettingRow*> rows_of(std::string_view key) {
  std::vector<const SettingRow*> rows;
  for (const auto& row : kRows) {
    if (is_key_of(row, key)) rows.push_back(&row);
  }
  return rows;
}

bool stands_for_many(const SettingRow& row) { return row.key.ends_with(kAnyName); }

std::vector<std::string> setting_tables() {
  std::vector<std::string> tables;
  for (const auto& row : kRows) {
    if (tables.empty() || tables.back() != table_of(row.key)) tables.emplace_back(table_of(row.key));
  }
  return tables;
}

std::optional<std::string> selector_of(std::string_view table) {
  const bool has_choices = std::any_of(kRows.begin(), kRows.end(), [&](const auto& row) {
    return table_of(row.key) == table && !row.ties.only_for.empty();
  });
  if (!has_choices) return std::nullopt;
  for (const std::string_view leaf : {".kind", ".name"}) {
    auto key = std::string(table).append(leaf);
    if (!rows_of(key).empty()) return key;
  }
  return std::nullopt;
}

std::string_view table_of(std::string_view key) { return key.substr(0, key.find('.')); }

bool is_taken_by(const SettingRow& row, std::string_view selected) {
  if (row.ties.only_for.empty()) return true;
  const auto takers = words(row.ties.only_for);
  return std::ranges::any_of(takers,
                             [&](const auto& taker) { return taker == selected || names_file(taker, selected); });
}

std::optional<std::string> nearest_setting(std::string_view key) {
  std::vector<std::string> same_word;
  std::vector<std::string> all;
  for (const auto& row : kRows) {
    all.emplace_back(row.key);
    if (leaf_of(row.key) == leaf_of(key)) same_word.emplace_back(row.key);
  }
  if (same_word.size() == 1) return same_word.front();
  if (const auto near = nearest_name(key, same_word)) return near;
  return nearest_name(key, all);
}

std::string wanted(const SettingRow& row) {
  if (!row.rule.names.empty()) return "one of " + joined(words(row.rule.names), ", ");
  std::string text(row.type == kFlag       ? "true or false"
                   : row.type == kInteger  ? "a whole number"
                   : row.type == kReal     ? "a number"
                   : row.type == kText     ? "text"
                   : row.type == kPath     ? "a path"
                   : row.type == kDuration ? "\"HH:MM:SS\" or seconds"
                   : row.type == kIntegers ? "a list of whole numbers"
                   : row.type == kTexts    ? "a list of texts, or one text"
                   : row.type == kAny      ? "true or false, a number, text, or a list of one of them"
                                           : "a list of numbers");
  if (!row.rule.word.empty()) text.append(" or ").append(joined(words(row.rule.word), " or "));
  if (!row.unit.empty()) text.append(" of ").append(row.unit);
  if (!row.rule.wanted.empty()) text.append(", ").append(row.rule.wanted);
  return text;
}

bool names_file(std::string_view name, std::string_view text) {
  const auto file = name.find(":FILE");
  if (file == std::string_view::npos) return false;
  const auto kind = name.substr(0, file + 1);
  if (!text.starts_with(kind) || text.size() == kind.size()) return false;
  // After a second colon comes the name of a class or function in the Python file or module.
  const auto second = text.rfind(':');
  return name.ends_with(":FILE") || (second > file + 1 && second + 1 < text.size());
}

std::vector<std::string> words(std::string_view list) {
  if (list.empty()) return {};
  return split(list, ' ');
}

}  // namespace lockstep
