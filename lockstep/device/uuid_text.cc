// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/uuid_text.h"

namespace lockstep {

std::string uuid_text(std::span<const char, 16> bytes, std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = name.find(" MIG ") == std::string_view::npos ? "GPU" : "MIG";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace lockstep
