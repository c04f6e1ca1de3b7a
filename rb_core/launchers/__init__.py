"""Launchers: one trial's stage on given slots of this machine, one process for each slot.

Processes stand in a chain, so that whatever dies, nothing is left behind::

    the program that launches
      fork-server        preloads torch and the training function once; never trains       forkserver.py
        warden           one for each start of a trial; owns all its processes             warden.py
          rank 0, 1, ... run the training function                                         rank.py

The fork-server and the wardens adopt orphans below them (PR_SET_CHILD_SUBREAPER), so processes that a rank started
and abandoned are found and ended too. Each member watches the one above it and ends when that is gone. Needs Linux
5.3 (pidfd_open).
"""
