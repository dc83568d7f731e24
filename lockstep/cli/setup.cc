// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/cpu_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/setup/trainer_build.h"
#include "lockstep/cluster/setup/trainer_source.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct SetupOptions {
  std::string python;
  std::string container;
  int jobs = 0;
  bool json = false;
};

/// Returns the words that start a command in the environment of the PyTorch: none, or those of the container runtime.
std::vector<std::string> starter(const SetupOptions& options, const Context& context) {
  if (options.container.empty()) return {};
  const auto profile = ProfileLibrary(context.env).detected(HostFacts::of_process(context.env));
  const auto& runtime = profile.container.runtime;
  if (runtime != "apptainer" && runtime != "singularity") {
    throw Error(ErrorKind::kEnvironment,
                "containers are started by '" + runtime + "' here (" + profile.origin("container.runtime") +
                    "), want apptainer or singularity",
                "build in a shell inside the container: lockstep setup --python python3");
  }
  std::error_code ignored;
  if (!fs::exists(options.container, ignored)) {
    throw Error(ErrorKind::kEnvironment, "there is no container image '" + options.container + "'", "check the path");
  }
  std::vector<std::string> words = {runtime, "exec", "--cleanenv"};
  for (const auto& bind : {cache_folder(context.env), fs::absolute(this_program()).parent_path()}) {
    words.insert(words.end(), {"-B", bind.string()});
  }
  words.push_back(options.container);
  return words;
}

TorchInstall torch_of(const SetupOptions& options, const std::vector<std::string>& start, const Context& context) {
  const std::string python = options.python.empty() ? "python3" : options.python;
  auto command = start;
  command.insert(command.end(), {python, "-c", std::string(torch_probe())});
  const auto asked = run_process(command, context.env);
  if (asked.exit_code != 0) {
    throw Error(ErrorKind::kEnvironment,
                "'" + python + "' could not be asked for its PyTorch: " + std::string(trimmed(asked.errors)),
                "name another: lockstep setup --python PATH");
  }
  auto torch = torch_in(asked.output, python);
  torch.container = options.container;
  return torch;
}

/// Shows the progress that ninja or make reports. On a terminal this is one line. Elsewhere it is a new line for each
/// tenth.
class Progress {
 public:
  explicit Progress(const Log& log) : log_(log) {}

  void see(std::string_view line) {
    if (!line.starts_with('[')) return;
    const auto close = line.find(']');
    const auto word = line.substr(1, close == std::string_view::npos ? 0 : close - 1);
    int percent = -1;
    if (const auto slash = word.find('/'); slash != std::string_view::npos) {
      const auto done = parsed_int<int>(word.substr(0, slash));
      const auto all = parsed_int<int>(word.substr(slash + 1));
      if (done && all && *all > 0) percent = 100 * *done / *all;
    } else if (word.ends_with('%')) {
      percent = parsed_int<int>(trimmed(word.substr(0, word.size() - 1))).value_or(-1);
    }
    const int step = is_watched_ ? 1 : 10;
    if (percent < 0 || percent / step <= shown_ / step) return;
    shown_ = percent;
    if (!is_watched_) return log_.info("built " + std::to_string(percent) + " %");
    const std::string text = "\rlockstep: built " + std::to_string(percent) + " %" + (percent == 100 ? "\n" : "");
    [[maybe_unused]] const auto said = ::write(STDERR_FILENO, text.data(), text.size());
  }

 private:
  const Log& log_;
  bool is_watched_ = ::isatty(STDERR_FILENO) == 1;
  int shown_ = 0;
};

/// Configures and builds the trainer. The output of the build goes to `log_file`.
void build(const std::vector<std::string>& start, const std::string& script, const fs::path& log_file,
           const Context& context) {
  auto command = start;
  command.insert(command.end(), {"sh", "-c", script});
  std::string said;
  std::size_t seen = 0;
  Progress progress(context.log);
  const auto result = run_process(command, context.env, [&](std::string_view text) {
    said += text;
    for (auto end = said.find('\n', seen); end != std::string::npos; end = said.find('\n', seen)) {
      progress.see(std::string_view(said).substr(seen, end - seen));
      seen = end + 1;
    }
  });
  said += result.errors;
  write_whole(log_file, said, false);
  const int code = result.exit_code;
  if (code == 0) return;
  auto lines = split(trimmed(said), '\n');
  if (lines.size() > 15) lines.erase(lines.begin(), lines.end() - 15);
  throw Error(ErrorKind::kEnvironment,
              "the training half could not be built (code " + std::to_string(code) + "), the last lines were:\n" +
                  joined(lines, "\n"),
              "all of it is in '" + log_file.string() + "'; " + std::string(build_needs()));
}

