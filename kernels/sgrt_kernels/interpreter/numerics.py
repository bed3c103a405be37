"""Right numbers for bfloat16 and float8 in Triton's interpreter (3.6 to 3.9).

What the stock interpreter gets wrong, each checked by a test:
- bfloat16 tensors are uint16 inside, and arithmetic, comparison, reduction and dot act on the integers;
- float32 -> bfloat16 truncates; a cast to float8 loses the carry out of the fraction and does not saturate;
- float8 NaN reads as a number;
- a one-element array is no loop bound (3.6 with numpy 2.4), and autotuning asks for a GPU driver.

Narrow types are computed in float32 and rounded once, to nearest even; casts to float8 saturate like PTX
`cvt.rn.satfinite`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
import triton.runtime.autotuner as autotuner
import triton.runtime.interpreter as stock

Array = np.ndarray[Any, Any]
# Parts of Triton, which has no types:
Handle = Any  # stock.TensorHandle: numpy data and a Triton dtype
TritonType = Any
Operation = Any  # an interpreter builder, reduction, tensor or autotuner, patched in place

_TORCH_TYPES = {
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}
_FLOAT8_LIMITS = {"fp8e4nv": 448.0, "fp8e5": 57344.0, "fp8e4b8": 240.0, "fp8e5b16": 57344.0}
_NARROW = frozenset({"bf16", *_FLOAT8_LIMITS})
_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
_Builder = stock.InterpreterBuilder


def install() -> None:
    """Replace the wrong parts of the interpreter, once."""
    if stock._convert_float.__module__ == __name__:
        return
    stock._convert_float = _replacing_convert(stock._convert_float)
    _Builder.cast_impl = _replacing_cast(_Builder.cast_impl)
    _Builder.binary_op = _replacing_binary(_Builder.binary_op)
    _Builder.unary_op = _replacing_unary(_Builder.unary_op)
    _Builder.ternary_op = _replacing_ternary(_Builder.ternary_op)
    _Builder.create_fma = _replacing_fma(_Builder.create_fma)
    _Builder.create_dot = _replacing_dot(_Builder.create_dot)
    for operation in (stock.ReduceOps, stock.ScanOps):
        operation.apply_impl = _replacing_reduction(operation.apply_impl)
    stock._patch_lang_tensor = _with_scalar_index(stock._patch_lang_tensor)
    autotuner.Autotuner._bench = _order_as_time
    stock.GridExecutor.__call__ = _without_warnings(stock.GridExecutor.__call__)


def converted(bits: Array, source: TritonType, target: TritonType) -> Array:
    """`bits` of Triton float type `source` as bits of `target`, rounded to nearest even, saturating for float8."""
    flat = torch.from_numpy(np.ascontiguousarray(bits).reshape(-1)).view(_TORCH_TYPES[source.name])
    wide = flat.to(torch.float64 if source.name == "fp64" else torch.float32)
    if target.name in _FLOAT8_LIMITS:
        wide = wide.clamp(-_FLOAT8_LIMITS[target.name], _FLOAT8_LIMITS[target.name])
    rounded = wide.to(_TORCH_TYPES[target.name])
    return np.asarray(rounded.view(_UNSIGNED[rounded.itemsize]).numpy()).reshape(bits.shape)


def _is_narrow(handle: Handle) -> bool:
    return getattr(handle.dtype, "scalar", handle.dtype).name in _NARROW


def _widened(handle: Handle) -> Handle:
    if not _is_narrow(handle):
        return handle
    return stock.TensorHandle(
        converted(handle.data, handle.dtype.scalar, tl.float32).view(np.float32), tl.float32
    )


def _rounded(data: Array, dtype: TritonType) -> Handle:
    bits = converted(np.asarray(data, np.float32), tl.float32, dtype)
    return stock.TensorHandle(bits.view(stock._get_np_dtype(dtype)), dtype)


def _replacing_convert(original: Callable[..., Array]) -> Callable[..., Array]:
    def convert(bits: Array, source: TritonType, target: TritonType, rounding_mode: Operation) -> Array:
        known = source.name in _TORCH_TYPES and target.name in _TORCH_TYPES
        if not known or rounding_mode == stock._ir.ROUNDING_MODE.RTZ:
            return original(bits, source, target, rounding_mode)
        return converted(bits, source, target)

    return convert


def _replacing_cast(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def cast(self: Operation, value: Handle, target_type: TritonType) -> Handle:
        source, target = value.dtype.scalar, target_type.scalar
        if source.name in _NARROW and target.name not in _TORCH_TYPES:  # bf16 -> int
            return original(self, _widened(value), target_type)
        if target.name in _NARROW and source.name not in _TORCH_TYPES:  # int -> bf16
            return _rounded(value.data.astype(np.float32), target)
        if source.name in _NARROW or target.name in _NARROW:
            bits = converted(value.data, source, target)
            return stock.TensorHandle(bits.view(stock._get_np_dtype(target)), target)
        return original(self, value, target_type)

    return cast


def _replacing_binary(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def binary(self: Operation, left: Handle, right: Handle, operation: Callable[..., Array]) -> Handle:
        if not (_is_narrow(left) and _is_narrow(right)):
            return original(self, left, right, operation)
        result = operation(_widened(left).data, _widened(right).data)
        if result.dtype == np.bool_:
            return stock.TensorHandle(result, left.dtype.scalar)
        return _rounded(result, left.dtype.scalar)

    return binary


def _replacing_unary(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def unary(self: Operation, value: Handle, operation: Callable[..., Array]) -> Handle:
        if not _is_narrow(value):
            return original(self, value, operation)
        return _rounded(operation(_widened(value).data), value.dtype.scalar)

    return unary


def _replacing_ternary(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def ternary(
        self: Operation, first: Handle, second: Handle, third: Handle, operation: Callable[..., Array]
    ) -> Handle:
        if operation is np.where or not _is_narrow(third):  # a selection moves bits
            return original(self, first, second, third, operation)
        wide = (_widened(first).data, _widened(second).data, _widened(third).data)
        return _rounded(operation(*wide), third.dtype.scalar)

    return ternary


def _replacing_fma(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def fma(self: Operation, x: Handle, y: Handle, z: Handle) -> Handle:
        if not _is_narrow(z):
            return original(self, x, y, z)
        return _rounded(original(self, _widened(x), _widened(y), _widened(z)).data, z.dtype.scalar)

    return fma


def _replacing_dot(original: Callable[..., Handle]) -> Callable[..., Handle]:
    def dot(self: Operation, left: Handle, right: Handle, accumulator: Handle, *options: Operation) -> Handle:
        return original(self, _widened(left), _widened(right), accumulator, *options)

    return dot


def _replacing_reduction(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Operation, argument: Operation) -> Operation:
        inputs = argument if isinstance(argument, tuple) else (argument,)
        narrow = [x.dtype.scalar if x.dtype.scalar.name in _NARROW else None for x in inputs]
        if not any(narrow):
            return original(self, argument)
        result = original(self, tuple(_tensor(_widened(x.handle), x.shape) for x in inputs))
        is_many = isinstance(result, (tuple, list))
        outputs = list(result) if is_many else [result]
        for index, dtype in enumerate(narrow[: len(outputs)]):
            if dtype is not None and outputs[index].dtype.scalar.name == "fp32":
                outputs[index] = _tensor(_rounded(outputs[index].handle.data, dtype), outputs[index].shape)
        return outputs if is_many else outputs[0]

    return apply


def _tensor(handle: Handle, shape: Operation) -> Operation:
    dtype = handle.dtype.scalar
    return tl.core.tensor(handle, tl.block_type(dtype, list(shape)) if shape else dtype)


def _with_scalar_index(original: Callable[..., None]) -> Callable[..., None]:
    def patch(tensor: Operation, *scope: Operation) -> None:
        original(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
        tensor.__int__ = tensor.__index__

    return patch


def _without_warnings(original: Callable[..., Operation]) -> Callable[..., Operation]:
    """A GPU divides by zero and overflows in silence; numpy would warn."""

    def launch(self: Operation, *args: Operation, **options: Operation) -> Operation:
        with np.errstate(all="ignore"):
            return original(self, *args, **options)

    return launch


def _order_as_time(self: Operation, *args: Operation, config: Operation, **meta: Operation) -> list[float]:
    """Benchmark without a device: the first configuration wins."""
    return [float(self.configs.index(config))] * 3
