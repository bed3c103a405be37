"""The vocabulary of grammar tests about bytes: every byte is a token, and one more ends the text."""

from sgrt_grammars.vocabulary import Vocabulary

END = 256
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])
