// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/wish.h"

#include "lockstep/base/error.h"

namespace lockstep {

Wish wish_named(const std::string& name, const std::string& key) {
  if (name == "auto") return Wish::kAuto;
  if (name == "on") return Wish::kOn;
  if (name == "off") return Wish::kOff;
  throw Error(ErrorKind::kRecipe, key + " is '" + name + "', want auto, on or off");
}

}  // namespace lockstep