/// Arranges the build like an installation. The folder then has the program, beside it the libraries that it opens at
/// run time, and the recipes with their data.
void install(const fs::path& build, const fs::path& source, const fs::path& folder) {
  make_folder(folder / "bin");
  for (const auto& entry : fs::directory_iterator(build / "bin")) {
    const auto name = entry.path().filename().string();
    if (name == "lockstep-train" || name.starts_with("liblockstep_")) fs::rename(entry.path(), folder / "bin" / name);
  }
  const auto share = folder / "share" / "lockstep";
  make_folder(share);
  const auto lay_down = [&](const fs::path& part) {
    fs::copy(source / part, share / part.filename(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  };
  for (const char* part : {"recipes", "datasets", "python/lockstep_host"}) lay_down(part);
}

/// Prints why the build has no part for Python models, if it has none.
void tell_what_is_missing(const fs::path& log_file, const Log& log) {
  constexpr std::string_view kMissing = "-- Building without Python models: ";
  for (const auto& line : split(text_of_file(log_file), '\n')) {
    if (line.starts_with(kMissing)) {
      log.warning("recipes with a python: model or loss cannot be trained by it: " + line.substr(kMissing.size()));
    }
  }
}

/// Returns a build of `lockstep-train` for this PyTorch: an existing one, or a new one.
TrainerBuild set_up(const SetupOptions& options, const Context& context) {
  const auto start = starter(options, context);
  const auto torch = torch_of(options, start, context);
  const auto folder = builds_folder(context.env) / build_key(torch, LOCKSTEP_VERSION);
  TrainerBuild made{.program = program_of_build(folder), .torch = torch};
  for (const auto& kept : kept_builds(context.env, LOCKSTEP_VERSION)) {
    std::error_code ignored;
    // The library search path of the program names the folder of the PyTorch for which it was built.
    const bool is_there = !torch.container.empty() || fs::exists(kept.torch.folder, ignored);
    if (kept.program != made.program || !is_there) continue;
    context.log.info("it is built already for PyTorch " + torch.version + " (" + torch.device + ")");
    keep_build(kept);
    return kept;
  }
  const auto source = source_tree(this_program(), LOCKSTEP_VERSION, context.env);
  make_folder(folder);
  context.log.info("building for PyTorch " + torch.version + " (" + torch.device + ") in '" + torch.folder.string() +
                   "': some minutes, in " + folder.string());
  const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::ssize(cpus_of_process()));
  build(start, build_script(source, folder / "build", torch.folder, jobs, torch.python), folder / "build.log", context);
  tell_what_is_missing(folder / "build.log", context.log);
  try {
    install(folder / "build", source, folder);
  } catch (const fs::filesystem_error& error) {
    throw io_error("install", error.path1(), error.code().value());
  }
  keep_build(made);
  std::error_code ignored;
  fs::remove_all(folder / "build", ignored);
  return made;
}

void setup(const SetupOptions& given, const Context& context) {
  SetupOptions options = given;
  if (options.container == "site") {
    options.container = site_image(ProfileLibrary(context.env).detected(HostFacts::of_process(context.env)));
  }
  if (!options.container.empty()) options.container = fs::absolute(options.container).lexically_normal();
  if (!options.container.empty() && !options.python.empty() && options.python.find('/') == 0) {
    context.log.info("--python names a program inside the container");
  }
  const auto made = set_up(options, context);
  if (options.json) {
    return print_json(
        {{"schema", 1},
         {"program", made.program.string()},
         {"torch", made.torch.folder.string()},
         {"torch_version", made.torch.version},
         {"abi", made.torch.abi},
         {"device", made.torch.device},
         {"container", made.torch.container.empty() ? nlohmann::json(nullptr) : nlohmann::json(made.torch.container)}});
  }
  print_text(made.program.string() + "\n");
}

}  // namespace

void add_setup(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "setup", "Build lockstep-train for the PyTorch of a Python interpreter or of a container image");
  auto options = std::make_shared<SetupOptions>();
  command
      ->add_option("--python", options->python, "The Python interpreter whose PyTorch to build for (default: python3)")
      ->type_name("PATH");
  command->add_option("--container", options->container, "Build inside this container image; site: the profile's image")
      ->type_name("IMG");
  command->add_option("--jobs", options->jobs, "Parallel compilations (default: one per core)")->type_name("N");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([&context, options] { setup(*options, context); });
}

}  // namespace lockstep::cli
