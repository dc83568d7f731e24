// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/compiled_network.h"

#include <torch/torch.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/compiled_pass.h"

namespace lockstep {
namespace {

constexpr const char* kCompile = "compile it anew with python/compile_model.py";

class CompiledNetwork final : public Network {
 public:
  CompiledNetwork(std::filesystem::path file, std::shared_ptr<Network> plain, OtherBatches others)
      : file_(std::move(file)), plain_(std::move(plain)), others_(others) {
    adopt(*this, *plain_);
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (!is_training() || !at::GradMode::is_enabled()) return plain_->forward(input);
    if (!pass_) pass_ = std::make_unique<CompiledPass>(file_, *plain_);
    if (pass_->takes(input)) {
      others_in_row_ = 0;
      return pass_->run(input);
    }
    if (others_ == OtherBatches::kFew && ++others_in_row_ > kMostOthers) refuse(input);
    return plain_->forward(input);
  }

  /// Full batches run through the compiled passes, which need nothing from the host.
  std::string why_not_recorded() const override { return {}; }

  void train(bool on) override {
    Network::train(on);
    plain_->train(on);
  }

 private:
  // Batches of other sizes are the last one of an epoch, and those that are tried after memory ran out.
  static constexpr int kMostOthers = 4;

  [[noreturn]] void refuse(const at::Tensor& input) const {
    throw Error(ErrorKind::kRecipe,
                "'" + file_.string() + "' was compiled for batches of " + pass_->batch_text() + ", this rank's are " +
                    dtype_name(input.scalar_type()) + " " + shape_text(input.sizes()),
                std::string(kCompile) + " --batch " + std::to_string(input.size(0)));
  }

  std::filesystem::path file_;
  int others_in_row_ = 0;
  std::shared_ptr<Network> plain_;
  OtherBatches others_;
  std::unique_ptr<CompiledPass> pass_;  ///< Once the first batch is trained.
};

}  // namespace

std::shared_ptr<Network> make_compiled_network(const std::filesystem::path& file, std::shared_ptr<Network> plain,
                                               OtherBatches others) {
  if (!std::filesystem::exists(file)) {
    throw Error(ErrorKind::kIo, "model.compiled: there is no file '" + file.string() + "'", kCompile);
  }
  return std::make_shared<CompiledNetwork>(file, std::move(plain), others);
}

}  // namespace lockstep
