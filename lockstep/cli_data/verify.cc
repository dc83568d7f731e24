// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/verify.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli_data/commands.h"
#include "lockstep/cli_data/data_target.h"
#include "lockstep/cli_data/output.h"
#include "lockstep/data/transform/transform_list.h"
#include "lockstep/observe/work_bar.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

struct CheckedPart {
  std::string split;
  std::optional<std::int64_t> samples;  ///< Nothing if the part cannot be opened.
  std::vector<BadSample> bad;           ///< An entry without a name is for the part as a whole.
  std::vector<std::string> left_out;
};

/// Decodes every sample completely, as training first reads it.
std::shared_ptr<const SampleSource> decoded(const RawPart& part) {
  if (!part.images) return part.samples;
  const std::vector<std::string> whole = {"resize(8, 8)"};
  return image_source(part.images, parsed_transforms(whole, "verify"));
}

class Verification {
 public:
  Verification(const DataSettings& settings, int threads, const DataContext& context)
      : settings_(settings), threads_(threads), context_(context) {}

  std::vector<CheckedPart> run() {
    std::optional<RawPart> train;
    check("train", nullptr, &train);
    // The other parts use the classes of the training part.
    if (!train) return parts_;
    check("validation", &*train);
    // The test images of MNIST and CIFAR are used as the validation part.
    const bool has_test = settings_.kind != "idx" && !settings_.kind.starts_with("cifar");
    if (has_test) check("test", &*train);
    return parts_;
  }

 private:
  void check(const std::string& split, const RawPart* train, std::optional<RawPart>* opened = nullptr) {
    CheckedPart checked{.split = split, .samples = {}, .bad = {}, .left_out = {}};
    try {
      auto part = raw_part(settings_, split, train);
      if (!part) return;
      checked.left_out = part->left_out;
      const auto source = decoded(*part);
      checked.samples = source->size();
      WorkBar bar(progress_options(2, 0, context_.env), "verifying " + split, "samples");
      checked.bad = bad_samples(*source, threads_, [&](std::int64_t done) {
        bar.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(source->size()));
      });
      if (opened != nullptr) *opened = std::move(part);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kIo) throw;
      checked.bad.push_back({.id = -1, .name = {}, .fact = error.what()});
    }
    parts_.push_back(std::move(checked));
  }

  const DataSettings& settings_;
  int threads_;
  const DataContext& context_;
  std::vector<CheckedPart> parts_;
};

Json json_of(const DataSettings& settings, const std::vector<CheckedPart>& parts) {
  Json object = {{"schema", 1}, {"path", settings.path.string()}, {"kind", settings.kind}, {"parts", Json::array()}};
  for (const CheckedPart& part : parts) {
    Json bad = Json::array();
    for (const BadSample& sample : part.bad) {
      bad.push_back({{"sample", sample.id < 0 ? Json() : Json(sample.id)},
                     {"name", sample.name.empty() ? Json() : Json(sample.name)},
                     {"fact", first_line(sample.fact)}});
    }
    object["parts"].push_back({{"split", part.split},
                               {"samples", part.samples ? Json(*part.samples) : Json()},
                               {"bad", bad},
                               {"left_out", part.left_out}});
  }
  return object;
}

std::string line_of(const CheckedPart& part, const BadSample& sample) {
  if (sample.name.empty()) return part.split + ": " + std::string(first_line(sample.fact)) + "\n";
  return part.split + " #" + std::to_string(sample.id) + " " + sample.name + ": " +
         std::string(first_line(sample.fact)) + "\n";
}

std::string text_of(const DataSettings& settings, const std::vector<CheckedPart>& parts) {
  std::string text;
  std::string counts;
  for (const CheckedPart& part : parts) {
    for (const BadSample& sample : part.bad) text += line_of(part, sample);
    if (!part.left_out.empty()) {
      text += part.split + ": no images, and left out: " + joined(part.left_out, ", ") + "\n";
    }
    if (part.samples) counts += (counts.empty() ? "" : ", ") + std::to_string(*part.samples) + " " + part.split;
  }
  return text + settings.path.string() + ": " + settings.kind + ", " +
         (counts.empty() ? "nothing could be read" : counts + " samples read") + "\n";
}

void require_all_good(const DataSettings& settings, const std::vector<CheckedPart>& parts) {
  std::size_t bad = 0;
  const BadSample* first = nullptr;
  for (const CheckedPart& part : parts) {
    bad += part.bad.size();
    if (first == nullptr && !part.bad.empty()) first = &part.bad.front();
  }
  if (bad == 0) return;
  if (first->name.empty()) throw Error(ErrorKind::kData, first_line(first->fact), "the data set cannot be trained on");
  throw Error(ErrorKind::kData,
              settings.path.string() + ": " + std::to_string(bad) + (bad == 1 ? " sample is bad" : " samples are bad") +
                  ", the first is " + first->name,
              "copy those files again, or remove them");
}

}  // namespace

void run_verify(const DataRequest& request, const DataContext& context) {
  if (request.threads < 0) {
    throw Error(ErrorKind::kUsage, "--threads is " + std::to_string(request.threads) + ", want 1 or more");
  }
  const DataSettings settings = data_target(request, context.env, context.program);
  const int cpus = static_cast<int>(std::ssize(cpus_of_process()));
  const auto parts = Verification(settings, request.threads > 0 ? request.threads : cpus, context).run();
  // The error for the first damaged sample is thrown after the output, so that a program always gets the complete
  // output.
  if (request.json) {
    print_line(json_of(settings, parts));
  } else {
    print_text(text_of(settings, parts));
  }
  require_all_good(settings, parts);
}

}  // namespace lockstep
