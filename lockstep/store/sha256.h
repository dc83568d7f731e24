// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

using Sha256Digest = std::array<std::uint8_t, 32>;

/// Returns the SHA-256 digest of `bytes`.
///
/// Source: FIPS 180-4, section 6.2.
Sha256Digest sha256(std::string_view bytes);

/// Returns the HMAC of `message` with SHA-256. A key of any length will do.
///
/// Source: RFC 2104.
Sha256Digest hmac_sha256(std::string_view key, std::string_view message);

/// Compares two strings in a time that depends on their lengths alone. True if they are equal.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// Returns the digest's bytes as text. `digest` must outlive the view.
inline std::string_view as_bytes_view(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace lockstep
