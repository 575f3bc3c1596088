"""The harness behind bench.py: starts a proxy and its backends, loads it, and records what it cost.

In goes a list of jobs (jobs.py) and peers (peers/); out comes one JSON object per run. settings.py holds ports and
paths, build.py compiles src/, process.py starts and stops programs, procstat.py reads their counters, calibration.py
says how fast and quiet the machine is, load.py runs the load generators, measure.py makes one measurement, memory.py
and combiner.py the two kinds that are not a closed request loop, runner.py interleaves them all, tables.py prints them.
"""
