"""Every kernel compiles for GPUs that are not here, without spills and within their shared memory.

The table `issue_ratios.json` holds, for each Triton version, the issue over memory time of the decode kernels on an
H200 (see sgrt_kernels.aot.issue_model); `python -m sgrt_kernels.aot` prints a new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import triton

from sgrt_kernels.aot import catalogue
from sgrt_kernels.aot.catalogue import AttentionShape
from sgrt_kernels.aot.compiler import Launch, compile_launch
from sgrt_kernels.aot.issue_model import issue_ratio
from sgrt_kernels.aot.machine_code import SHARED_LIMITS, MachineCode, machine_code
from sgrt_kernels.aot.report import RATIO_CASES, decode_ratio
from sgrt_kernels.configurations import AttentionConfig, default_config, tree_rows_per_item
from sgrt_kernels.ops.tree_attention.triton import item_tile

RATIOS = json.loads(Path(__file__).with_name("issue_ratios.json").read_text(encoding="utf-8"))
VERSION = ".".join(triton.__version__.split(".")[:2])
ARCHES = (80, 90, 100)
# Families of matrix instructions by generation; tiles of 64 rows and more run on a warp group's.
NARROW = {80: {"HMMA"}, 90: {"HMMA"}, 100: {"HMMA"}}
WIDE = {80: {"HMMA"}, 90: {"HGMMA"}, 100: {"UTCHMMA"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    launch: Launch
    arch: int
    matrix: set[str]  # instructions that must be there
    loop_bytes: int = 0  # what one round of the main loop copies, scales aside


def sealed_shape(arch: int, **changes: int | float) -> AttentionShape:
    return AttentionShape(code="soft_fp8" if arch < 89 else "fp8", **changes)  # type: ignore[arg-type]


def attention_cases(arch: int, **changes: int | float) -> Iterator[Case]:
    shape = AttentionShape(**changes)  # type: ignore[arg-type]
    sealed = sealed_shape(arch, **changes)
    int8 = AttentionShape(code="int8", **changes)  # type: ignore[arg-type]
    config, sealed_config = (
        default_config(arch, shape.head_dim, is_sealed=is_sealed, page=shape.page, group=shape.group)
        for is_sealed in (False, True)
    )
    label = ",".join(f"{key}={value}" for key, value in changes.items()) or "default"
    block, sealed_block = (
        chosen.decode_slots * min(chosen.decode_tokens, shape.page) * shape.head_dim * 2
        for chosen in (config, sealed_config)
    )
    yield Case(
        name=f"decode {label}",
        launch=catalogue.decode(shape, config)[0],
        arch=arch,
        matrix=NARROW[arch],
        loop_bytes=2 * block,
    )
    for pages in (sealed, int8):
        yield Case(
            name=f"sealed_decode {pages.code} {label}",
            launch=catalogue.sealed_decode(pages, sealed_config)[0],
            arch=arch,
            matrix=NARROW[arch],
            loop_bytes=sealed_block,
        )
        yield Case(
            name=f"sealed_extend {pages.code} {label}",
            launch=catalogue.sealed_extend(pages, sealed_config),
            arch=arch,
            matrix=WIDE[arch] if sealed_config.extend_rows >= 64 else NARROW[arch],
        )
        yield Case(
            name=f"sealed_tree_item {pages.code} {label}",
            launch=catalogue.sealed_tree_item(pages, sealed_config),
            arch=arch,
            matrix=item_matrix(arch, pages, sealed_config),
        )
    yield Case(name=f"extend {label}", launch=catalogue.extend(shape, config), arch=arch, matrix=WIDE[arch])
    yield Case(
        name=f"tree_item {label}",
        launch=catalogue.tree_item(shape, config),
        arch=arch,
        matrix=item_matrix(arch, shape, config),
    )


def item_matrix(arch: int, shape: AttentionShape, config: AttentionConfig) -> set[str]:
    """Tiles of an item that have 64 rows use what a warp group has."""
    rows = item_tile(tree_rows_per_item(config, shape.group), shape.group)
    return WIDE[arch] if rows >= 64 else NARROW[arch]


def other_cases(arch: int) -> Iterator[Case]:
    shape = AttentionShape()
    rest = AttentionShape(is_rest=True)
    sealed_rest = replace(sealed_shape(arch), is_rest=True)
    yield Case(
        name="decode of a rest",
        launch=catalogue.decode(rest, default_config(arch, 128, is_sealed=False))[0],
        arch=arch,
        matrix=NARROW[arch],
    )
    yield Case(
        name="sealed_decode of a rest",
        launch=catalogue.sealed_decode(sealed_rest, default_config(arch, 128, is_sealed=True))[0],
        arch=arch,
        matrix=NARROW[arch],
    )
    launches = (
        *catalogue.row_kernels(),
        *catalogue.merges(shape),
        *catalogue.sampling(),
        catalogue.page_seal(sealed_shape(arch)),
        catalogue.page_seal(AttentionShape(code="int8")),
    )
    for launch in launches:
        # the float8 output of the quantized norm needs a GPU that has the type
        if not (launch.name == "rms_norm_quantized" and arch < 89):
            yield Case(name=launch.name, launch=launch, arch=arch, matrix=set())


QUICK = (
    *(
        case
        for case in attention_cases(90)
        if case.name.startswith(
            (
                "decode",
                "sealed_decode fp8",
                "extend",
                "sealed_extend int8",
                "tree_item",
                "sealed_tree_item fp8",
            )
        )
    ),
    *(case for case in attention_cases(80) if case.name.startswith("sealed_decode soft_fp8")),
    *(case for case in attention_cases(100) if case.name.startswith("sealed_decode fp8")),
    *(
        case
        for case in other_cases(90)
        if case.name in {"sealed_decode of a rest", "tree_merge", "masked_sample", "page_seal", "rms_norm"}
    ),
)
VARIANTS: tuple[dict[str, int | float], ...] = (
    {},
    {"head_dim": 64, "group": 3},
    {"head_dim": 96, "group": 8},
    {"head_dim": 256, "group": 4},
    {"group": 16},
    {"group": 1, "window": 1024},
    {"group": 7, "head_dim": 64, "soft_cap": 50.0},
    {"page": 64},
    {"page": 16},
)
SLOW = tuple(
    case
    for arch in ARCHES
    for case in (
        *(case for changes in VARIANTS for case in attention_cases(arch, **changes)),
        *other_cases(arch),
    )
)


def name_of(case: Case) -> str:
    return f"sm_{case.arch} {case.name}"


def compiled(case: Case) -> MachineCode:
    return machine_code(compile_launch(case.launch, case.arch))


def check(case: Case) -> None:
    code = compiled(case)
    assert code.shared_bytes <= SHARED_LIMITS[case.arch]
    assert code.spills == 0
    assert code.stack_bytes == 0
    assert case.matrix <= code.matrix_instructions
    wide_copies = code.count(
        "LDGSTS.E.BYPASS.128", "LDGSTS.E.BYPASS.LTC128B.128", "LDG.E.128", loop_only=True
    )
    assert wide_copies * 16 * 32 * code.warps >= case.loop_bytes, (
        "keys and values are not loaded 16 bytes at a time"
    )


@pytest.mark.parametrize("case", QUICK, ids=name_of)
def test_a_kernel_compiles_within_its_limits(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=name_of)
def test_more_shapes_compile_within_their_limits(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", RATIO_CASES)
def test_the_issue_ratio_of_decode_has_not_risen(name: str) -> None:
    if VERSION not in RATIOS:
        pytest.skip(
            f"issue_ratios.json has no column for triton {VERSION}; `python -m sgrt_kernels.aot` prints one"
        )
    assert decode_ratio(name) <= RATIOS[VERSION][name] * 1.05


@pytest.mark.parametrize("build", [catalogue.decode, catalogue.sealed_decode])
def test_a_page_table_of_any_width_is_read_by_the_same_kernel(
    build: Callable[[AttentionShape, AttentionConfig], tuple[Launch, int]],
) -> None:
    launch, _ = build(AttentionShape(), default_config(90, 128, is_sealed=False))
    places = [
        place
        for place, at in enumerate(launch.arguments)
        if isinstance(at, int) and at == catalogue.TABLE_COLUMNS
    ]
    assert len(places) == 1
    before, after = launch.arguments[: places[0]], launch.arguments[places[0] + 1 :]
    others = [replace(launch, arguments=(*before, columns, *after)) for columns in (1, 7, 48)]
    kernel = compile_launch(launch, 90)
    assert all(compile_launch(other, 90) is kernel for other in others)


def test_fp8_decode_can_reach_the_memory_rate() -> None:
    assert all(table["sealed fp8, head 128, page 32"] <= 0.6 for table in RATIOS.values())


def test_an_issue_ratio_counts_the_instructions_of_the_loop_against_its_bytes() -> None:
    code = MachineCode(
        registers=1, stack_bytes=0, shared_bytes=0, warps=4, instructions=("X",) * 10, loop=("X",) * 100
    )
    # 400 issue slots of 132 * 4 * 1.755e9 a second, against 1 KiB of 4.3e12 bytes a second
    assert issue_ratio(code, 1024) == pytest.approx(400 / (132 * 4 * 1.755e9) / (1024 / 4.3e12))


@pytest.mark.slow
def test_a_kernel_is_compiled_for_the_type_it_is_given() -> None:
    shape = AttentionShape(dtype=torch.float16)
    launch, _ = catalogue.decode(shape, default_config(90, 128, is_sealed=False))
    assert "HMMA.16816.F32" in compiled(Case(name="f16", launch=launch, arch=90, matrix=set())).classes()
