// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lockstep/base/text.h"

namespace lockstep {

struct Xxh3Stream::State {
  XXH3_state_t xxh;
};

std::uint64_t xxh3_64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::uint64_t xxh3_64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Xxh3Stream::~Xxh3Stream() = default;
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;

// The 64-bit and the 128-bit XXH3 share one streaming state. Only their last step differs.
void Xxh3Stream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Xxh3Stream::digest64() const { return XXH3_64bits_digest(&state_->xxh); }

std::string Xxh3Stream::digest128_hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return hex64(hash.high64) + hex64(hash.low64);
}

}  // namespace lockstep
