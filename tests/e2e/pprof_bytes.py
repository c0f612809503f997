# SPDX-License-Identifier: Apache-2.0
"""pprof files, byte for byte, as other profilers write them. It shares no code with the tested programs."""

from perfetto_bytes import field, varint


class Pprof:
    """A file with one mapping: types are (name, unit), a stack is names of functions, the outermost last."""

    def __init__(self, types, period=None, period_unit="bytes"):
        self.strings, self.functions, self.body = [""], [], b""
        for name, unit in types:
            self.body += field(1, field(1, self.string(name)) + field(2, self.string(unit)))
        if period is not None:
            self.body += field(11, field(1, self.string("space")) + field(2, self.string(period_unit)))
            self.body += field(12, period)

    def string(self, text):
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def location(self, names):
        """Return the id of the location of a function, or of functions that were inlined, the innermost first."""
        names = (names,) if isinstance(names, str) else tuple(names)
        if names not in self.functions:
            self.functions.append(names)
        return self.functions.index(names) + 1

    def sample(self, stack, values):
        ids = b"".join(varint(self.location(names)) for names in stack)
        self.body += field(2, field(1, ids) + field(2, b"".join(varint(value) for value in values)))
        return self

    def number(self, number, value):
        """Add a field of the profile; a text becomes the index of its string."""
        self.body += field(number, self.string(value) if isinstance(value, str) else value)
        return self

    def bytes(self):
        out, ids = self.body, {}
        for number, names in enumerate(self.functions, 1):
            lines = b""
            for name in names:
                ids.setdefault(name, len(ids) + 1)
                lines += field(4, field(1, ids[name]) + field(2, 1))
            out += field(4, field(1, number) + lines)
        for name, number in ids.items():
            out += field(5, field(1, number) + field(2, self.string(name)) + field(3, self.string(name)))
        return out + b"".join(field(6, text) for text in self.strings)


def of_addresses(mappings, stacks, types=(("space", "bytes"),)):
    """Return a file without names: mappings are (start, limit, offset, path, build id), a stack is a list of
    (index of its mapping, address), the outermost last, with its values."""
    file = Pprof(types)
    for number, (start, limit, offset, path, build_id) in enumerate(mappings, 1):
        file.body += field(3, field(1, number) + field(2, start) + field(3, limit) + field(4, offset)
                           + field(5, file.string(path)) + field(6, file.string(build_id)))
    count = 0
    for stack, values in stacks:
        ids = b""
        for index, address in stack:
            count += 1
            file.body += field(4, field(1, count) + field(2, index + 1) + field(3, address))
            ids += varint(count)
        file.body += field(2, field(1, ids) + field(2, b"".join(varint(value) for value in values)))
    return file
