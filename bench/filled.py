"""Markdown that a program has written, filled to 100 columns."""
import re
import textwrap

WIDTH = 100
# A wrapped line must not begin like a list, a heading or a quote.
MARKER = re.compile(r" (?=(?:[-+*#>]+|\d+[.)]) )")


def filled(text):
    """The text with its long lines wrapped; tables, headings and code stay as they are."""
    return "\n".join(map(filled_line, text.split("\n")))


def filled_line(line):
    if len(line) <= WIDTH or line.startswith(("|", "#", "<", "    ")):
        return line
    item = re.match(r"- ", line)
    first, words = (item.group(0), line[item.end():]) if item else ("", line)
    wrapped = textwrap.fill(MARKER.sub("\0", words), WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
                            break_long_words=False, break_on_hyphens=False)
    return wrapped.replace("\0", " ")
