"""The demo: one item through each domain to its end, in a database of its own whose clock is moved.

    ./duly up --demo
       |-- .duly/demo             a server, a fresh database with a movable clock, images and a log of its own
       |-- api, worker            as in production; the worker has one more job type (`demo_jobs`)
       +-- the story              calls the services that the API calls, and waits until workers have finished

Nothing is simulated: every chapter prints what it has just read from the database or from the worker's output. A step
that times out ends the story with its name, the state that was found instead, and the text of `explain`. Each chapter
is a file: `screenshots`, `reminder`, `post`, `job`; `stage` holds what they act on, `narrator` prints them.
"""

from tools.demo.database import create_demo_database
from tools.demo.narrator import Narrator, make_narrator
from tools.demo.story import DEMO_APP, introduce, run_story

__all__ = ["DEMO_APP", "Narrator", "create_demo_database", "introduce", "make_narrator", "run_story"]
