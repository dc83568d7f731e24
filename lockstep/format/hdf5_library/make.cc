// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hdf5_library/make.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/hdf5_library/handle.h"

namespace lockstep::hdf5 {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& action) {
  throw Error(ErrorKind::kIo, path.string() + ": " + action + " failed: " + Library::reason(),
              "is there space, and may the folder be written?");
}

Handle text_type(std::size_t bytes) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), std::max<std::size_t>(bytes, 1));
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle type_of(const Hdf5Plan& plan) {
  if (plan.dtype == "text") return text_type(plan.text_bytes);
  const std::pair<const char*, hid_t> known[] = {{"U8", H5T_STD_U8LE}, {"I64", H5T_STD_I64LE}, {"U64", H5T_STD_U64LE}};
  const auto* found = std::ranges::find_if(known, [&](const auto& entry) { return plan.dtype == entry.first; });
  LOCKSTEP_ASSERT(found != std::end(known));
  return {H5Tcopy(found->second), H5Tclose};
}

void add_array(hid_t file, const std::filesystem::path& path, Hdf5Plan& plan) {
  const Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(link.get(), 1);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  // The library does not fill the array, since its bytes are written in place later. Until then they read as 0.
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  // No time is stored, so that the same data set gives the same file.
  H5Pset_obj_track_times(creation.get(), false);
  const std::vector<hsize_t> sizes(plan.shape.begin(), plan.shape.end());
  const Handle space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
  const Handle type = type_of(plan);
  const Handle data(
      H5Dcreate2(file, plan.name.c_str(), type.get(), space.get(), link.get(), creation.get(), H5P_DEFAULT), H5Dclose);
  if (!data) refuse(path, "making '" + plan.name + "'");
  const haddr_t offset = H5Dget_offset(data.get());
  if (offset == HADDR_UNDEF) refuse(path, "asking where '" + plan.name + "' lies");
  plan.offset = offset;
}

void set_format(hid_t file, const std::filesystem::path& path, const std::string& kind) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle type = text_type(kind.size());
  const Handle attribute(H5Acreate2(file, "format", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute || H5Awrite(attribute.get(), type.get(), kind.data()) < 0) refuse(path, "naming the format");
}

}  // namespace

void make_file(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans) {
  const Library library;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), false, true);
#endif
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  if (!file) refuse(path, "making the file");
  set_format(file.get(), path, kind);
  for (Hdf5Plan& plan : plans) add_array(file.get(), path, plan);
  if (H5Fflush(file.get(), H5F_SCOPE_LOCAL) < 0) refuse(path, "writing the file");
}

}  // namespace lockstep::hdf5
