# SPDX-License-Identifier: Apache-2.0
"""Compiles forward and backward of a network ahead of time with TorchInductor. Backward is compiled in stages.

AOTAutograd makes one graph of the forward pass and one of the backward pass. The backward graph is a list of operations, which is cut
between operations into stages. Each stage gives the gradients that are ready at its end, so that ranks can average them while the
next stage runs. A stage also gives the other values that later stages need.

Every value has a number. The first numbers are the inputs of the backward graph in their order: the values that forward saves, and
the gradient of forward's output. The outputs of each stage follow.
"""
import contextlib
import json
import operator
import os
import pathlib
import shlex
import tempfile

DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16")
MOST_STAGES = 4
LEAST_STAGE_BYTES = 1 << 20  # Bytes of gradients. The reducer's first bucket has the same size, and fewer bytes are not worth a message.
WORK_OF_AN_ELEMENT = 50  # Reading or writing one number in memory takes about as long as this many multiplications.


class CannotCompile(Exception):
    def __init__(self, fact, hint):
        super().__init__(fact)
        self.hint = hint


def described(name, tensor):
    return {"name": name, "dtype": DTYPES[str(tensor.dtype).rpartition(".")[2]], "shape": list(tensor.shape), "stride": list(tensor.stride())}


def passes_of(torch, compute, parameters, buffers, batch, narrow):
    """Returns {"forward": (graph, example inputs), "backward": ...}. The inputs of forward are the parameters, the buffers and the batch.

    `compute` takes a dict of parameters, a dict of buffers and the batch, and returns the network's output. `narrow` is the dtype of
    autocast, or None.
    """
    import torch._inductor.lowering  # The table of decompositions needs this import.
    from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    def forward(*inputs):
        own = dict(zip(parameters, inputs))
        # Buffers are not changed in place. The new values are outputs, and the caller copies them to the right memory.
        running = {name: value.clone() for name, value in zip(buffers, inputs[len(parameters):])}
        with torch.autocast(batch.device.type, dtype=narrow, enabled=narrow is not None, cache_enabled=False):
            out = compute(own, running, inputs[-1])
        return (out, *running.values())

    found = {}

    def keep(which):
        def compiler(graph, inputs):
            expand_short_lists(torch, graph)
            found[which] = (graph, list(inputs))
            return make_boxed_func(graph.forward)
        return compiler

    function = aot_function(forward, fw_compiler=keep("forward"), bw_compiler=keep("backward"),
                            partition_fn=min_cut_rematerialization_partition, decompositions=select_decomp_table())
    inputs = [*(each.detach().requires_grad_(each.requires_grad) for each in parameters.values()),
              *(each.detach() for each in buffers.values()), batch.detach()]
    out = function(*inputs)[0]
    out.backward(torch.ones_like(out))
    return found


def expand_short_lists(torch, graph):
    """Writes a list of one number as the operator's schema has it: [2] becomes [2, 2] for int[2].

    Python writes such lists out itself. C++ keeps the short form, as in max_pool2d(x, 2), and some of Inductor's lowerings refuse that.
    """
    for node in graph.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        for place, (given, argument) in enumerate(zip(node.args, node.target._schema.arguments)):
            if isinstance(given, (list, tuple)) and len(given) == 1 and argument.N and argument.N > 1:
                node.update_arg(place, list(given) * argument.N)
    graph.recompile()


def real_inputs(torch, inputs):
    if any(not isinstance(each, torch.Tensor) for each in inputs):
        raise CannotCompile("the model's sizes depend on its input", "only models with one shape for all batches can be compiled")
    return [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device) for each in inputs]


def value_of(node):
    return node.meta.get("val")


def size_in_bytes(tensor):
    return tensor.numel() * tensor.element_size()


def work_of(torch, node):
    """Returns a rough estimate of the work of a node, in multiplications. Counts products, convolutions and traffic to memory."""
    from torch.utils.flop_counter import flop_registry

    value = value_of(node)
    made = [each for each in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(each, torch.Tensor)]
    work = WORK_OF_AN_ELEMENT * sum(each.numel() for each in made)
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return work
    arguments = torch.fx.node.map_arg(node.args, value_of)
    named = torch.fx.node.map_arg(node.kwargs, value_of)
    return work + count(*arguments, **named, out_val=value) // 2


