// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace lockstep::hdf5 {

/// A lock that is held around every call of the HDF5 library. The library is not thread-safe, even for different files,
/// and prints its errors unless told not to. The lock is recursive, since a handle takes it when it closes, also in
/// code that holds it already.
class Library {
 public:
  Library() : lock_(mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

  /// Returns the reason that the library gives for the last call that failed.
  static std::string reason() {
    std::string text;
    H5Ewalk2(
        H5E_DEFAULT, H5E_WALK_DOWNWARD,
        [](unsigned, const H5E_error2_t* entry, void* to) -> herr_t {
          if (entry->desc != nullptr) *static_cast<std::string*>(to) = entry->desc;
          return 0;
        },
        &text);
    return text.empty() ? "no reason given" : text;
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex all_files;
    return all_files;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

/// An identifier of the HDF5 library. The destructor closes it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  void reset() {
    if (id_ < 0) return;
    const Library library;
    close_(std::exchange(id_, H5I_INVALID_HID));
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

}  // namespace lockstep::hdf5
