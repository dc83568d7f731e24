// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A setting with three values, for features that help in some trainings only.
///
///     lockstep::TrainerOptions options;
///     options.step.device.graph = lockstep::Toggle::kOn;  // fail if steps cannot be recorded

#include <string>

namespace lockstep {

/// Turns a feature on or off. With kAuto it is used if it is possible and helps. With kOn it is an error if it is not
/// possible.
enum class Toggle { kAuto, kOn, kOff };

/// Returns the toggle of that name. `key` names the setting in the message, such as "trainer.graph".
/// Throws: Error(kRecipe) for another name than auto, on, off.
Toggle parse_toggle(const std::string& name, const std::string& key);

}  // namespace lockstep
