"""The one form of text inside the package: NFC, without invisible format characters."""

import re
import unicodedata

ZERO_WIDTH_SPACE = "\u200b"  # divides the words of Khmer and Thai
# the invisible characters of the category Cf as ranges of a regular expression, without the
# joiners U+200C and U+200D, which belong to words; others of Cf, such as U+0600, are visible
IGNORED = (
    "\u00ad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_IGNORED = re.compile(f"[{IGNORED}]+")


def clean_text(text: str) -> str:
    r"""Return text in NFC, without soft hyphens, marks of direction and byte order marks.

    Canonically equivalent texts become equal. A zero width space becomes a space.

    >>> clean_text("cafe\u0301 so\u00adfa a\u200bb")
    'café sofa a b'
    """
    if text.isascii():
        return text
    if not text.isprintable():
        text = _IGNORED.sub("", text.replace(ZERO_WIDTH_SPACE, " "))
    return unicodedata.normalize("NFC", text)  # quick where nothing changes
