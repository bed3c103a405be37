"""What a compiled kernel uses: registers, shared memory, spills, instructions by class, and its main loop."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from triton import knobs

from sgrt_kernels.aot.compiler import CompiledKernel

# Shared memory that one block may ask for, by compute capability (CUDA programming guide, technical specifications).
SHARED_LIMITS = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}

_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?);")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_BRANCH = re.compile(r"BRA\S*\s.*\(?(\.L_x_\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """Resources and instructions of one compiled kernel."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    warps: int
    instructions: tuple[str, ...]  # SASS, predicates removed, in order
    loop: tuple[str, ...]  # the longest loop that closes on itself

    @property
    def spills(self) -> int:
        """Instructions that move registers to or from local memory."""
        return sum(text.startswith(("STL", "LDL")) for text in self.instructions)

    def classes(self, *, loop_only: bool = False) -> Counter[str]:
        """Instruction counts by opcode with its modifiers, "HMMA.16816.F32"."""
        return Counter(text.split()[0] for text in (self.loop if loop_only else self.instructions))

    def count(self, *prefixes: str, loop_only: bool = False) -> int:
        """Instructions whose opcode starts with one of `prefixes`."""
        return sum(
            count for name, count in self.classes(loop_only=loop_only).items() if name.startswith(prefixes)
        )

    @property
    def matrix_instructions(self) -> frozenset[str]:
        """Families of matrix instructions: HMMA, HGMMA, QGMMA, IMMA, UTC*."""
        families = ("HGMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "IMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA")
        found = {name.split(".")[0] for name in self.classes()}
        return frozenset(name for name in found if name.startswith(families))


def machine_code(kernel: CompiledKernel) -> MachineCode:
    """Disassemble `kernel` with the tools that come with Triton."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(kernel.asm["cubin"])
        usage = _run(knobs.nvidia.cuobjdump.path, "-res-usage", str(binary))
        listing = _run(knobs.nvidia.nvdisasm.path, "-c", str(binary))
    resources = {name: int(value) for name, value in re.findall(r"(REG|STACK):(\d+)", usage)}
    instructions, loop = _parsed(listing)
    return MachineCode(
        registers=resources["REG"],
        stack_bytes=resources["STACK"],
        shared_bytes=kernel.metadata.shared,
        warps=kernel.metadata.num_warps,
        instructions=instructions,
        loop=loop,
    )


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _parsed(listing: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    instructions: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            instructions.append(_PREDICATE.sub("", found.group(1)))
    longest: tuple[str, ...] = ()
    for index, text in enumerate(instructions):
        branch = _BRANCH.match(text)
        start = labels.get(branch.group(1)) if branch else None
        if start is not None and start < index and index + 1 - start > len(longest):
            longest = tuple(instructions[start : index + 1])
    return tuple(instructions), longest
