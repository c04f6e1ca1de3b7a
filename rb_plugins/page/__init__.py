"""The page of a run: one HTML file that needs nothing else, of a run, a rehearsal, or a plan.

`sources` gathers what is to be told, `timeline` folds a log into a `story.Story`, and the modules of the charts and
tables draw it; `document` puts the page together.
"""
