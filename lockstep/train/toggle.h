// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// What is asked of something that helps in some trainings only. Auto: where it can be and helps. On: an error where it
/// cannot be.
enum class Toggle { kAuto, kOn, kOff };

/// Throws: Error(kRecipe) for another name than auto, on, off; `key` is whose value it is: "trainer.graph".
Toggle wish_named(const std::string& name, const std::string& key);

}  // namespace lockstep
