"""The words of the small grammar: English and German forms. All of it is written by hand here; nobody's data."""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    """`kind` is "being", "thing" or "place"; `gender` "m", "f" or "n". German forms are the nominative's."""

    kind: str
    singular: str
    plural: str
    gender: str
    german: str
    german_plural: str


class Verb(NamedTuple):
    """`object` says what it takes: "being", "thing", "any" or "" (none), in the case `case` ("acc" or "dat").

    The German finite forms are those of I, he and they; `prefix` is the separable one, not part of them. `to_be`: the
    perfect is formed with sein.
    """

    base: str
    third: str
    participle: str
    object: str
    case: str
    first_german: str
    third_german: str
    plural_german: str
    participle_german: str
    prefix: str
    to_be: bool


def _nouns(kind: str, text: str) -> list[Noun]:
    return [Noun(kind, *line.split()) for line in text.strip().splitlines()]


def _verbs(takes: str, case: str, text: str) -> list[Verb]:
    found = []
    for line in text.strip().splitlines():
        english, german = (part.split() for part in line.split("|"))
        prefix = german[4] if len(german) > 4 and german[4] != "-" else ""
        found.append(Verb(*english, takes, case, *german[:4], prefix, german[-1] == "sein"))
    return found


NOUNS = [
    *_nouns(
        "being",
        """
        man men m Mann Männer
        teacher teachers m Lehrer Lehrer
        doctor doctors m Arzt Ärzte
        dog dogs m Hund Hunde
        friend friends m Freund Freunde
        uncle uncles m Onkel Onkel
        son sons m Sohn Söhne
        brother brothers m Bruder Brüder
        bird birds m Vogel Vögel
        king kings m König Könige
        woman women f Frau Frauen
        sister sisters f Schwester Schwestern
        daughter daughters f Tochter Töchter
        mother mothers f Mutter Mütter
        aunt aunts f Tante Tanten
        queen queens f Königin Königinnen
        cat cats f Katze Katzen
        cow cows f Kuh Kühe
        mouse mice f Maus Mäuse
        child children n Kind Kinder
        girl girls n Mädchen Mädchen
        horse horses n Pferd Pferde
        pig pigs n Schwein Schweine
        """,
    ),
    *_nouns(
        "thing",
        """
        table tables m Tisch Tische
        chair chairs m Stuhl Stühle
        apple apples m Apfel Äpfel
        letter letters m Brief Briefe
        car cars m Wagen Wagen
        ball balls m Ball Bälle
        key keys m Schlüssel Schlüssel
        coat coats m Mantel Mäntel
        stone stones m Stein Steine
        spoon spoons m Löffel Löffel
        lamp lamps f Lampe Lampen
        bag bags f Tasche Taschen
        flower flowers f Blume Blumen
        door doors f Tür Türen
        clock clocks f Uhr Uhren
        newspaper newspapers f Zeitung Zeitungen
        pear pears f Birne Birnen
        book books n Buch Bücher
        picture pictures n Bild Bilder
        window windows n Fenster Fenster
        knife knives n Messer Messer
        glass glasses n Glas Gläser
        shirt shirts n Hemd Hemden
        egg eggs n Ei Eier
        """,
    ),
    *_nouns(
        "place",
        """
        garden gardens m Garten Gärten
        tree trees m Baum Bäume
        train trains m Zug Züge
        wood woods m Wald Wälder
        city cities f Stadt Städte
        school schools f Schule Schulen
        bridge bridges f Brücke Brücken
        church churches f Kirche Kirchen
        kitchen kitchens f Küche Küchen
        house houses n Haus Häuser
        ship ships n Schiff Schiffe
        village villages n Dorf Dörfer
        room rooms n Zimmer Zimmer
        """,
    ),
]
# English: base, he-form, participle | German: I-, he- and they-form, participle, separable prefix, "sein" if with it
VERBS = [
    *_verbs(
        "any",
        "acc",
        """
        see sees seen | sehe sieht sehen gesehen
        find finds found | finde findet finden gefunden
        love loves loved | liebe liebt lieben geliebt
        seek seeks sought | suche sucht suchen gesucht
        carry carries carried | trage trägt tragen getragen
        draw draws drawn | zeichne zeichnet zeichnen gezeichnet
        paint paints painted | male malt malen gemalt
        wash washes washed | wasche wäscht waschen gewaschen
        hear hears heard | höre hört hören gehört
        know knows known | kenne kennt kennen gekannt
        push pushes pushed | schiebe schiebt schieben geschoben
        forget forgets forgotten | vergesse vergisst vergessen vergessen
        lose loses lost | verliere verliert verlieren verloren
        fetch fetches fetched | hole holt holen abgeholt ab
        watch watches watched | sehe sieht sehen angesehen an
        choose chooses chosen | suche sucht suchen ausgesucht aus
        """,
    ),
    *_verbs(
        "thing",
        "acc",
        """
        buy buys bought | kaufe kauft kaufen gekauft
        sell sells sold | verkaufe verkauft verkaufen verkauft
        need needs needed | brauche braucht brauchen gebraucht
        break breaks broken | zerbreche zerbricht zerbrechen zerbrochen
        open opens opened | mache macht machen aufgemacht auf
        close closes closed | mache macht machen zugemacht zu
        return returns returned | gebe gibt geben zurückgegeben zurück
        clear clears cleared | räume räumt räumen weggeräumt weg
        """,
    ),
    *_verbs(
        "being",
        "acc",
        """
        visit visits visited | besuche besucht besuchen besucht
        ask asks asked | frage fragt fragen gefragt
        praise praises praised | lobe lobt loben gelobt
        invite invites invited | lade lädt laden eingeladen ein
        call calls called | rufe ruft rufen angerufen an
        introduce introduces introduced | stelle stellt stellen vorgestellt vor
        """,
    ),
    *_verbs(
        "being",
        "dat",
        """
        help helps helped | helfe hilft helfen geholfen
        thank thanks thanked | danke dankt danken gedankt
        answer answers answered | antworte antwortet antworten geantwortet
        believe believes believed | glaube glaubt glauben geglaubt
        follow follows followed | folge folgt folgen gefolgt - sein
        """,
    ),
    *_verbs(
        "",
        "",
        """
        sleep sleeps slept | schlafe schläft schlafen geschlafen
        work works worked | arbeite arbeitet arbeiten gearbeitet
        laugh laughs laughed | lache lacht lachen gelacht
        wait waits waited | warte wartet warten gewartet
        sing sings sung | singe singt singen gesungen
        run runs run | laufe läuft laufen gelaufen - sein
        swim swims swum | schwimme schwimmt schwimmen geschwommen - sein
        fall falls fallen | falle fällt fallen gefallen - sein
        arrive arrives arrived | komme kommt kommen angekommen an sein
        leave leaves left | fahre fährt fahren abgefahren ab sein
        stop stops stopped | höre hört hören aufgehört auf
        """,
    ),
]
ADJECTIVES = {
    "being": "young jung,friendly freundlich,tired müd,lazy faul,brave mutig,rich reich,poor arm,famous berühmt",
    "thing": "new neu,heavy schwer,clean sauber,cheap billig,round rund,broken kaputt,red rot,green grün",
    "place": "quiet ruhig,dark dunkl,bright hell,new neu,famous berühmt,dirty schmutzig,cold kalt,empty leer",
    "any": "big groß,small klein,old alt,beautiful schön,ugly hässlich,strange seltsam,black schwarz,white weiß",
}
UNINFLECTED = {"müd": "müde", "dunkl": "dunkel"}  # the adjective after "to be", where it isn't the stem

