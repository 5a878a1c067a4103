"""The demo: one item through each domain to its end, in a database of its own whose clock is moved.

    ./duly up --demo
       |-- .duly/demo             a server, a fresh database with a movable clock, images and a log of its own
       |-- api, worker            the same as ever; the worker knows one more type of job (`errands`)
       +-- the story              acts through the services that doors call, and watches until workers have done theirs

Nothing is pretended: what a chapter tells, it has just read from the database or from what the worker printed. A step
that does not come within its time ends the story, with its name, with what was seen instead, and with what `explain`
says. A chapter is a file: `screenshots`, `reminder`, `post`, `job`; `stage` is what they act on, `narrator` tells them.
"""

from tools.demo.database import make_fresh
from tools.demo.narrator import Narrator, narrator_of
from tools.demo.story import ERRANDS, tell_story, tell_what_it_is

__all__ = ["ERRANDS", "Narrator", "make_fresh", "narrator_of", "tell_story", "tell_what_it_is"]
