"""Write dates as schedules print them, in Swedish, English, German and Finnish."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta


def split(text: str) -> Sequence[str]:
    """Return the words of a text; a list of fifty quoted syllables is harder to read."""
    return text.split()


@dataclass(frozen=True)
class Names:
    """Names of weekdays and months, full and short."""

    weekdays: Sequence[str]
    short_weekdays: Sequence[str]
    months: Sequence[str]
    short_months: Sequence[str]


NAMES: Mapping[str, Names] = {
    "sv": Names(
        split("måndag tisdag onsdag torsdag fredag lördag söndag"),
        split("mån tis ons tor fre lör sön"),
        split("januari februari mars april maj juni juli augusti september oktober november december"),
        split("jan feb mars apr maj juni juli aug sep okt nov dec"),
    ),
    "en": Names(
        split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        split("Mon Tue Wed Thu Fri Sat Sun"),
        split("January February March April May June July August September October November December"),
        split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
    ),
    "de": Names(
        split("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        split("Mo Di Mi Do Fr Sa So"),
        split("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        split("Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez."),
    ),
    "fi": Names(
        split("maanantai tiistai keskiviikko torstai perjantai lauantai sunnuntai"),
        split("ma ti ke to pe la su"),
        split(
            "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta "
            "marraskuuta joulukuuta"
        ),
        split("tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu"),
    ),
}


@dataclass(frozen=True)
class DateFormat:
    """A way to write a date: {Weekday} with a capital, {weekday} as the language has it, {wd} short, {y} the year."""

    language: str
    template: str

    @property
    def has_year(self) -> bool:
        """Is the year part of it?"""
        return "{y}" in self.template

    @property
    def has_weekday(self) -> bool:
        """Is the weekday part of it?"""
        return any(field in self.template for field in ("{weekday}", "{Weekday}", "{wd}", "{Wd}"))

    def write(self, day: date, *, weekday_offset: int = 0) -> str:
        """Write a date, with the weekday that many days off."""
        names, weekday = NAMES[self.language], (day.weekday() + weekday_offset) % 7
        full, short = names.weekdays[weekday], names.short_weekdays[weekday]
        return self.template.format(
            weekday=full, Weekday=full.capitalize(), wd=short, Wd=short.capitalize(),
            month=names.months[day.month - 1], mon=names.short_months[day.month - 1],
            d=day.day, dd=f"{day.day:02d}", m=day.month, mm=f"{day.month:02d}", y=day.year,
        )  # fmt: skip


def formats(language: str, templates: Sequence[str]) -> Sequence[DateFormat]:
    """Return the formats of these templates."""
    return [DateFormat(language, template) for template in templates]


LONG_FORMATS: Mapping[str, Sequence[DateFormat]] = {  # a header over the shifts of a day
    "sv": formats("sv", (
        "{Weekday} {d} {month} {y}", "{Weekday} {d} {month} {y}", "{weekday} {d} {month} {y}", "{Wd} {d} {mon} {y}",
        "{Weekday} {d} {month}", "Idag, {weekday} {d} {month} {y}", "{Weekday} {y}-{mm}-{dd}", "{d} {month} {y}",
        "{Weekday} {d}/{m} {y}",
    )),
    "en": formats("en", (
        "{Weekday}, {month} {d}, {y}", "{Weekday} {d} {month} {y}", "{Wd} {d} {mon} {y}", "{Wd} {d} {mon}",
        "{mon} {d}, {y}", "{Wd}, {mon} {d}, {y}",
    )),
    "de": formats("de", (
        "{Weekday}, {d}. {month} {y}", "{Wd} {d}. {mon} {y}", "{Wd} {d}. {mon}", "{Wd} {dd}.{mm}.{y}",
        "{d}. {month} {y}",
    )),
    "fi": formats("fi", (
        "{weekday} {d}. {month} {y}", "{Weekday} {d}. {month} {y}", "{wd} {d}.{m}.{y}", "{wd} {d}. {month}",
        "{d}. {month} {y}",
    )),
}  # fmt: skip
COLUMN_FORMATS: Mapping[str, Sequence[DateFormat]] = {  # the head of a column or of a row
    "sv": formats("sv", ("{Wd} {d}/{m}", "{Wd} {d}/{m}", "{d} {mon}", "{Wd} {d} {mon}", "{Weekday} {d}/{m}")),
    "en": formats("en", ("{Wd} {d} {mon}", "{mon} {d}", "{Wd}, {mon} {d}")),
    "de": formats("de", ("{Wd} {d}.{m}.", "{Wd} {d}. {mon}", "{d}. {mon}")),
    "fi": formats("fi", ("{wd} {d}.{m}.", "{Wd} {d}.{m}.")),
}
WEEKS = {"sv": "Vecka {}, {}", "en": "Week {}, {}", "de": "KW {}, {}", "fi": "Viikko {}, {}"}


def week_headings(language: str, first: date, last: date) -> Sequence[str]:
    """Return headings that give the year of these days: the week, and the month where both are in one."""
    headings = [WEEKS[language].format(first.isocalendar().week, first.year)]
    if first.month == last.month and language != "fi":  # Finnish writes this with another case
        headings.append(f"{NAMES[language].months[first.month - 1].capitalize()} {first.year}")
    assert last - first < timedelta(days=7)
    return headings
