// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/toggle.h"

#include "lockstep/base/error.h"

namespace lockstep {

Toggle parse_toggle(const std::string& name, const std::string& key) {
  if (name == "auto") return Toggle::kAuto;
  if (name == "on") return Toggle::kOn;
  if (name == "off") return Toggle::kOff;
  throw Error(ErrorKind::kRecipe, key + " is '" + name + "', want auto, on or off");
}

}  // namespace lockstep
