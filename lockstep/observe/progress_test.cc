// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "progress-XXXXXX";
    file_ = FileDescriptor(::mkstemp(path.data()));
    ASSERT_TRUE(file_);
    path_ = path;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Progress progress(ProgressOptions options) {
    options.fd = file_.get();
    return Progress(options, [this] { return now_; });
  }

  // Makes one step that takes `seconds`.
  void step(Progress& progress, double seconds, std::optional<double> loss = std::nullopt) {
    now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    step_.step += 1;
    step_.step_in_epoch += 1;
    step_.seconds = seconds;
    step_.loss = loss;
    progress.on(step_);
  }
  void start_epoch(Progress& progress, std::int64_t epoch, std::int64_t steps) {
    step_.epoch = epoch;
    step_.step_in_epoch = 0;
    progress.on(EpochStarted{.epoch = epoch, .steps = steps});
  }

  std::string written() const { return text_of_file(path_); }
  std::int64_t lines() const { return std::ranges::count(written(), '\n'); }

  FileDescriptor file_;
  std::filesystem::path path_;
  Clock::time_point now_{std::chrono::hours(1)};
  StepEnded step_{.samples = 50};
};

RunStarted digits_run() {
  return {.name = "digits",
          .run_dir = "runs/digits-7",
          .world = 2,
          .epochs = 2,
          .steps_per_epoch = 4,
          .steps_total = 8,
          .batch = 25,
          .global_batch = 50,
          .parameters = 25450};
}

RunEnded digits_end() {
  return {.step = 8,
          .epochs = 2,
          .samples = 400,
          .stopped_by = "max_epochs",
          .samples_per_second = 12345.6,
          .metrics = {{"train_loss", 0.03125}, {"val_accuracy", 0.9722}, {"val_loss", 0.125}}};
}

TEST_F(ProgressTest, InAFileSaysALineForEachLossAndEpochAndOneAtTheEnd) {
  Progress bar = progress({.log_every = 2});
  bar.on(digits_run());
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    start_epoch(bar, epoch, 4);
    for (int i = 1; i <= 4; ++i) step(bar, 0.5, i % 2 == 0 ? std::optional(0.25) : std::nullopt);
    bar.on(ValidationEnded{
        .step = step_.step, .epoch = epoch, .train_loss = 0.5, .metrics = {{"val_accuracy", 0.9}, {"val_loss", 0.2}}});
  }
  bar.on(digits_end());
  EXPECT_EQ(written(),
            "digits · 2 ranks · batch 25 (global 50) · 2 epochs · 4 steps an epoch · 25 450 parameters\n"
            "step 2/8 · epoch 1/2 · loss 0.25 · 100 samples/s · 00:00:03 left\n"
            "step 4/8 · epoch 1/2 · loss 0.25 · 100 samples/s · 00:00:02 left\n"
            "epoch 1/2 · step 4/8 · train_loss 0.5 · val_accuracy 0.9 · val_loss 0.2 · 100 samples/s\n"
            "step 6/8 · epoch 2/2 · loss 0.25 · 100 samples/s · 00:00:01 left\n"
            "step 8/8 · epoch 2/2 · loss 0.25 · 100 samples/s · 00:00:00 left\n"
            "epoch 2/2 · step 8/8 · train_loss 0.5 · val_accuracy 0.9 · val_loss 0.2 · 100 samples/s\n"
            "val_accuracy 0.9722 · val_loss 0.125 · train_loss 0.03125 · 12 346 samples/s · runs/digits-7\n");
}

