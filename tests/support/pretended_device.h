// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/join.h"
#include "lockstep/device/streams.h"
#include "tests/support/fake_device.h"
#include "tests/support/recorded_ops.h"

namespace lockstep::testing {

using Story = std::vector<std::string>;

/// A fake of the collectives. It records what would be sent and received, and sends nothing.
struct ToldCopies : CopyStream {
  explicit ToldCopies(Story& story_) : story(story_) {}
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& host) override {
    story.push_back("send " + std::to_string(host[0].size(0)));
    return host;
  }
  void receive(const std::vector<at::Tensor>& sent) override {
    story.push_back("receive " + std::to_string(sent[0].size(0)));
  }
  Story& story;
};

/// A fake device. Its tensors are on the CPU, but it is treated as a device on which work continues after a call has
/// returned.
struct Pretended : FakeBackend {
  enum class Recorder { kNone, kOps, kBroken, kPeerless, kScripted };
  struct Broken : StepGraph {
    void capture(const std::function<void()>&) override {
      throw c10::NotImplementedError({__func__, __FILE__, __LINE__},
                                     "operation not permitted when stream is capturing");
    }
    void replay() override { ADD_FAILURE() << "a recording that failed is replayed"; }
  };

  /// Throws as NCCL does if a collective cannot be recorded. The error looks like that of a lost peer.
  struct Peerless : Broken {
    void capture(const std::function<void()>&) override {
      throw Error(ErrorKind::kPeer, "a peer rank was lost while ranks averaged gradients: NCCL error in: capture");
    }
  };

  /// Throws as TorchScript's interpreter does, whatever the type of the exception was.
  struct Scripted : Broken {
    void capture(const std::function<void()>&) override {
      throw std::runtime_error(
          "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call "
          "last):\n  File \"<string>\", line 3, in forward\nRuntimeError: CUDA error: operation not permitted when "
          "stream is capturing\n");
    }
  };

  explicit Pretended(Recorder recorder_ = Recorder::kNone) : FakeBackend(1), recorder(recorder_) {}

  std::unique_ptr<CopyStream> copy_stream(int) const override { return std::make_unique<ToldCopies>(story); }
  std::unique_ptr<StepGraph> step_graph(int) const override {
    if (recorder == Recorder::kNone) return nullptr;
    if (recorder == Recorder::kBroken) return std::make_unique<Broken>();
    if (recorder == Recorder::kPeerless) return std::make_unique<Peerless>();
    if (recorder == Recorder::kScripted) return std::make_unique<Scripted>();
    return std::make_unique<RecordedOps>();
  }

  Group group() const { return alone({.facts = devices().front(), .visible = 1, .backend = this}); }

  Recorder recorder;
  mutable Story story;
};

}  // namespace lockstep::testing
