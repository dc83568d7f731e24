// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep::cli {

/// Downloads `url` into the file `part` with the system's curl or wget, which know proxies and certificates. With curl,
/// the bytes that `part` has already are kept, and the rest is appended. If the connection breaks, it tries again, as
/// long as each attempt receives something.
///
/// Calls `tell` with the number of bytes in `part`, as they arrive.
/// Throws: Error(kIo) with what curl or wget says and the way out; Error(kEnvironment) if neither is installed. Bytes
///         that were received stay in `part`.
void download(const std::string& url, const std::filesystem::path& part, const Environment& env,
              const std::function<void(std::uint64_t bytes)>& tell);

/// Returns the file's SHA-256, as sha256sum prints it.
///
/// Throws: Error(kIo) if sha256sum fails, Error(kEnvironment) if there is none.
std::string sha256_of(const std::filesystem::path& path, const Environment& env);

}  // namespace lockstep::cli