TEST_F(ProgressTest, OnATerminalKeepsOneLiveLineAndALineForEachEpoch) {
  Progress bar = progress({.is_terminal = true, .columns = 64, .log_every = 2});
  bar.on(digits_run());
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    start_epoch(bar, epoch, 4);
    for (int i = 1; i <= 4; ++i) step(bar, 0.5, i % 2 == 0 ? std::optional(0.25) : std::nullopt);
    bar.on(ValidationEnded{.step = step_.step, .epoch = epoch, .train_loss = 0.5, .metrics = {{"val_loss", 0.2}}});
  }
  bar.on(digits_end());
  std::string shown = written();
  for (std::size_t at = 0; (at = shown.find("\r\x1b[K")) != std::string::npos;) shown.replace(at, 4, "\n^");
  EXPECT_EQ(shown,
            "digits · 2 ranks · batch 25 (global 50) · 2 epochs · 4 steps an epoch · 25 450 parameters\n"
            "\n^━─────── epoch 1/2 · step 1/8 · 00:00:04 left · 100 samples/s"
            "\n^━━────── epoch 1/2 · step 2/8 · loss 0.25 · 00:00:03 left"
            "\n^━━━───── epoch 1/2 · step 3/8 · loss 0.25 · 00:00:03 left"
            "\n^━━━━──── epoch 1/2 · step 4/8 · loss 0.25 · 00:00:02 left"
            "\n^epoch 1/2 · step 4/8 · train_loss 0.5 · val_loss 0.2 · 100 samples/s\n"
            "\n^━━━━━─── epoch 2/2 · step 5/8 · loss 0.25 · 00:00:02 left"
            "\n^━━━━━━── epoch 2/2 · step 6/8 · loss 0.25 · 00:00:01 left"
            "\n^━━━━━━━─ epoch 2/2 · step 7/8 · loss 0.25 · 00:00:01 left"
            "\n^━━━━━━━━ epoch 2/2 · step 8/8 · loss 0.25 · 00:00:00 left"
            "\n^epoch 2/2 · step 8/8 · train_loss 0.5 · val_loss 0.2 · 100 samples/s\n"
            "val_accuracy 0.9722 · val_loss 0.125 · train_loss 0.03125 · 12 346 samples/s · runs/digits-7\n");
}

TEST_F(ProgressTest, NeverDrawsWiderThanTheTerminalNorMoreThanTenTimesASecond) {
  for (const int columns : {1, 10, 20, 30, 40, 41, 50, 60, 80, 100, 200}) {
    ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
    {
      Progress bar = progress({.is_terminal = true, .columns = columns});
      bar.on(digits_run());
      start_epoch(bar, 0, 1000000);
      for (int i = 0; i < 1000; ++i) step(bar, 0.001);
    }
    const std::string text = written();
    const std::string live = text.substr(text.find('\n') + 1);
    EXPECT_LE(std::ranges::count(live, '\r'), 10) << columns;
    for (std::size_t at = 0; (at = live.find("\x1b[K", at)) != std::string::npos; ++at) {
      const auto line = live.substr(at + 3, live.find_first_of("\r\n", at) - at - 3);
      const auto width = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(width, std::max(columns - 1, 19)) << line;
    }
    EXPECT_TRUE(text.ends_with('\n')) << "the cursor is left on a line of its own";
  }
}

TEST_F(ProgressTest, UsesColourOnlyWhereAllowed) {
  Progress plain = progress({.is_terminal = true, .columns = 80});
  plain.on(digits_run());
  start_epoch(plain, 0, 4);
  step(plain, 0.5);
  EXPECT_EQ(written().find("\x1b[32m"), std::string::npos);
  Progress coloured = progress({.is_terminal = true, .columns = 80, .colour = true});
  coloured.on(digits_run());
  start_epoch(coloured, 0, 4);
  step(coloured, 0.5);
  EXPECT_NE(written().find("\x1b[32m━"), std::string::npos);
}

