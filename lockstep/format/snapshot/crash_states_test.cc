// SPDX-License-Identifier: Apache-2.0
// Tests a save on a machine that loses power. The save's writes, syncs and renames are recorded. Then each state in
// which a crash may leave the disk is built as a folder, and a load is tried.
//
// What a crash may lose is taken from POSIX, which promises less than any real file system does. A file's bytes are
// safe once the file is synced. A name is safe once its folder is synced. Anything else may be lost, in any order: each
// name that was made, moved or removed, and a file's last bytes, or all its bytes with its length kept.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traced_process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::SystemCall;

using Node = int;  // A file, link or folder, whatever its names are.
constexpr Node kNone = -1;

// One name in a folder, and the file that it stands for from now on.
struct NameChange {
  Node folder;
  std::string name;
  Node node;
};

// An effect of a system call that a crash can undo. It is either a set of names, all of them or none, or bytes at a
// file's end.
struct Operation {
  std::vector<NameChange> names;
  Node file = kNone;
  std::string bytes;
  Node synced = kNone;  // A file or folder whose changes until here are safe.
};

struct Kind {
  enum { kFolder, kFile, kLink } kind = kFolder;
  std::string target;  // Of a link.
};

// A tree of files that one process changes, and the operations that it made.
class Recording {
 public:
  // Begins with the files in `root`, which are all safe on disk.
  explicit Recording(fs::path root) : root_(std::move(root)) { load(root_, 0); }

  void take(const SystemCall& call);

  const std::vector<Operation>& operations() const { return operations_; }
  const std::map<Node, Kind>& kinds() const { return kinds_; }
  const std::vector<Operation>& initial() const { return initial_; }

 private:
  void load(const fs::path& folder, Node node);
  Node new_node(Kind kind) {
    const auto node = static_cast<Node>(kinds_.size());
    kinds_[node] = std::move(kind);
    return node;
  }
  // Splits a path below the root into its folder and the last name. Returns nothing for any other path.
  std::optional<std::pair<Node, std::string>> place(const fs::path& path) const;
  Node node_at(const fs::path& path) const;
  fs::path path_of(const SystemCall& call, std::size_t folder, std::size_t path) const;
  void change(std::vector<NameChange> names) {
    for (const auto& each : names) now_[{each.folder, each.name}] = each.node;
    operations_.push_back({.names = std::move(names)});
  }
  void create(const fs::path& path, Kind kind);
  void remove(const fs::path& path);
  void rename(const fs::path& from, const fs::path& to, bool exchanges);
  void open(const SystemCall& call, const fs::path& path, std::uint64_t flags);
  void write(const SystemCall& call);

  fs::path root_;
  std::map<Node, Kind> kinds_{{0, {}}};
  std::map<std::pair<Node, std::string>, Node> now_;
  std::map<std::int64_t, fs::path> open_;  // Descriptors.
  std::vector<Operation> initial_;
  std::vector<Operation> operations_;
};

void Recording::load(const fs::path& folder, Node node) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    Kind kind;
    if (entry.is_symlink()) {
      kind = {Kind::kLink, fs::read_symlink(entry.path())};
    } else if (entry.is_regular_file()) {
      kind = {Kind::kFile, {}};
    }
    const auto made = new_node(kind);
    now_[{node, entry.path().filename()}] = made;
    initial_.push_back({.names = {{node, entry.path().filename(), made}}});
    if (kind.kind == Kind::kFile) initial_.push_back({.file = made, .bytes = text_of_file(entry.path())});
    if (kind.kind == Kind::kFolder) load(entry.path(), made);
  }
}

Node Recording::node_at(const fs::path& path) const {
  Node node = 0;
  const auto relative = path.lexically_relative(root_);
  if (relative.empty() || *relative.begin() == "..") return kNone;
  for (const auto& part : relative) {
    if (part == "." || part.empty()) continue;
    const auto it = now_.find({node, part});
    if (it == now_.end() || it->second == kNone) return kNone;
    node = it->second;
  }
  return node;
}

std::optional<std::pair<Node, std::string>> Recording::place(const fs::path& path) const {
  const auto folder = node_at(path.parent_path());
  if (folder == kNone) return std::nullopt;
  return std::pair(folder, path.filename().string());
}

fs::path Recording::path_of(const SystemCall& call, std::size_t folder, std::size_t path) const {
  const fs::path text = call.text(path);
  if (text.is_absolute()) return text.lexically_normal();
  const auto it = open_.find(static_cast<std::int32_t>(call.arguments[folder]));
  return it == open_.end() ? fs::path() : (it->second / text).lexically_normal();
}

void Recording::create(const fs::path& path, Kind kind) {
  const auto at = place(path);
  if (at) change({{at->first, at->second, new_node(std::move(kind))}});
}

void Recording::remove(const fs::path& path) {
  const auto at = place(path);
  if (at) change({{at->first, at->second, kNone}});
}

