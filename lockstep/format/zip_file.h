// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct zip;

namespace lockstep {

/// A zip file in memory whose entries are stored and not compressed, as torch.save writes them: an entry is a view.
class StoredZip {
 public:
  /// `bytes` must outlive the object; `name` is for messages.
  ///
  /// Throws: Error(kData) where it is no zip file, or its directory and its entries contradict each other.
  StoredZip(std::span<const std::byte> bytes, std::string name);
  ~StoredZip();
  StoredZip(StoredZip&&) noexcept;
  StoredZip& operator=(StoredZip&&) noexcept;

  bool has(const std::string& entry) const { return places_.contains(entry); }
  /// In the order of the directory.
  const std::vector<std::string>& names() const { return names_; }

  /// The bytes of an entry, once their checksum was found right. Each call reads them all.
  ///
  /// Throws: Error(kData) where there is no such entry, it is compressed or encrypted, or its checksum is another.
  std::span<const std::byte> entry(const std::string& entry) const;

  /// Whether `bytes` start as a zip file does.
  static bool is_zip(std::span<const std::byte> bytes);

 private:
  struct Source;

  std::string name_;
  std::unique_ptr<Source> source_;
  ::zip* zip_ = nullptr;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint64_t> places_;
};

}  // namespace lockstep
