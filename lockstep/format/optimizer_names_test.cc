// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/optimizer_names.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(OptimizerNames, OneOptimizerHasNoPrefix) {
  EXPECT_EQ(optimizer_tensor_name({0, "fc.weight", "exp_avg"}, 1), "fc.weight.exp_avg");
  EXPECT_EQ(optimizer_tensor_name({0, "fc.weight", "exp_avg"}, 2), "0/fc.weight.exp_avg");
  EXPECT_EQ(optimizer_tensor_name({11, "fc.weight", "step"}, 12), "11/fc.weight.step");
}

TEST(OptimizerNames, AreReadAsTheyWereMade) {
  for (const std::size_t optimizers : {1, 2, 12}) {
    for (const std::string parameter : {"w", "fc.weight", "1/fc.weight", "a/b"}) {
      for (std::size_t index = 0; index < optimizers; ++index) {
        const OptimizerTensor tensor{index, parameter, "momentum_buffer"};
        const auto name = optimizer_tensor_name(tensor, optimizers);
        EXPECT_EQ(parsed_optimizer_tensor(name, optimizers), tensor) << name << " of " << optimizers;
      }
    }
  }
}

TEST(OptimizerNames, OthersAreNone) {
  EXPECT_EQ(parsed_optimizer_tensor("weight", 1), std::nullopt);
  for (const auto* name : {"fc.weight.step", "2/fc.weight.step", "-1/fc.weight.step", "/fc.weight.step", "0/weight"}) {
    EXPECT_EQ(parsed_optimizer_tensor(name, 2), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace lockstep
