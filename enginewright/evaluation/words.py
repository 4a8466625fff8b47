"""Plain words that prompts are made of: a table."""

_OPENERS = """
Yesterday | Today | Later | Often | Sometimes | Meanwhile | At noon | At first | In spring | In
winter | Last year | After lunch | Before dawn | Some say | Perhaps | Every week | Once |
Finally | By accident | As planned | For years | In the end | This morning | On Monday | On
Friday | In theory | In practice | Far away | Nearby | Without warning
"""

_ADJECTIVES = """
old new small large quiet loud bright dark early late green red blue white black cold warm dry
wet heavy light strong weak simple complex famous local foreign ancient modern careful gentle
rapid slow deep shallow narrow wide empty full clean rough smooth sharp soft hard young tall
short long rich poor happy sad calm busy open hidden broken frozen golden wooden public private
natural steady distant nearby common rare curious honest proud silent
"""

_NOUNS = """
river mountain village teacher student doctor farmer sailor writer painter engine machine bridge
garden forest island harbor market kitchen library letter window mirror ladder basket hammer
pencil camera signal planet comet lantern candle blanket barrel feather pebble meadow valley
desert glacier canyon lake field road tower castle temple station ticket wagon tractor rocket
robot circuit battery magnet crystal metal stone brick paper book map song story poem question
answer lesson number table chair door wall roof floor lamp clock bell wheel rope boat ship train
horse dog bird fish tree leaf root seed flower cloud storm wind wave star moon
"""

_VERBS = """
found built moved carried painted repaired visited watched followed measured counted studied
described designed tested opened closed crossed lifted dropped covered cleaned broke joined
divided protected changed remembered forgot lost sold bought borrowed returned saved shared
invented collected explained compared reached missed passed touched turned
"""

_PLACES = """
near | behind | above | below | beside | around | beyond | across from | next to | in front of |
far from | close to | on top of | under | inside | outside
"""


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


OPENERS = _phrases(_OPENERS)
ADJECTIVES = tuple(_ADJECTIVES.split())
NOUNS = tuple(_NOUNS.split())
VERBS = tuple(_VERBS.split())
PLACES = _phrases(_PLACES)
