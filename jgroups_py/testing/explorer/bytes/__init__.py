"""Fuzzing: hostile bytes for every decoder and for whole simulated clusters.

    corpus.py    byte strings to begin with, made by our own encoders and by simulated clusters
    spots.py     where in a byte string the numbers, lengths and counts are: the decoders themselves tell
    mutate.py    one byte string made into another
    cover.py     which lines of our code an input reaches, in which order
    targets.py   what is attacked, and which one error may come out
    guard.py     one input: run, timed, its memory watched
    work.py      what a chunk of inputs is given and comes back with
    decoder.py   a chunk for a decoder
    cluster.py, attacks.py, stacks.py    whole clusters under attack; a chunk for them
    engine.py    chunks of all targets over all cores

The same seed gives the same inputs, on however many cores. ``jgroups-py dev fuzz`` is the command; design/fuzzing.md
tells why it is made this way.

May import: drill, testing.sim and what is below, and the lab.
Imported by: tools.
"""
