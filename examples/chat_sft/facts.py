"""Plain questions with one right answer each, and the check whether a reply names it. Other recipes ask them too."""

import re

# Country, capital, continent, language; "A/B" means that either is right.
COUNTRIES = [
    tuple(line.split(", "))
    for line in """\
France, Paris, Europe, French
Germany, Berlin, Europe, German
Italy, Rome, Europe, Italian
Spain, Madrid, Europe, Spanish
Portugal, Lisbon, Europe, Portuguese
Greece, Athens, Europe, Greek
Poland, Warsaw, Europe, Polish
Hungary, Budapest, Europe, Hungarian
Austria, Vienna, Europe, German
Sweden, Stockholm, Europe, Swedish
Norway, Oslo, Europe, Norwegian
Denmark, Copenhagen, Europe, Danish
Finland, Helsinki, Europe, Finnish
Iceland, Reykjavik/Reykjavík, Europe, Icelandic
Romania, Bucharest, Europe, Romanian
Bulgaria, Sofia, Europe, Bulgarian
Croatia, Zagreb, Europe, Croatian
Serbia, Belgrade, Europe, Serbian
Estonia, Tallinn, Europe, Estonian
Ukraine, Kyiv/Kiev, Europe, Ukrainian
England, London, Europe, English
Ireland, Dublin, Europe, English/Irish
Japan, Tokyo, Asia, Japanese
China, Beijing, Asia, Chinese/Mandarin
South Korea, Seoul, Asia, Korean
Vietnam, Hanoi, Asia, Vietnamese
Thailand, Bangkok, Asia, Thai
Nepal, Kathmandu, Asia, Nepali
Indonesia, Jakarta, Asia, Indonesian
Iran, Tehran, Asia, Persian/Farsi
Iraq, Baghdad, Asia, Arabic
Jordan, Amman, Asia, Arabic
Saudi Arabia, Riyadh, Asia, Arabic
Egypt, Cairo, Africa, Arabic
Morocco, Rabat, Africa, Arabic
Libya, Tripoli, Africa, Arabic
Senegal, Dakar, Africa, French
Angola, Luanda, Africa, Portuguese
Argentina, Buenos Aires, South America, Spanish
Chile, Santiago, South America, Spanish
Peru, Lima, South America, Spanish
Brazil, Brasilia/Brasília, South America, Portuguese
Colombia, Bogota/Bogotá, South America, Spanish
Venezuela, Caracas, South America, Spanish
Uruguay, Montevideo, South America, Spanish
Cuba, Havana, North America, Spanish""".splitlines()
]

OPPOSITES = [
    tuple(pair.split(":"))
    for pair in (
        "hot:cold big:small/little up:down left:right day:night black:white happy:sad/unhappy fast:slow young:old "
        "high:low open:closed/close/shut wet:dry early:late rich:poor strong:weak loud:quiet/silent full:empty "
        "true:false good:bad/evil near:far inside:outside clean:dirty heavy:light long:short first:last win:lose "
        "love:hate begin:end "
        "push:pull buy:sell alive:dead summer:winter north:south east:west asleep:awake thick:thin deep:shallow "
        "wide:narrow war:peace give:take remember:forget"
    ).split()
]

KINDS = {
    "capital": ("What is the capital of {}?", "The capital of {} is {}.", 1),
    "continent": ("Which continent is {} in?", "{} is in {}.", 2),
    "language": ("Which language do people speak in {}?", "People in {} speak {}.", 3),
}


def questions(held_out):
    """Every fourth country and opposite is held out, with all that is asked of it; the others are for training."""
    found = []
    for number, country in enumerate(COUNTRIES):
        if (number % 4 == 3) == held_out:
            for kind, (question, sentence, column) in KINDS.items():
                name, answer = country[0], country[column]
                found.append(_task(kind, question.format(name), sentence.format(name, first(answer)), answer))
    for number, (word, opposite) in enumerate(OPPOSITES):
        if (number % 4 == 3) == held_out:
            sentence = f"The opposite of {word} is {first(opposite)}."
            found.append(_task("opposite", f"What is the opposite of {word}?", sentence, opposite))
    return found


def _task(kind, question, sentence, answer):
    return {"question": question, "sentence": sentence, "answer": answer, "kind": kind}


def first(answer):
    return answer.split("/")[0]


def others_of(kind, answer):
    """What else could be the answer to questions of its kind: whoever names several answers has not answered."""
    if kind not in KINDS:
        return []
    column = KINDS[kind][2]
    all_of_kind = {word for country in COUNTRIES for word in country[column].split("/")}
    return sorted(all_of_kind - set(answer.split("/")))


def names(reply, words):
    """Whether one of the words stands in the reply as a whole word."""
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", reply, re.IGNORECASE) for word in words)


def right(task, reply):
    """Whether the reply names the right answer, and no other one of the table."""
    return names(reply, task["answer"].split("/")) and not names(reply, others_of(task["kind"], task["answer"]))