TEST_F(ProgressTest, TenThousandEpochsOfOneStepSayTheLossEachThousandAndNoMore) {
  Progress bar = progress({.log_every = 1000});
  RunStarted run = digits_run();
  run.epochs = run.steps_total = 10000;
  run.steps_per_epoch = 1;
  bar.on(run);
  for (std::int64_t epoch = 0; epoch < 10000; ++epoch) {
    start_epoch(bar, epoch, 1);
    step(bar, 0.0002, (epoch + 1) % 1000 == 0 ? std::optional(0.5) : std::nullopt);
    bar.on(ValidationEnded{.step = step_.step, .epoch = epoch, .train_loss = 0.5});
  }
  EXPECT_EQ(lines(), 1 + 10);
  EXPECT_NE(written().find("step 1 000/10 000 · epoch 1 000/10 000 · loss 0.5 · 250 000 samples/s"), std::string::npos)
      << written();
}

TEST_F(ProgressTest, ManyLossesAreSaidEveryFiveSecondsAtMost) {
  Progress bar = progress({.log_every = 1});
  RunStarted run = digits_run();
  run.epochs = 1;
  run.steps_total = run.steps_per_epoch = 10000;
  bar.on(run);
  start_epoch(bar, 0, 10000);
  for (int i = 0; i < 10000; ++i) step(bar, 0.01, 0.5);
  EXPECT_LE(lines(), 1 + 20);
}

TEST_F(ProgressTest, ARunWithoutAPlannedEndShowsNeitherBarNorTimeLeft) {
  Progress bar = progress({.is_terminal = true, .columns = 80});
  bar.on(RunStarted{.name = "digits", .run_dir = "runs/x", .steps_per_epoch = 4});
  start_epoch(bar, 0, 4);
  step(bar, 0.5);
  EXPECT_TRUE(written().ends_with("\r\x1b[Kepoch 1 · step 1 · 100 samples/s")) << written();
}

TEST_F(ProgressTest, AnEpochWithoutValidationHasItsLineToo) {
  Progress bar = progress({});
  bar.on(digits_run());
  start_epoch(bar, 0, 2);
  step(bar, 0.5);
  step(bar, 0.5);
  start_epoch(bar, 1, 2);
  EXPECT_TRUE(written().ends_with("epoch 1/2 · step 2/8 · 100 samples/s\n")) << written();
}

TEST_F(ProgressTest, AResumedRunCountsTimeLeftFromItsOwnSteps) {
  Progress bar = progress({.log_every = 1});
  RunStarted run = digits_run();
  run.first_step = step_.step = 6;
  run.resumed_from = "runs/digits-7/snapshots/step-0000000006";
  bar.on(run);
  start_epoch(bar, 1, 4);
  step(bar, 3, 0.5);
  EXPECT_NE(written().find("resumed at step 6 from runs/digits-7/snapshots/step-0000000006\n"), std::string::npos);
  EXPECT_TRUE(written().ends_with("step 7/8 · epoch 2/2 · loss 0.5 · 16.67 samples/s · 00:00:03 left\n")) << written();
}

TEST_F(ProgressTest, SaysWhatStoppedARunBeforeItsEnd) {
  Progress bar = progress({});
  bar.on(digits_run());
  RunEnded end = digits_end();
  end.stopped_by = "signal";
  end.step = 1234;
  bar.on(end);
  EXPECT_NE(written().find("\nstopped by signal at step 1 234 · val_accuracy 0.9722"), std::string::npos) << written();
}

TEST_F(ProgressTest, OptionsFollowTheDescriptorAndTheEnvironment) {
  EXPECT_FALSE(progress_options(file_.get(), 10, {{"TERM", "xterm"}}).is_terminal);
  const FileDescriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY));
  if (!terminal) GTEST_SKIP() << "this machine gives no pseudo-terminal";
  const auto options = progress_options(terminal.get(), 10, {{"TERM", "xterm"}, {"COLUMNS", "132"}});
  EXPECT_TRUE(options.is_terminal);
  EXPECT_TRUE(options.colour);
  EXPECT_EQ(options.columns, 132);
  EXPECT_EQ(options.log_every, 10);
  EXPECT_FALSE(progress_options(terminal.get(), 10, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}).colour);
  EXPECT_FALSE(progress_options(terminal.get(), 10, {{"TERM", "dumb"}}).is_terminal);
}

}  // namespace
}  // namespace lockstep
