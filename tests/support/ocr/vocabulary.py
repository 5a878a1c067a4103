"""Words for drawn screens: one half for development, the other for reporting.

The reader knows no word of REPORT with å, ä or ö: neither `swedish_words.txt` nor DEVELOPMENT contains it, in full or
in part. A diacritic that is right in the report was therefore recognised.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """Titles, customers and places to draw."""

    titles: tuple[str, ...]
    customers: tuple[str, ...]
    places: tuple[str, ...]


DEVELOPMENT = Vocabulary(
    titles=(
        "Städning", "Hemstädning", "Fönsterputs", "Tvätt och strykning", "Handling", "Promenad", "Personalmöte",
        "Nyckelhantering", "Lunch", "Rast", "Utbildning", "Hemtjänst", "Morgonpass", "Kvällspass", "Duschhjälp",
        "Städning (2 pers)", "Återbesök", "Överlämning", "Åtgärdsmöte", "Ögonmottagning", "Byggstädning", "Cleaning",
        "Snöskottning", "Gräsklippning", "Läxhjälp", "Tandläkarbesök, följe", "Inköp åt kund",
    ),
    customers=(
        "Anna Svensson", "Lars Åkerblom", "Brf Måsen", "Karin Öhman", "Bo Lindström", "ICA Maxi Högsbo", "Åke Dahl",
        "Göteborgs Stad", "Förskolan Ekorren", "Ingrid Sjöberg", "Familjen Hägglund", "Örjan Bäck", "Ängens Café",
        "Nils-Göran Ek", "Kund 1208", "Elsa Ström", "Vårdhemmet Solgården", "Hotell Äpplet", "P. Söderlund",
        "Ali Hassan", "Saga Wåhlin", "Bröderna Ahl AB", "Zoë Fröberg", "Villa 22B", "Café Mjölnar'n", "Tränby Gård",
    ),
    places=(
        "Mölnlycke", "Landvetter", "Härryda", "Angered", "Majorna", "Hisings Backa", "Åkered", "Önnered", "Tynnered",
        "Styrsö", "Ängås", "Bergsjön", "Kortedala", "Gårdsten", "Eriksberg", "Sävedalen", "Öjersjö", "Rävlanda",
        "Åsa", "Fjärås", "Ytterby", "Norra Älvstranden", "Lilla Edet",
    ),
)  # fmt: skip
REPORT = Vocabulary(
    titles=(
        "Häckklippning", "Däckbyte", "Fotvård", "Låsbyte", "Matlagning", "Barnpassning", "Utkörning", "Jour", "Restid",
        "Introduktion", "Blodtrycksmätning", "Översättning", "Öronspolning", "Överrapportering", "Övervakning",
        "Åkgräsklippare", "Åskledare, kontroll", "Åkning till kund", "Ängsslåtter", "Ärtsoppa, servering",
        "Äggplockning", "Tillsyn", "Medicinering", "Väckning", "Nattväckning", "Förbandsbyte", "Sängvändning (2 pers)",
        "Window Cleaning", "Veckohandling", "Höbärgning", "Rörinspektion", "Båtvård",
    ),
    customers=(
        "Maria Johansson", "Per-Ånund Nilsson", "Brf Tallbacken", "Gun Åsbrink", "Jöran Öqvist", "Coop Ölandsbron",
        "Skolan Mården", "Ragnar Blå", "Familjen Östensson", "Birgit Törnell", "Kjell Åfeldt", "Pizzeria Röd",
        "Fru Håård", "Kund 9034", "T. Bågenholm", "Kliniken Norr", "Göta Fåhraeus", "Bageri Änglamat",
        "Älvas Blommor", "Oskar Nordlöf", "Tage Hård", "Yasmin Öztürk", "Trätofflan HB", "Advokat Röhss",
        "Åhléns City", "Rut Jäder", "Örnulf Hägg", "Håkon Öijer", "Ädelfors Bygg", "Åsmund Låftman",
    ),
    places=(
        "Ödåkra", "Ödsmål", "Lerum", "Kungsbacka", "Öregrund", "Årnäs", "Älghult", "Väckelsång", "Ösmo", "Åryd",
        "Mariestad", "Tällberg", "Vålådalen", "Bårslöv", "Gäddede", "Äskhult", "Örviken", "Råneå", "Mörsil", "Ålem",
        "Åmotfors", "Norra Färila", "Kågeröd", "Hjo", "Ärla", "Påskallavik",
    ),
)  # fmt: skip
