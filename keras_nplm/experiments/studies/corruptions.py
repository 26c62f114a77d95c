"""Wrong versions of sentences: errors that speech recognition, translation and typing make."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

KINDS = ("swap", "homophone", "deletion", "insertion", "substitution")
FUNCTION_WORDS = frozenset(
    "a an the of to in on at by for with from as and or but that this is are was were be been has have had it he she "
    "they his her their its not no so if than then".split()
)
_HOMOPHONES = """
their there they're; to too two; its it's; your you're; whose who's; then than; were where wear; we're weir; hear
here; know no; knew new; right write rite; by buy bye; for four fore; one won; our hour; be bee; sea see; in inn; or
oar ore; son sun; son's sun's; would wood; some sum; made maid; mail male; main mane; meat meet; week weak; way weigh;
wait weight; which witch; whether weather; threw through thorough; peace piece; plain plane; principal principle; role
roll; root route; sale sail; scene seen; sight site cite; so sew sow; sole soul; stair stare; steal steel; tail tale;
tide tied; war wore; waste waist; wave waive; rain reign rein; read red; real reel; rose rows; board bored; brake
break; cell sell; cent sent scent; coarse course; council counsel; dear deer; die dye; fair fare; feat feet; find
fined; flew flu; flour flower; great grate; groan grown; guessed guest; hair hare; hall haul; heal heel; heard herd;
higher hire; him hymn; hole whole; idle idol; knight night; lead led; lessen lesson; loan lone; missed mist; morning
mourning; none nun; pail pale; pair pear pare; passed past; patience patients; pause paws; poor pour; pray prey;
presence presents; rap wrap; road rode; serial cereal; shoot chute; soar sore; stake steak; straight strait; suite
sweet; team teem; throne thrown; toe tow; vain vein vane; vary very; wade weighed; ware wear; world whirled; allowed
aloud; altar alter; ate eight; aisle isle; bare bear; base bass; beat beet; blew blue; born borne; capital capitol;
ceiling sealing; chord cord; complement compliment; cue queue; desert dessert; dual duel; earn urn; ensure insure;
fourth forth; gate gait; hi high; horse hoarse; lie lye; medal metal; miner minor; mind mined; naval navel; not knot;
overdue overdo; pole poll; profit prophet; ring wring; side sighed; sign sine; stationary stationery; time thyme;
wrote rote; affect effect; accept except; advice advise; quite quiet; of have; off of; lose loose
"""  # words that sound alike, and words that writers confuse


def list_homophones() -> dict[str, list[str]]:
    """Return for each word the words that sound like it or are confused with it."""
    groups = [group.split() for group in _HOMOPHONES.split(";")]
    homophones: dict[str, list[str]] = {}
    for group in groups:
        for word in group:
            others = homophones.setdefault(word, [])
            others += [other for other in group if other != word and other not in others]
    return homophones


def find_similar_words(words: Iterable[str]) -> dict[str, list[str]]:
    """Return for each lower-case word of three letters or more the words at an edit distance of one letter.

    Example:

    >>> find_similar_words(["cat", "cut", "cart", "dog"])
    {'cat': ['cart', 'cut'], 'cut': ['cat'], 'cart': ['cat'], 'dog': []}
    """
    similar = {word: set() for word in words if len(word) > 2 and word.isalpha() and word.islower()}
    by_pattern: dict[str, list[str]] = {}  # words that are equal but for the letter at *
    for word in similar:
        for i in range(len(word)):
            by_pattern.setdefault(f"{word[:i]}*{word[i + 1 :]}", []).append(word)
            shorter = word[:i] + word[i + 1 :]
            if shorter in similar:
                similar[word].add(shorter)
                similar[shorter].add(word)
    for group in by_pattern.values():
        for word in group:
            similar[word].update(group)
    return {word: sorted(others - {word}) for word, others in similar.items()}


class Corruptions:
    """Random wrong versions of a sentence, each with one error, with words of a vocabulary only.

    Kinds of errors: `swap` (two neighbouring words are exchanged), `homophone` (a word that sounds alike), `deletion`
    (a function word is missing), `insertion` (a function word too many), `substitution` (a word that differs in one
    letter).

    Args:
        words: the vocabulary.

    Example:

    >>> corruptions = Corruptions("the cat cut sat on their mat there".split())
    >>> for kind, words in corruptions.sample("the cat sat there".split(), np.random.default_rng(0), each=1):
    ...     print(f"{kind}: {' '.join(words)}")
    swap: the sat cat there
    homophone: the cat sat their
    insertion: the cat the sat there
    substitution: the cut sat there
    """

    def __init__(self, words: Iterable[str]):
        known = set(words)
        self._function_words = sorted(FUNCTION_WORDS & known)
        homophones = _add_capitals(list_homophones())
        self._alike = {
            "homophone": {word: [other for other in others if other in known] for word, others in homophones},
            "substitution": find_similar_words(known),
        }

    def sample(
        self, sentence: Sequence[str], random: np.random.Generator, each: int = 2
    ) -> list[tuple[str, list[str]]]:
        """Return wrong versions with their kinds, (kind, words): at most `each` of a kind, all different."""
        versions = {tuple(sentence): ""}
        for kind in KINDS:
            wrong = [(*sentence[:i], *words, *sentence[j:]) for i, j, words in self._list_edits(kind, sentence)]
            wrong = [words for words in dict.fromkeys(wrong) if words not in versions]
            versions |= {wrong[i]: kind for i in random.permutation(len(wrong))[:each]}
        return [(kind, list(words)) for words, kind in versions.items() if kind]

    def _list_edits(self, kind: str, sentence: Sequence[str]) -> Iterator[tuple[int, int, Sequence[str]]]:
        """Yield all edits of a kind: (begin, end, words that replace the words from begin to end)."""
        for i, word in enumerate(sentence):
            if kind == "swap":
                pair = sentence[i : i + 2]
                if i and len(pair) == 2 and all(map(str.isalpha, pair)):  # the first word has a capital
                    yield i, i + 2, pair[::-1]
            elif kind == "insertion":
                yield from ((i, i, [new]) for new in self._function_words if i)
            elif kind == "deletion":
                if i and word in FUNCTION_WORDS:
                    yield i, i + 1, []
            else:
                yield from ((i, i + 1, [other]) for other in self._alike[kind].get(word, ()))


def _add_capitals(words: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries in lower case and with a capital, as at the start of a sentence."""
    for word, others in words.items():
        yield word, others
        yield word.capitalize(), [other.capitalize() for other in others]
