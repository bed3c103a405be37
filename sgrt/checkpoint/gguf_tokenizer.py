"""From the metadata of a GGUF file to what a tokenizer is built from."""

from __future__ import annotations

from sgrt.checkpoint.gguf_file import GgufFile
from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.tokenizer.data import ByteLevelBpe, ScoredPieces, TokenizerData, TokenType
from sgrt_grammars.end_tokens import END_TOKEN_TEXTS

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_BEGINNING = ("llama-bpe", "llama3", "llama-v3", "tekken")
_TEMPLATE_KEYS = ("bos", "eos", "unknown", "padding")
_TEMPLATE_NAMES = {"unknown": "unk", "padding": "pad"}


def read_tokenizer_data(file: GgufFile, vocabulary_size: int) -> TokenizerData:
    """The tokenizer of the model in `file`.

    Raises:
        UnsupportedModel: the tokenizer's kind is unknown; the message lists the known ones.
        CorruptModel: the file has no vocabulary, or its lists have different lengths.
    """
    definition = _definition(file)
    tokens = definition.tokens
    if len(tokens) > vocabulary_size:
        raise CorruptModel(
            f"{file.path}: the tokenizer has {len(tokens):,} tokens, the model's embedding {vocabulary_size:,} rows"
        )
    return TokenizerData(
        definition=definition,
        vocabulary_size=vocabulary_size,
        begin_token_ids=_begin_tokens(file, definition),
        end_token_ids=_end_tokens(file, definition),
        chat_template=file.string("tokenizer.chat_template", "") or None,
        template_tokens=tuple(
            (f"{_TEMPLATE_NAMES.get(key, key)}_token", tokens[token_id])
            for key in _TEMPLATE_KEYS
            if (token_id := _token_id(file, f"{key}_token_id", len(tokens))) is not None
        ),
    )


def _definition(file: GgufFile) -> ByteLevelBpe | ScoredPieces:
    kind = file.string("tokenizer.ggml.model")
    tokens = file.strings("tokenizer.ggml.tokens")
    if not tokens:
        raise CorruptModel(f"{file.path}: the file holds no vocabulary (metadata 'tokenizer.ggml.tokens')")
    types = file.integers("tokenizer.ggml.token_type") or (int(TokenType.NORMAL),) * len(tokens)
    _require_same_length(file, "token_type", len(types), len(tokens))
    if kind == "gpt2":
        return ByteLevelBpe(
            tokens=tokens,
            types=types,
            merges=file.strings("tokenizer.ggml.merges"),
            pre=file.string("tokenizer.ggml.pre", "default"),
        )
    if kind == "llama":
        scores = file.reals("tokenizer.ggml.scores")
        _require_same_length(file, "scores", len(scores), len(tokens))
        return ScoredPieces(
            tokens=tokens,
            types=types,
            scores=scores,
            unknown_token_id=file.integer("tokenizer.ggml.unknown_token_id", 0),
            has_space_prefix=file.flag("tokenizer.ggml.add_space_prefix", True),
        )
    raise UnsupportedModel(
        f"{file.path}: tokenizer model {kind!r} is unknown; known: gpt2 (byte-level BPE), llama (SentencePiece BPE)"
    )


def _require_same_length(file: GgufFile, key: str, found: int, expected: int) -> None:
    if found != expected:
        raise CorruptModel(
            f"{file.path}: metadata 'tokenizer.ggml.{key}' has {found:,} entries for {expected:,} tokens"
        )


def _begin_tokens(file: GgufFile, definition: ByteLevelBpe | ScoredPieces) -> tuple[int, ...]:
    # Many files lack the key: SentencePiece models begin with their BOS token, of the byte-level ones only some.
    is_usual = isinstance(definition, ScoredPieces) or definition.pre in _BEGINNING
    is_added = file.flag("tokenizer.ggml.add_bos_token", is_usual)
    token_id = _token_id(file, "bos_token_id", len(definition.tokens))
    return (token_id,) if is_added and token_id is not None else ()


def _end_tokens(file: GgufFile, definition: ByteLevelBpe | ScoredPieces) -> tuple[int, ...]:
    named = [_token_id(file, key, len(definition.tokens)) for key in _END_KEYS]
    by_text = [
        token_id
        for token_id, (token, kind) in enumerate(zip(definition.tokens, definition.types, strict=True))
        if kind == TokenType.CONTROL and token in END_TOKEN_TEXTS
    ]
    ids = dict.fromkeys(token_id for token_id in (*named, *by_text) if token_id is not None)
    if not ids:
        raise CorruptModel(
            f"{file.path}: the file names no end token (metadata 'tokenizer.ggml.eos_token_id')"
        )
    return tuple(ids)


def _token_id(file: GgufFile, key: str, size: int) -> int | None:
    full = f"tokenizer.ggml.{key}"
    if full not in file.header.metadata:
        return None
    token_id = file.integer(full)
    if not 0 <= token_id < size:
        raise CorruptModel(f"{file.path}: metadata {full!r} is {token_id}, outside the {size:,} tokens")
    return token_id
