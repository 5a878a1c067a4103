"""Find the font families that images are drawn with, by file name, in the usual directories."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DIRECTORIES = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".fonts")


@dataclass(frozen=True)
class Family:
    """A font family: the files of its two weights, and the Debian package that has them."""

    regular: str
    bold: str
    package: str


FAMILIES = {
    "roboto": Family("Roboto-Regular.ttf", "Roboto-Bold.ttf", "fonts-roboto-unhinted"),
    "noto-sans": Family("NotoSans-Regular.ttf", "NotoSans-Bold.ttf", "fonts-noto-core"),
    "noto-serif": Family("NotoSerif-Regular.ttf", "NotoSerif-Bold.ttf", "fonts-noto-core"),
    "inter": Family("Inter-Regular.otf", "Inter-Bold.otf", "fonts-inter"),
    "lato": Family("Lato-Regular.ttf", "Lato-Bold.ttf", "fonts-lato"),
    "open-sans": Family("OpenSans-Regular.ttf", "OpenSans-Bold.ttf", "fonts-open-sans"),
    "liberation": Family("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf", "fonts-liberation"),
    "dejavu": Family("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "fonts-dejavu-core"),
}


@dataclass(frozen=True)
class Font:
    """A family whose files were found."""

    name: str
    regular: Path
    bold: Path


class MissingFonts(Exception):
    """Font files are missing; the message names them and the packages that have them."""

    def __init__(self, names: Iterable[str]) -> None:
        families = {name: FAMILIES[name] for name in names}
        files = ", ".join(f"{name} ({family.regular}, {family.bold})" for name, family in families.items())
        packages = " ".join(sorted({family.package for family in families.values()}))
        directories = ", ".join(map(str, DIRECTORIES))
        super().__init__(
            f"fonts missing in {directories}: {files}; install them with `apt-get install -y {packages}`, "
            "or draw with a single font that is there: --font NAME"
        )


def find_font(name: str) -> Font:
    """Return a family by name; raise MissingFonts when one of its files is not there."""
    family, files = FAMILIES[name], font_files()
    if not {family.regular, family.bold} <= files.keys():
        raise MissingFonts([name])
    return Font(name, files[family.regular], files[family.bold])


def missing_fonts() -> list[str]:
    """Return the names of the families that this machine does not have."""
    files = font_files()
    return [name for name, family in FAMILIES.items() if not {family.regular, family.bold} <= files.keys()]


@cache
def font_files() -> dict[str, Path]:
    """Return every font file of this machine by its name."""
    there = (directory for directory in DIRECTORIES if directory.is_dir())
    return {path.name: path for directory in there for path in sorted(directory.rglob("*.[ot]tf"))}
