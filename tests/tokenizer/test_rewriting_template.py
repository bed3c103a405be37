"""A chat template that rewrites earlier turns is said when the model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_models import CHAT_TEMPLATE, TINY_MODELS, write_folder

from sgrt.config import EngineConfig
from sgrt.engine.parts import load_parts


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (CHAT_TEMPLATE, None),
        (
            "{{ messages | length }}" + CHAT_TEMPLATE,
            "is not append-only: turn 3 changes how the turns before it",
        ),
        ("{% for %}", "malformed"),
    ],
)
def test_loading_a_model_says_whether_its_template_is_append_only(
    template: str, said: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_folder(TINY_MODELS["llama"], tmp_path / "tiny")
    (folder / "chat_template.jinja").write_text(template)
    load_parts(EngineConfig(model=str(folder), compute="float32", num_pages=64)).close()
    warnings = [record.getMessage() for record in caplog.records if "template" in record.getMessage()]
    assert len(warnings) == (0 if said is None else 1)
    assert said is None or said in warnings[0]
