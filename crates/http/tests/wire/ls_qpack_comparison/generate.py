"""Writes lsqpack.txt: field sections that ls-qpack has encoded without a dynamic table.

Each line has a field section in hexadecimal, followed by its fields. A field is `name=value` after
a tab, with bytes as Latin-1 characters. The first lines are the entries of the static table as
ls-qpack decodes them, and the others are sections that it has encoded.

    target/python/bin/python crates/http/tests/wire/ls_qpack_comparison/generate.py
"""

import pathlib
import random

import pylsqpack

STATIC_ENTRIES = 99


def static_entry(index):
    index_bytes = bytes([0xC0 | index]) if index < 63 else bytes([0xFF, index - 63])
    block = b"\0\0" + index_bytes
    _, fields = pylsqpack.Decoder(0, 0).feed_header(0, block)
    return block, fields


def encoded_sections(entries):
    random_source = random.Random(9204)
    text = "abcdefghijklmnopqrstuvwxyz0123456789-_.~/;,: %?&"
    for size in [1, 2, 3, 5, 8, 13]:
        for _ in range(16):
            fields = []
            for _ in range(size):
                name, value = random_source.choice(entries)
                kind = random_source.randrange(4)
                if kind > 0:
                    length = random_source.choice([0, 1, 9, 130])
                    value = "".join(random_source.choices(text, k=length)).encode()
                if kind > 1:
                    letters = random_source.choices(text[:26], k=random_source.choice([1, 7, 40]))
                    name = ("x-" + "".join(letters)).encode()
                if kind > 2:
                    value = value + bytes(random_source.choices(range(0xA1, 0x100), k=5))
                fields.append((name, value.strip()))
            encoder_stream, block = pylsqpack.Encoder().encode(0, fields)
            assert not encoder_stream, "nothing for a dynamic table"
            yield block, fields


def main():
    static = [static_entry(index) for index in range(STATIC_ENTRIES)]
    entries = [fields[0] for _, fields in static]
    lines = []
    for block, fields in [*static, *encoded_sections(entries)]:
        pairs = b"".join(b"\t" + name + b"=" + value for name, value in fields)
        lines.append(block.hex() + pairs.decode("latin-1") + "\n")
    file = pathlib.Path(__file__).parent / "lsqpack.txt"
    file.write_text("".join(lines), encoding="utf-8")


main()
