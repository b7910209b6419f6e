"""Writes lsqpack.txt: field sections by ls-qpack, for a peer without a dynamic table.

A line is a section in hex, then its fields, each `name=value` after a tab, bytes as Latin-1. The
first lines are all entries of the static table as ls-qpack reads them; the sections that it writes
follow.

    target/python/bin/python crates/http/tests/wire/ls_qpack_comparison/generate.py
"""

import pathlib
import random

import pylsqpack

STATIC_ENTRIES = 99


def static_entry(index):
    high = bytes([0xC0 | index]) if index < 63 else bytes([0xFF, index - 63])
    block = b"\0\0" + high
    _, fields = pylsqpack.Decoder(0, 0).feed_header(0, block)
    return block, fields


def sections(entries):
    rng = random.Random(9204)
    text = "abcdefghijklmnopqrstuvwxyz0123456789-_.~/;,: %?&"
    for size in [1, 2, 3, 5, 8, 13]:
        for _ in range(16):
            fields = []
            for _ in range(size):
                name, value = rng.choice(entries)
                kind = rng.randrange(4)
                if kind > 0:
                    value = "".join(rng.choices(text, k=rng.choice([0, 1, 9, 130]))).encode()
                if kind > 1:
                    letters = rng.choices(text[:26], k=rng.choice([1, 7, 40]))
                    name = ("x-" + "".join(letters)).encode()
                if kind > 2:
                    value = value + bytes(rng.choices(range(0xA1, 0x100), k=5))
                fields.append((name, value.strip()))
            table, block = pylsqpack.Encoder().encode(0, fields)
            assert not table, "nothing for a dynamic table"
            yield block, fields


def main():
    static = [static_entry(index) for index in range(STATIC_ENTRIES)]
    entries = [fields[0] for _, fields in static]
    lines = []
    for block, fields in [*static, *sections(entries)]:
        pairs = b"".join(b"\t" + name + b"=" + value for name, value in fields)
        lines.append(block.hex() + pairs.decode("latin-1") + "\n")
    file = pathlib.Path(__file__).parent / "lsqpack.txt"
    file.write_text("".join(lines), encoding="utf-8")


main()