def cuts_of(torch, nodes, gradients, most, least):
    """Returns the places between nodes where stages end. Stages have about equal shares of work and of bytes of gradients, which count
    half each. There are at most `most` stages, each with about `least` bytes of gradients or more."""
    sizes = {node: size_in_bytes(value_of(node)) for node in gradients}
    total = sum(sizes.values())
    count = min(most, max(1, total // least))
    works = [work_of(torch, node) for node in nodes]
    whole = sum(works) or 1
    cuts, done, given, ready = [], 0, 0, False
    for place, node in enumerate(nodes):
        done += works[place]
        given += sizes.get(node, 0)
        ready |= node in sizes
        if given == total or len(cuts) == count - 1:
            break
        # A stage without a gradient would cost a call and gain nothing.
        is_due = ready and done / whole + given / total >= 2 * (len(cuts) + 1) / count
        if is_due and not takes_out(nodes[place + 1]):
            cuts.append(place + 1)
            ready = False
    return [*cuts, len(nodes)]


def stages_of(torch, graph, most, least=LEAST_STAGE_BYTES):
    """Cuts the backward `graph` into at most `most` stages, each with about `least` bytes of gradients or more.

    Returns a list of stages and a list of gradients. A stage is a dict of its graph, its example inputs, and the numbers of the values
    that it takes and gives. A gradient is [number of the value, place among the outputs].
    """
    (output,) = graph.graph.find_nodes(op="output")
    outputs = [(place, node) for place, node in enumerate(output.args[0]) if node is not None]
    placeholders = graph.graph.find_nodes(op="placeholder")
    constants = {node for node in graph.graph.nodes if node.op == "get_attr"}
    nodes = [node for node in graph.graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
    position = {node: place for place, node in enumerate(nodes)}
    # A set, because several outputs may be one value. An output that is an input of the graph needs no stage.
    gradients = {node for _, node in outputs if node in position}
    numbers = {node: number for number, node in enumerate(placeholders)}
    last_use = {node: max((position[user] for user in node.users if user in position), default=-1) for node in position}
    stages, begin = [], 0
    for end in cuts_of(torch, nodes, gradients, most, least):
        part = nodes[begin:end]
        own = set(part)
        taken = []
        for node in part:
            for each in node.all_input_nodes:
                if each not in own and each not in constants and each not in taken:
                    taken.append(each)
        given = [node for node in part if node in gradients or last_use[node] >= end]
        for node in given:
            numbers[node] = len(numbers)
        stages.append({"graph": graph_of(torch, graph, part, taken, given), "examples": [value_of(each) for each in taken],
                       "takes": [numbers[each] for each in taken], "gives": [numbers[each] for each in given]})
        begin = end
    return stages, [[numbers[node], place] for place, node in outputs]


def graph_of(torch, root, nodes, taken, given):
    made, copies = torch.fx.Graph(), {}
    for each in taken:
        copies[each] = made.placeholder(each.name)
        copies[each].meta = dict(each.meta)
    for node in nodes:
        for each in node.all_input_nodes:
            if each.op == "get_attr" and each not in copies:
                copies[each] = made.node_copy(each)
        copies[node] = made.node_copy(node, copies.__getitem__)
    made.output(tuple(copies[each] for each in given))
    return torch.fx.GraphModule(root, made)


def takes_out(node):
    """Returns True if the node selects one of an operation's several results."""
    return node.target is operator.getitem


def keep_together(graph):
    """Moves each node that selects one of an operation's results right behind that operation, so that no cut separates them."""
    behind = {}
    for node in list(graph.graph.nodes):
        if takes_out(node):
            behind.get(node.args[0], node.args[0]).append(node)
            behind[node.args[0]] = node
    graph.recompile()


def compile_passes(torch, compute, parameters, buffers, batch, precision, out, stages=MOST_STAGES, least=LEAST_STAGE_BYTES):
    """Compiles a network into the package `out`, which is written as a whole or not at all. Returns the facts about the package.

    `precision` is one of PRECISIONS. `stages` is the most stages of backward, and `least` the fewest bytes of gradients of a stage.
    Raises CannotCompile, and any exception of Inductor's.
    """
    from torch._inductor.compile_fx import compile_fx_aot
    from torch._inductor.package import package_aoti

    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    found = passes_of(torch, compute, parameters, buffers, batch, narrow)
    graph, inputs = found["backward"]
    real_inputs(torch, inputs)
    keep_together(graph)
    parts, gradients = stages_of(torch, graph, stages, least)
    if any(place >= len(parameters) for _, place in gradients):
        raise CannotCompile("the batch or a buffer has a gradient", "set requires_grad of model parameters only")
    facts = {"torch": torch.__version__.partition("+")[0], "device": batch.device.type, "precision": "fp32" if precision == "tf32" else precision,
             "parameters": [described(name, each) for name, each in parameters.items()],
             "buffers": [described(name, each) for name, each in buffers.items()],
             "batch": described("", batch), "tangent": described("", inputs[-1]), "gradients": gradients,
             "stages": [{"takes": part["takes"], "gives": part["gives"]} for part in parts]}
    files = {}
    graphs = {"forward": found["forward"]} | {f"backward{number}": (part["graph"], part["examples"]) for number, part in enumerate(parts)}
    with lean_linker(torch):
        for which, (each, examples) in graphs.items():
            options = {"aot_inductor.package": True}
            if which == "forward":
                options["aot_inductor.metadata"] = {"lockstep": json.dumps(facts)}
            files[which] = compile_fx_aot(each, real_inputs(torch, examples), config_patches=options)
    partial = out.with_name(f"{out.name.removesuffix('.pt2')}.{os.getpid()}.partial.pt2")
    try:
        package_aoti(str(partial), files)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return facts


@contextlib.contextmanager
def lean_linker(torch):
    """Links without -ltorch while the context lasts. Inductor adds that option but needs no symbol of libtorch.so, which loads all of
    CUDA's libraries. So a network for a CPU would load gigabytes that it never calls."""
    import torch._inductor.config
    from torch._inductor.codecache import cache_dir
    from torch._inductor.cpp_builder import get_cpp_compiler

    # The script's path must not change, because precompiled headers depend on the compiler's path.
    script = pathlib.Path(cache_dir(), "lockstep", "c++")
    script.parent.mkdir(parents=True, exist_ok=True)
    partial = script.with_name(f"c++.{os.getpid()}")
    compiler = shlex.quote(get_cpp_compiler())
    partial.write_text(f'#!/bin/sh\nfor each do\n  shift\n  [ "$each" = -ltorch ] || set -- "$@" "$each"\ndone\nexec {compiler} "$@"\n')
    partial.chmod(0o700)
    partial.replace(script)
    with torch._inductor.config.patch({"cpp.cxx": (None, str(script))}):
        yield


@contextlib.contextmanager
def cuda_for_the_linker(torch):
    """Lets Inductor compile for CUDA without a toolkit while the context lasts. Inductor takes headers from a toolkit and links with
    -lcuda. Without a toolkit, pip's packages have the headers. The driver is installed as libcuda.so.1, so a link with the name that
    the linker looks for is made."""
    from torch.utils import cpp_extension

    if cpp_extension.CUDA_HOME is None:
        packages = pathlib.Path(torch.__file__).parents[1] / "nvidia"
        cpp_extension.CUDA_HOME = next((str(header.parents[1]) for header in packages.glob("cu*/include/cuda.h")), None)
    driver = next((line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libcuda.so" in line), None)
    with tempfile.TemporaryDirectory() as folder:
        if driver:
            pathlib.Path(folder, "libcuda.so").symlink_to(driver)
            os.environ["LIBRARY_PATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("LIBRARY_PATH")])])
        yield
