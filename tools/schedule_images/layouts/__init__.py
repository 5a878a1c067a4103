"""The layouts by name: those that can be read, and those whose only correct answer is a refusal."""

from collections.abc import Mapping

from tools.schedule_images.layouts.agenda import draw_agenda, draw_dark_list
from tools.schedule_images.layouts.cards import draw_cards, draw_two_columns
from tools.schedule_images.layouts.changes import draw_cancelled, draw_changed_times
from tools.schedule_images.layouts.days import draw_day_columns, draw_day_list
from tools.schedule_images.layouts.languages import draw_languages, draw_wrong_weekday
from tools.schedule_images.layouts.lists import draw_bullet_line, draw_list, draw_twelve_hour, draw_two_line_titles
from tools.schedule_images.layouts.refused import (
    draw_ambiguous_date,
    draw_backwards_times,
    draw_cut_right_edge,
    draw_no_date,
    draw_undecidable_halves,
    draw_upside_down,
)
from tools.schedule_images.layouts.tables import draw_roster, draw_roster_cells, draw_table
from tools.schedule_images.scene import Layout

READABLE: Mapping[str, Layout] = {
    "list": draw_list,
    "cards": draw_cards,
    "two_columns": draw_two_columns,
    "day_list": draw_day_list,
    "day_columns": draw_day_columns,
    "table": draw_table,
    "roster": draw_roster,
    "roster_cells": draw_roster_cells,
    "twelve_hour": draw_twelve_hour,
    "changed_times": draw_changed_times,
    "two_line_titles": draw_two_line_titles,
    "languages": draw_languages,
    "bullet_line": draw_bullet_line,
    "agenda": draw_agenda,
    "dark_list": draw_dark_list,
    "cancelled": draw_cancelled,
    "weekday_is_wrong": draw_wrong_weekday,
}
REFUSED: Mapping[str, Layout] = {
    "cut_right_edge": draw_cut_right_edge,
    "backwards_times": draw_backwards_times,
    "ambiguous_date": draw_ambiguous_date,
    "no_date": draw_no_date,
    "undecidable_halves": draw_undecidable_halves,
    "upside_down": draw_upside_down,
}
LAYOUTS: Mapping[str, Layout] = {**READABLE, **REFUSED}
