"""Drills: sites, traffic, a timeline of faults and expectations, from a YAML file.

    values    units: durations, sizes, rates, percentages, ranges
    model     the file as frozen dataclasses, each with its line
    loader    YAML -> model; every mistake names file, line and the nearest known key
    plan      model + seed -> the events and their times (``Plan``)
    resolve   ``NYC.relay`` -> a member, at the moment an event fires
    log       the events of a run: one record a line; the payload the load generators send
    evidence  the records, sorted by sends, deliveries and views
    judge     the verdict, from what applications saw alone
    flows     messages from one site to another: latency, lag, gaps
    figures   RTO, latency, lag, buffers, for an operator (cache_figures: of caches)
    table     the table on the terminal
    report    one offline HTML page of a run; seeds_report of many
    picture   its time line: lanes, interruptions, bands; curves and panels below it
    happenings  its list of faults, views, suspicions
    simulated, real     the two ways to run a plan
    cli       ``jgroups-py drill``

The judge imports nothing of the protocols.

May import: channel, cache, maps, livebackup, buckets and testing.sim.
Imported by: testing.explorer, spark, tools.
"""
