#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one source that holds the uses that public headers show, so that they are compiled: uses.py OUTPUT

A use becomes a function, which sees the names of PRELUDE. A use that begins with struct, class or a macro of ours stands
in a namespace instead. The compiler names the header's own line when a use is wrong.
"""
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools"))

from check_folders import listed, use  # noqa: E402

PRELUDE = """\
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <iostream>

#include "lockstep/lockstep.h"

// A use may leave a variable that the reader goes on with, and may make what others find in the prelude.
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

namespace uses {

extern lockstep::Group world;
extern lockstep::DistributedDataParallel ddp;
extern lockstep::Module& module;
extern lockstep::DataModule& data;
extern torch::nn::Sequential net;
extern torch::optim::Adam optimizer;
extern at::Tensor images, input, target, loss, loss_sum, samples;
extern std::int64_t batch_size;
extern std::shared_ptr<const lockstep::SampleSource> source;
extern std::shared_ptr<const lockstep::EncodedImages> encoded;
extern std::span<const std::byte> bytes;
extern int fd;
"""


def placed(number, header):
    """The lines of one header's use, as a function or a namespace of their own."""
    first, code = use(root / header)
    text = "\n".join(code)
    lines = f'#line {first} "{root / header}"\n{text}\n'
    if code and code[0].startswith(("struct ", "class ", "LOCKSTEP_")):
        return f"namespace use_{number} {{\n{lines}}}\n"
    # A use may be the body of a main() that returns an exit code.
    if any(line.strip().startswith("return lockstep::") for line in code):
        return f"int use_{number}() {{\n{lines}return 0;\n}}\n"
    return f"void use_{number}() {{\n{lines}}}\n"


if __name__ == "__main__":
    headers = sorted(listed(root / "cmake/public_headers.txt"))
    body = "\n".join(placed(number, header) for number, header in enumerate(headers))
    pathlib.Path(sys.argv[1]).write_text(f"{PRELUDE}\n{body}\n}}  // namespace uses\n")
