"""From the files of a Hugging Face folder to what a tokenizer is built from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sgrt.checkpoint.json_file import JsonFile
from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.tokenizer.data import TokenizerData, TokenizerJson
from sgrt_grammars.end_tokens import END_TOKEN_TEXTS

_TEMPLATE_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


def read_tokenizer_data(folder: Path, vocabulary_size: int) -> TokenizerData:
    """The tokenizer of the model in `folder`.

    Raises:
        UnsupportedModel: there is no tokenizer.json.
        CorruptModel: a file is malformed, no end token is named, or tokens have no row of the embedding.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UnsupportedModel(
            f"{folder}: there is no tokenizer.json; known tokenizers: tokenizer.json, and those inside GGUF files"
        )
    whole = JsonFile.read(path)
    definition = _within_embedding(whole, vocabulary_size)
    config = JsonFile.read_if_there(folder / "tokenizer_config.json")
    special_ids = _special_ids(definition)
    template_tokens = _template_tokens(folder, config)
    return TokenizerData(
        definition=TokenizerJson(
            text=path.read_text(encoding="utf-8")
            if definition is whole
            else json.dumps(definition.values, ensure_ascii=False)
        ),
        vocabulary_size=vocabulary_size,
        begin_token_ids=_begin_tokens(definition, config, special_ids, template_tokens),
        end_token_ids=_end_tokens(folder, special_ids, template_tokens, vocabulary_size),
        chat_template=_chat_template(folder, config),
        template_tokens=tuple(template_tokens.items()),
    )


def _within_embedding(definition: JsonFile, vocabulary_size: int) -> JsonFile:
    """The definition without added tokens behind the embedding's last row, which no text may become.

    Text models cut from larger ones have some: marks of images, say. An ordinary token out there is a mistake.

    Raises:
        CorruptModel: an ordinary token has no row.
    """
    model = definition.part("model")
    vocabulary = model.values.get("vocab")
    added = definition.items("added_tokens")
    outside = {
        str(entry["content"])
        for entry in added
        if isinstance(entry, dict) and isinstance(entry.get("id"), int) and entry["id"] >= vocabulary_size
    }
    ids = _ids(vocabulary)
    lost = [text for text, number in ids.items() if number >= vocabulary_size and text not in outside]
    if lost:
        raise CorruptModel(
            f"{definition.path}: the tokenizer has {len(lost):,} tokens, such as {lost[0]!r}, beyond the "
            f"{vocabulary_size:,} rows of the model's embedding"
        )
    if not outside:
        return definition
    if isinstance(vocabulary, Mapping):
        vocabulary = {text: number for text, number in ids.items() if text not in outside}
    elif isinstance(vocabulary, list):
        vocabulary = vocabulary[:vocabulary_size]
    kept = [entry for entry in added if not (isinstance(entry, dict) and entry.get("content") in outside)]
    changed = {"model": {**model.values, "vocab": vocabulary}, "added_tokens": kept}
    return JsonFile(definition.path, {**definition.values, **changed})


def _ids(vocabulary: object) -> dict[str, int]:
    """Token texts to ids: a mapping in most files, a list of texts and scores in unigram ones."""
    if isinstance(vocabulary, Mapping):
        return {str(text): number for text, number in vocabulary.items() if isinstance(number, int)}
    if isinstance(vocabulary, list):
        return {
            str(entry[0]): place
            for place, entry in enumerate(vocabulary)
            if isinstance(entry, list) and entry
        }
    return {}


def _special_ids(definition: JsonFile) -> dict[str, int]:
    return {
        str(entry["content"]): entry["id"]
        for entry in definition.items("added_tokens")
        if isinstance(entry, dict) and entry.get("special") and isinstance(entry.get("id"), int)
    }


def _template_tokens(folder: Path, config: JsonFile) -> dict[str, str]:
    older = JsonFile.read_if_there(folder / "special_tokens_map.json")
    found = {
        name: _content(config.values.get(name)) or _content(older.values.get(name))
        for name in _TEMPLATE_TOKENS
    }
    return {name: text for name, text in found.items() if text is not None}


def _content(entry: object) -> str | None:
    """A token's text: files write it as a string or as an object with `content`."""
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def _begin_tokens(
    definition: JsonFile, config: JsonFile, special_ids: dict[str, int], template_tokens: dict[str, str]
) -> tuple[int, ...]:
    """The tokens that the file's post-processor puts before a single text."""
    processor = definition.part("post_processor")
    parts = [
        processor,
        *(
            JsonFile(definition.path, part)
            for part in processor.items("processors")
            if isinstance(part, dict)
        ),
    ]
    for part in parts:
        names = _template_prefix(part)
        if names:
            return tuple(special_ids[name] for name in names if name in special_ids)
    begin = template_tokens.get("bos_token")
    is_added = config.values.get("add_bos_token") is True
    return (special_ids[begin],) if is_added and begin in special_ids else ()


def _template_prefix(processor: JsonFile) -> list[str]:
    names: list[str] = []
    for step in processor.items("single") if processor.values.get("type") == "TemplateProcessing" else []:
        match step:
            case {"SpecialToken": {"id": str(name)}}:
                names.append(name)
            case _:
                return names
    return names


def _end_tokens(
    folder: Path, special_ids: dict[str, int], template_tokens: dict[str, str], vocabulary_size: int
) -> tuple[int, ...]:
    generation = JsonFile.read_if_there(folder / "generation_config.json")
    model = JsonFile.read(folder / "config.json")
    declared = [*generation.items("eos_token_id"), *model.items("eos_token_id")]
    end = template_tokens.get("eos_token", "")
    by_text = [number for text, number in special_ids.items() if text in END_TOKEN_TEXTS | {end}]
    ids = dict.fromkeys(number for number in (*declared, *by_text) if isinstance(number, int))
    if not ids:
        raise CorruptModel(
            f"{folder}: no end token is named (eos_token_id of generation_config.json or config.json)"
        )
    if not all(0 <= number < vocabulary_size for number in ids):
        raise CorruptModel(
            f"{folder}: end tokens {list(ids)} are not all among the {vocabulary_size:,} tokens"
        )
    return tuple(ids)


def _chat_template(folder: Path, config: JsonFile) -> str | None:
    separate = folder / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = config.values.get("chat_template")
    if isinstance(template, list):  # several by name: the one called default is for chats
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