PRONOUNS = [  # English subject, object; person; German nominative, accusative, dative
    ("i", "me", "first", "ich", "mich", "mir"),
    ("he", "him", "third", "er", "ihn", "ihm"),
    ("she", "her", "third", "sie", "sie", "ihr"),
    ("we", "us", "plural", "wir", "uns", "uns"),
    ("they", "them", "plural", "sie", "sie", "ihnen"),
]
POSSESSIVES = [("my", "mein"), ("his", "sein"), ("her", "ihr"), ("our", "unser"), ("their", "ihr")]
NUMBERS = [("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf")]
PREPOSITIONS = {
    "place": [("in", "in", "dat"), ("behind", "hinter", "dat"), ("in front of", "vor", "dat"), ("near", "bei", "dat")],
    "thing": [("under", "unter", "dat"), ("beside", "neben", "dat"), ("with", "mit", "dat"), ("on", "auf", "dat")],
    "being": [("without", "ohne", "acc"), ("for", "für", "acc"), ("with", "mit", "dat"), ("beside", "neben", "dat")],
}
CONTRACTIONS = {("in", "dem"): "im", ("bei", "dem"): "beim"}
TIMES = [
    *[("today", "heute"), ("now", "jetzt"), ("every day", "jeden Tag"), ("in the morning", "am Morgen")],
    *[("in the evening", "am Abend"), ("at night", "nachts"), ("on sunday", "am Sonntag"), ("in summer", "im Sommer")],
    *[("in winter", "im Winter"), ("sometimes", "manchmal"), ("this year", "dieses Jahr"), ("at noon", "mittags")],
    *[("this week", "diese Woche"), ("after dinner", "nach dem Essen"), ("on monday", "am Montag")],
]
MANNERS = [
    *[("quickly", "schnell"), ("slowly", "langsam"), ("quietly", "leise"), ("carefully", "vorsichtig")],
    *[("together", "zusammen"), ("alone", "allein")],
]
# English, "does" when it needs do-support, German forms of I, he, they. No "must": its negation is another verb.
MODALS = [
    ("can", "", "kann", "kann", "können"),
    ("should", "", "soll", "soll", "sollen"),
    ("may", "", "darf", "darf", "dürfen"),
    ("will", "", "werde", "wird", "werden"),
    ("will", "", "werde", "wird", "werden"),  # twice as often
    ("want", "does", "will", "will", "wollen"),
]
SUBORDINATORS = [
    ("because", "weil"),
    ("when", "wenn"),
    ("although", "obwohl"),
    ("before", "bevor"),
    ("while", "während"),
]
SAYING = [  # takes a clause with that / dass
    ("say", "says", "sage", "sagt", "sagen"),
    ("know", "knows", "weiß", "weiß", "wissen"),
    ("hope", "hopes", "hoffe", "hofft", "hoffen"),
    ("think", "thinks", "denke", "denkt", "denken"),
]
DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
THIS = {  # endings of dies- and jed-
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
LIKE_A = {  # endings of ein-, kein- and the possessives
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
ADJECTIVE_ENDINGS = {  # after the (weak), after a (mixed), after nothing or a number (strong; plural only)
    "weak": {
        "nom": {"m": "e", "f": "e", "n": "e", "p": "en"},
        "acc": {"m": "en", "f": "e", "n": "e", "p": "en"},
        "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
    },
    "mixed": {
        "nom": {"m": "er", "f": "e", "n": "es", "p": "en"},
        "acc": {"m": "en", "f": "e", "n": "es", "p": "en"},
        "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
    },
    "strong": {"nom": {"p": "e"}, "acc": {"p": "e"}, "dat": {"p": "en"}},
}