void Recording::rename(const fs::path& from, const fs::path& to, bool exchanges) {
  const auto a = place(from);
  const auto b = place(to);
  if (!a || !b) return;
  const auto moved = node_at(from);
  const auto other = exchanges ? node_at(to) : kNone;
  change({{a->first, a->second, other}, {b->first, b->second, moved}});
}

void Recording::open(const SystemCall& call, const fs::path& path, std::uint64_t flags) {
  open_[call.result] = path;
  if ((flags & O_CREAT) != 0 && node_at(path) == kNone) create(path, {Kind::kFile, {}});
}

// The bytes are read from the file itself, which only grows.
void Recording::write(const SystemCall& call) {
  const auto it = open_.find(static_cast<std::int32_t>(call.arguments[0]));
  const auto node = it == open_.end() ? kNone : node_at(it->second);
  if (node == kNone) return;
  std::size_t before = 0;
  for (const auto& each : operations_) before += each.file == node ? each.bytes.size() : 0;
  operations_.push_back({.names = {},
                         .file = node,
                         .bytes = text_of_file(it->second).substr(before, static_cast<std::size_t>(call.result))});
}

void Recording::take(const SystemCall& call) {
  if (call.result < 0) return;
  switch (call.number) {
    case SYS_openat:
      return open(call, path_of(call, 0, 1), call.arguments[2]);
    case SYS_close:
      open_.erase(static_cast<std::int32_t>(call.arguments[0]));
      return;
    case SYS_mkdir:
      return create(path_of(call, 5, 0), {});
    case SYS_symlink:
      return create(path_of(call, 5, 1), {Kind::kLink, call.text(0)});
    case SYS_unlink:
    case SYS_rmdir:
      return remove(path_of(call, 5, 0));
    case SYS_unlinkat:
      return remove(path_of(call, 0, 1));
    case SYS_rename:
      return rename(path_of(call, 5, 0), path_of(call, 5, 1), false);
    case SYS_renameat2:
      return rename(path_of(call, 0, 1), path_of(call, 2, 3), (call.arguments[4] & 2) != 0);
    case SYS_write:
    case SYS_writev:
      return write(call);
    case SYS_fsync:
    case SYS_fdatasync: {
      const auto it = open_.find(static_cast<std::int32_t>(call.arguments[0]));
      if (it != open_.end() && node_at(it->second) != kNone)
        operations_.push_back({.names = {}, .synced = node_at(it->second)});
      return;
    }
    default:
      return;
  }
}

// The content of a disk, as names and the bytes of each file.
struct Disk {
  std::map<std::pair<Node, std::string>, Node> names;
  std::map<Node, std::string> bytes;

  void apply(const Operation& operation) {
    for (const auto& each : operation.names) names[{each.folder, each.name}] = each.node;
    if (operation.file != kNone) bytes[operation.file] += operation.bytes;
  }
};

void build(const Disk& disk, const std::map<Node, Kind>& kinds, Node node, const fs::path& folder) {
  fs::create_directory(folder);
  for (auto it = disk.names.lower_bound({node, ""}); it != disk.names.end() && it->first.first == node; ++it) {
    if (it->second == kNone) continue;
    const auto path = folder / it->first.second;
    const auto& kind = kinds.at(it->second);
    if (kind.kind == Kind::kFolder) {
      build(disk, kinds, it->second, path);
    } else if (kind.kind == Kind::kLink) {
      fs::create_symlink(kind.target, path);
    } else {
      const auto bytes = disk.bytes.find(it->second);
      const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (bytes != disk.bytes.end()) write_all(file.get(), std::as_bytes(std::span(bytes->second)), path);
    }
  }
}

// Returns all states of the disk that a crash after the first `count` operations may leave.
std::vector<Disk> disks_after(const Recording& recording, std::size_t count) {
  const auto& all = recording.operations();
  const auto is_safe = [&](std::size_t i, Node changed) {
    for (std::size_t later = i; later < count; ++later) {
      if (all[later].synced == changed) return true;
    }
    return false;
  };
  Disk safe;
  for (const auto& each : recording.initial()) safe.apply(each);
  std::vector<std::size_t> loose;
  std::vector<bool> is_loose(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& each = all[i];
    // A rename is safe once the folder with both names is synced.
    if (!each.names.empty()) is_loose[i] = !is_safe(i, each.names.front().folder);
    if (each.file != kNone) is_loose[i] = !is_safe(i, each.file);
    if (is_loose[i]) loose.push_back(i);
  }
  EXPECT_LE(loose.size(), 14U);
  std::vector<Disk> out;
  for (std::uint32_t chosen = 0; chosen < (1U << loose.size()); ++chosen) {
    // Of bytes that were not synced, a crash keeps all, half, or zeros in their place.
    for (int way = 0; way < 3; ++way) {
      Disk disk = safe;
      bool has_bytes = false;
      for (std::size_t i = 0, bit = 0; i < count; ++i) {
        if (is_loose[i] && (chosen >> bit++ & 1U) == 0) continue;
        auto operation = all[i];
        if (is_loose[i] && operation.file != kNone) {
          has_bytes = true;
          if (way == 1) operation.bytes.resize(operation.bytes.size() / 2);
          if (way == 2) operation.bytes.assign(operation.bytes.size(), '\0');
        }
        disk.apply(operation);
      }
      out.push_back(std::move(disk));
      if (!has_bytes) break;
    }
  }
  return out;
}

