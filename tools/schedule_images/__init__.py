"""Draw labelled images of work schedules, by a seed, to measure a reader of such images.

The generator knows nothing of the reader: neither its code, its word lists nor its limits. `generate` has the entry
points, `layouts` what is drawn, `damages` what happens to it afterwards, `truth` what a correct reading is.
"""

from tools.schedule_images.generate import Plan, Sample, plan_all, plan_some, render

__all__ = ["Plan", "Sample", "plan_all", "plan_some", "render"]
