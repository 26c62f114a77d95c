"""Sentences with the errors that recognisers, translators and typists make: what a language model should like less."""

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
"""  # and pairs that are confused in writing


def homophones() -> dict[str, list[str]]:
    """For each word those that sound like it, or are taken for it."""
    groups = [group.split() for group in _HOMOPHONES.split(";")]
    found: dict[str, list[str]] = {}
    for group in groups:
        for word in group:
            others = found.setdefault(word, [])
            others += [other for other in group if other != word and other not in others]
    return found


def similar_words(words: Iterable[str]) -> dict[str, list[str]]:
    """For each lower-case word of three letters or more those that one letter put in, out or exchanged makes of it.

    Example:

    >>> similar_words(["cat", "cut", "cart", "dog"])
    {'cat': ['cart', 'cut'], 'cut': ['cat'], 'cart': ['cat'], 'dog': []}
    """
    near = {word: set() for word in words if len(word) > 2 and word.isalpha() and word.islower()}
    exchanged: dict[str, list[str]] = {}
    for word in near:
        for i in range(len(word)):
            exchanged.setdefault(f"{word[:i]}*{word[i + 1 :]}", []).append(word)
            shorter = word[:i] + word[i + 1 :]
            if shorter in near:
                near[word].add(shorter)
                near[shorter].add(word)
    for group in exchanged.values():
        for word in group:
            near[word].update(group)
    return {word: sorted(others - {word}) for word, others in near.items()}


class Corruptions:
    """Draws wrong versions of a sentence, each with one error, whose words are all in a vocabulary.

    `swap`: two neighbouring words exchanged; `homophone`: a word that sounds alike; `deletion`: a function word left
    out; `insertion`: one put in; `substitution`: a word that differs by a letter.

    Args:
        words: the vocabulary.

    Example:

    >>> corruptions = Corruptions("the cat cut sat on their mat there".split())
    >>> for kind, words in corruptions.of("the cat sat there".split(), np.random.default_rng(0), each=1):
    ...     print(f"{kind}: {' '.join(words)}")
    swap: the sat cat there
    homophone: the cat sat their
    insertion: the cat the sat there
    substitution: the cut sat there
    """

    def __init__(self, words: Iterable[str]):
        known = set(words)
        self._function_words = sorted(FUNCTION_WORDS & known)
        self._alike = {
            "homophone": {word: [other for other in others if other in known] for word, others in _cased(homophones())},
            "substitution": similar_words(known),
        }

    def of(self, sentence: Sequence[str], random: np.random.Generator, each: int = 2) -> list[tuple[str, list[str]]]:
        """Wrong versions of a sentence with their kinds: at most `each` of a kind, none twice."""
        found = {tuple(sentence): ""}
        for kind in KINDS:
            wrong = [(*sentence[:i], *words, *sentence[j:]) for i, j, words in self._changes(kind, sentence)]
            wrong = [one for one in dict.fromkeys(wrong) if one not in found]
            drawn = random.permutation(len(wrong))[:each]
            found |= {wrong[i]: kind for i in drawn}
        return [(kind, list(wrong)) for wrong, kind in found.items() if kind]

    def _changes(self, kind: str, sentence: Sequence[str]) -> Iterator[tuple[int, int, Sequence[str]]]:
        """What may be replaced, from and to, and what by."""
        for i, word in enumerate(sentence):
            if kind == "swap":
                both = sentence[i : i + 2]
                if i and len(both) == 2 and all(map(str.isalpha, both)):  # not the capital of the first word
                    yield i, i + 2, both[::-1]
            elif kind == "insertion":
                yield from ((i, i, [new]) for new in self._function_words if i)
            elif kind == "deletion":
                if i and word in FUNCTION_WORDS:
                    yield i, i + 1, []
            else:
                yield from ((i, i + 1, [other]) for other in self._alike[kind].get(word, ()))


def _cased(words: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """As they are, and as they begin a sentence."""
    for word, others in words.items():
        yield word, others
        yield word.capitalize(), [other.capitalize() for other in others]
