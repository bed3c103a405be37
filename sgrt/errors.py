"""Errors of the runtime. Those a program's author meets come from the frontend and are re-exported here.

SgrtError (sgrt_frontend.errors)
└── ModelError
    ├── ModelNotFound      no such file, folder or name; says what was tried
    ├── CorruptModel       truncated or inconsistent file
    ├── UnsupportedModel   architecture, quantization or tokenizer is unknown; says which are known
    └── DownloadError      offline, interrupted, or the wrong bytes arrived
"""

from __future__ import annotations

from sgrt_frontend.errors import (
    BackendError,
    Cancelled,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    ProgramError,
    SgrtError,
)


class ModelError(SgrtError):
    """A model cannot be loaded."""


class ModelNotFound(ModelError, FileNotFoundError):
    """There is no model under this name or path."""


class CorruptModel(ModelError):
    """A model file is truncated or contradicts itself."""


class UnsupportedModel(ModelError):
    """The file is sound but of a kind sgrt does not run."""


class DownloadError(ModelError):
    """A download failed or delivered the wrong bytes."""


__all__ = [
    "BackendError",
    "Cancelled",
    "ConstraintError",
    "ContextOverflow",
    "CorruptModel",
    "DeadlineExceeded",
    "DownloadError",
    "InvalidRequest",
    "ModelError",
    "ModelNotFound",
    "Overloaded",
    "ProgramError",
    "SgrtError",
    "UnsupportedModel",
]
