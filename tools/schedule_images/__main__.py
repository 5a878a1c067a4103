"""Write labelled images of work schedules, to measure a reader of such images.

    python -m tools.schedule_images --seed 1 --count 50 --out DIR     50 images, every layout as often as the others
    python -m tools.schedule_images --seed 1 --all --out DIR          every layout x font x damage once
    … --layout list --font roboto --damage jpeg                       only these; each may be given several times
    python -m tools.schedule_images --list                            the names of layouts, fonts and damages

DIR/truth.json lists what each image shows. The same arguments write the same files. Exit status 2 when fonts are
missing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.schedule_images.damages import DAMAGES
from tools.schedule_images.fonts import FAMILIES, MissingFonts, missing_fonts
from tools.schedule_images.generate import Plan, plan_all, plan_some, render
from tools.schedule_images.layouts import LAYOUTS, READABLE, REFUSED

MISSING = 2  # exit status


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the images that the command line asks for."""
    options = parse(arguments)
    if options.list:
        print(f"layouts: {' '.join(READABLE)}\nto be refused: {' '.join(REFUSED)}")
        print(f"fonts: {' '.join(FAMILIES)}\ndamages: {' '.join(DAMAGES)}")
        return 0
    chosen = options.layout or list(LAYOUTS), options.font or list(FAMILIES), options.damage or list(DAMAGES)
    if missing := [name for name in missing_fonts() if name in chosen[1]]:
        print(MissingFonts(missing), file=sys.stderr)
        return MISSING
    plans = plan_all(options.seed, *chosen) if options.all else plan_some(options.seed, options.count, *chosen)
    count = write(list(plans), options.out)
    print(f"{count} images and truth.json written to {options.out}")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.schedule_images",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--layout", action="append", choices=list(LAYOUTS))
    parser.add_argument("--font", action="append", choices=list(FAMILIES))
    parser.add_argument("--damage", action="append", choices=list(DAMAGES))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    if not options.list and options.out is None:
        parser.error("--out DIR is missing")
    return options


def write(plans: Sequence[Plan], directory: Path) -> int:
    """Write an image for each plan, and the truth of all of them; return how many there are."""
    directory.mkdir(parents=True, exist_ok=True)
    truths, digits = list[dict[str, Any]](), max(3, len(str(len(plans) - 1)))
    for number, plan in enumerate(plans):
        sample = render(plan)
        file = f"{number:0{digits}d}-{plan.name}.{sample.suffix}"
        (directory / file).write_bytes(sample.data)
        labels = {"file": file, "layout": plan.layout, "font": plan.font, "damage": plan.damage}
        truths.append({**labels, **sample.truth.to_json()})
    (directory / "truth.json").write_text(json.dumps(truths, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return len(plans)


if __name__ == "__main__":
    sys.exit(main())
