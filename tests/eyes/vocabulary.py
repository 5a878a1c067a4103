"""Words for screens that were never seen: one half to develop with, the other to report on."""

from dataclasses import dataclass

__all__ = ["DEVELOPMENT", "REPORT", "Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """What titles, customers and places are made of."""

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
        "Storstädning", "Kontorsstädning", "Flyttstädning", "Trappstädning", "Matlagning", "Barnpassning", "Möte",
        "Jour", "Restid", "Introduktion", "Trädgårdsarbete", "Läkarbesök, ledsagning", "Öppning", "Stängning",
        "Ärenden", "Tillsyn", "Avlösning", "Medicinering", "Övernattning", "Ångtvätt", "Äldreboende, natt",
        "Städning (extra)", "Window Cleaning", "Veckohandling", "Sårvård", "Måltidsstöd", "Bäddning",
        "Höstlövsröjning",
    ),
    customers=(
        "Maria Johansson", "Per-Åke Nilsson", "Brf Tallbacken", "Gun Åström", "Jörgen Ölund", "Coop Östra Torget",
        "Skolan Växthuset", "Ragnar Blå", "Familjen Österlund", "Birgit Hallström", "Kjell Ågren", "Pizzeria Söder",
        "Fru Mårtensson", "Kund 9034", "T. Bergström", "Vårdcentralen Norr", "Märit Sköld", "Bageri Ängeln",
        "Älvans Blommor", "Oskar Lööf", "Tage Härd", "Yasmin Öztürk", "Hörnets Livs HB", "Advokat Röhss",
        "Åhléns City", "Rut Kåberg",
    ),
    places=(
        "Borås", "Alingsås", "Lerum", "Kungsbacka", "Öxnäs", "Årsta", "Älta", "Västerås", "Örebro", "Skövde",
        "Mariestad", "Trollhättan", "Vänersborg", "Växjö", "Hällefors", "Ängelholm", "Östersund", "Luleå", "Gävle",
        "Åre", "Malmö", "Södra Sandby", "Stora Höga", "Hjo",
    ),
)  # fmt: skip
