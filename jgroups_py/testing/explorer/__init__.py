"""The lab: cases drawn from seeds, played, judged, made smaller, written and replayed.

    lab.py         the interface of a back end, and the findings of a run
    many.py        many seeds on all cores          pool.py   jobs over processes
    case_text.py   a case as JSON, and back
    shrink.py      a smaller case                   back_ends.py   all back ends, files of all kinds
    clusters.py    settings of explored clusters
    stacks/        whole clusters of any stack      caches/   callers of caches
    buddies/       the machine of buddy replication alone
    bytes/         hostile bytes for decoders and clusters

``jgroups-py dev simulate``, ``dev buddy-explore`` and ``dev fuzz`` are its commands; design/simulate.md tells how it is made.

May import: testing.check, testing.sim, testing.histories, drill and the rooms below.
Imported by: the kit, tools.
"""
