// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/wait_note.h"

#include <utility>

namespace lockstep {
namespace {

thread_local const WaitNote* newest = nullptr;

}  // namespace

WaitNote::WaitNote(std::function<void(std::int64_t id)> note)
    : note_(std::move(note)), outer_(std::exchange(newest, this)) {}

WaitNote::~WaitNote() { newest = outer_; }

const WaitNote* WaitNote::current() { return newest; }

}  // namespace lockstep