fs::path write_snapshot(const fs::path& snapshots, std::int64_t step, const std::string& numbers) {
  const TensorEntry tensor{
      "weight", "U8", {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(std::span(numbers))};
  SnapshotWriter writer(snapshots, step);
  writer.add_tensors("model.safetensors", std::span(&tensor, 1));
  writer.add_text("state.json", "{}\n");
  return writer.commit();
}

std::string numbers_in(const fs::path& snapshot) {
  const auto file = SafetensorsFile::open(snapshot / "model.safetensors");
  const auto bytes = file.find("weight")->bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class CrashStates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::can_trace()) GTEST_SKIP() << "ptrace is not allowed here";
    fs::create_directories(run() / "snapshots");
  }
  fs::path run() const { return folder_.path() / "run"; }

  // Loads each state of each crash. `earlier` and `later` are what a load may find. Once `action` has returned, a load
  // must find `later`. An empty text stands for no snapshot.
  void try_all(const std::function<void(const fs::path& snapshots)>& action, const std::set<std::string>& earlier,
               const std::string& later) {
    const auto snapshots = run() / below_;
    Recording recording(run());
    const int status = testing::traced([&] { action(snapshots); }, [](const auto&) { return testing::Interference{}; },
                                       [&](const SystemCall& call) { recording.take(call); });
    ASSERT_EQ(status, 0);
    const auto count = recording.operations().size();
    ASSERT_GT(count, 15U);
    int states = 0;
    for (std::size_t crash = 0; crash <= count; ++crash) {
      for (const auto& disk : disks_after(recording, crash)) {
        ++states;
        const auto root = folder_.path() / "state";
        fs::remove_all(root);
        build(disk, recording.kinds(), 0, root);
        load(root / below_, earlier, later, crash == count);
        if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "after operation " << crash << " of " << count;
      }
    }
    RecordProperty("states", states);
    std::cout << states << " states of " << count << " operations\n";
  }

  std::string below_ = "snapshots";  // Of the run folder, which is safe from the beginning.

 private:
  void load(const fs::path& snapshots, const std::set<std::string>& earlier, const std::string& later, bool is_over) {
    const auto newest = newest_whole_snapshot(snapshots, [](const auto&, const auto&) {});
    const auto found = newest ? numbers_in(newest->path) : std::string();
    EXPECT_TRUE(found == later || (!is_over && earlier.contains(found))) << "found '" << found << "'";
    std::error_code no_link;
    const auto latest = fs::read_symlink(snapshots / "latest", no_link);
    if (!no_link) EXPECT_NO_THROW(verify_snapshot(snapshots / latest)) << latest;
    // The next start must be able to save, and must remove what the crash left.
    write_snapshot(snapshots, 9, "next");
    for (const auto& entry : fs::directory_iterator(snapshots)) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-")) << entry.path();
    }
    EXPECT_EQ(numbers_in(snapshots / "latest"), "next");
  }

  testing::TemporaryFolder folder_{::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()};
};

TEST_F(CrashStates, OfTheFirstSaveAreNothingOrTheWholeSnapshot) {
  fs::remove(run() / "snapshots");
  try_all([](const auto& snapshots) { write_snapshot(snapshots, 7, "first"); }, {""}, "first");
}

TEST_F(CrashStates, OfANewRunsFolderAndFirstSaveAreNothingOrTheWholeSnapshot) {
  fs::remove_all(run());
  fs::create_directory(run());
  below_ = "project/runs/digits/snapshots";
  try_all(
      [](const auto& snapshots) {
        make_durable_folder(snapshots.parent_path());
        make_durable_folder(snapshots);
        write_snapshot(snapshots, 7, "first");
      },
      {""}, "first");
}

TEST_F(CrashStates, OfALaterSaveAreTheOneBeforeOrTheNewOne) {
  write_snapshot(run() / "snapshots", 7, "earlier");
  try_all([](const auto& snapshots) { write_snapshot(snapshots, 8, "later"); }, {"earlier"}, "later");
}

TEST_F(CrashStates, OfASaveThatReplacesOneOfTheSameStepAreTheOldOrTheNewOne) {
  write_snapshot(run() / "snapshots", 7, "earlier");
  try_all([](const auto& snapshots) { write_snapshot(snapshots, 7, "later"); }, {"earlier"}, "later");
}

TEST_F(CrashStates, OfASaveThatRemovesTheOneBeforeAreOneOfTheTwo) {
  write_snapshot(run() / "snapshots", 7, "earlier");
  try_all(
      [](const auto& snapshots) {
        const auto made = write_snapshot(snapshots, 8, "later");
        mark_best(made);
        prune_snapshots(snapshots, {.newest = 1}, made);
      },
      {"earlier"}, "later");
}

}  // namespace
}  // namespace lockstep
